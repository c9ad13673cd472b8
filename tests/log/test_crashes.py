"""Some hundreds of the crash points that `make crash` tries by the hundred thousand."""

from __future__ import annotations

import pytest

from tests.log.crashes import run


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_anywhere_leaves_whole_logs_with_all_that_was_flushed(seed: int) -> None:
    assert run(seed) > 50
