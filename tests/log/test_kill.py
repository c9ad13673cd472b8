"""Some of the kills that `make kill` tries by the hundred: a real process on a real disk."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.log.killed_writer import kill_repeatedly


def test_nothing_that_was_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    found = kill_repeatedly(tmp_path, kills=10, rng=Random(1))
    assert found[-1].acknowledged > 300
    assert found[-1].segments > 10
