"""Some hundreds of the crash points that `make crash` tries by the hundred thousand."""

from __future__ import annotations

import pytest

from tests.log.crashes import run
from tests.log.races import crash_races


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_anywhere_leaves_whole_logs_with_all_that_was_flushed(seed: int) -> None:
    assert run(seed) > 50


@pytest.mark.parametrize("seed", range(4))
def test_maintenance_that_races_with_anything_leaves_each_log_its_own_records(seed: int) -> None:
    assert crash_races(seed, steps=15) > 10
