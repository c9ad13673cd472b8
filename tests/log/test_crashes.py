"""Some hundreds of the crash points that `make crash` tries by the hundred thousand."""

from __future__ import annotations

import pytest

from tests.log.crashes import run


@pytest.mark.parametrize("seed", range(12))
def test_a_crash_anywhere_loses_nothing_that_was_flushed(seed: int) -> None:
    assert run(seed).recovered > 50
