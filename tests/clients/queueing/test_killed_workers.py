"""Workers of a share group, who die over some records. They and the broker are killed besides."""

from __future__ import annotations

from pathlib import Path

from tests.clients.queueing.run import BROKER, Plan, Run

RECORDS, WORKERS, KILLS = 2_000, 3, 3


def test_a_queue_is_worked_through_and_what_is_poisoned_set_aside_though_all_are_killed(
    tmp_path: Path,
) -> None:
    worked = Run(Plan(records=RECORDS, workers=WORKERS, kills=KILLS), tmp_path).work()
    assert worked.verdict.mistakes == []
    assert worked.kills.total() == KILLS
    assert worked.kills[BROKER] == 1
    assert worked.died > 0, "there is a record that kills its readers"
    assert worked.verdict.redelivered > 0
