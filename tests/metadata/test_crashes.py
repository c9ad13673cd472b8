"""Some hundreds of the crash points that `make crash` tries by the ten thousand."""

from __future__ import annotations

import pytest

from tests.metadata.crashes import run


@pytest.mark.parametrize("seed", [0, 1, 20, 57])
def test_a_crash_anywhere_leaves_a_store_with_all_that_was_answered(seed: int) -> None:
    # 20 and 57 are among the few that see a stale claim of what was synced, and a full disk whose
    # half of a line comes back.
    assert run(seed) > 50
