"""Copiers that read, write and commit offsets in transactions. They and the broker are killed."""

from __future__ import annotations

from pathlib import Path

from tests.clients.copying.run import BROKER, Plan, Run

RECORDS, AT_ONCE, KILLS = 8_000, 50, 6


def test_a_copy_has_each_record_once_and_in_order_though_all_are_killed(tmp_path: Path) -> None:
    copied = Run(Plan(records=RECORDS, at_once=AT_ONCE, kills=KILLS), tmp_path / "data").copy()
    assert copied.mistakes == []
    assert copied.kills.total() == KILLS
    assert 0 < copied.kills[BROKER] < KILLS, "both are killed"
