"""Java's client copies in transactions of the second version, and all are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.clients.java_copier import java_copier
from tests.clients.copying.run import BROKER, Plan, Run

RECORDS, AT_ONCE, KILLS = 8_000, 20, 4


@pytest.mark.transactions
def test_a_copy_has_each_record_once_and_in_order_though_all_are_killed(tmp_path: Path) -> None:
    plan = Plan(records=RECORDS, at_once=AT_ONCE, kills=KILLS, command=java_copier)
    copied = Run(plan, tmp_path / "data").copy()
    assert copied.mistakes == []
    assert copied.kills.total() == KILLS
    assert 0 < copied.kills[BROKER] < KILLS, "both are killed"
