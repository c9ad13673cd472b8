"""A short form of `make hostile`: all attacks at once, and a good client that goes on."""

from __future__ import annotations

from tests.server.attacks import ATTACKS
from tests.server.hostile import RESIDENT_BYTES_MAX, Scale, besieged

SHORT = Scale(seconds=0.5, many=50)


def test_hostile_clients_harm_nobody() -> None:
    with besieged(SHORT) as siege:
        before = siege.good.report()
        assert siege.attack_with_all(ATTACKS) < RESIDENT_BYTES_MAX
        during, after = siege.good.report(), siege.good.report()
    assert before.keys() == during.keys() == after.keys()
