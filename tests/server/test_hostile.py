"""A short form of `make hostile`: all attacks at once, requests that ask for a little of what they
may ask for, and a good client that goes on."""

from __future__ import annotations

from tests.server.attacks import ATTACKS
from tests.server.hostile import RESIDENT_BYTES_MAX, Scale, besieged
from tests.server.wide_groups import ROWS as ROWS_OF_GROUPS
from tests.server.wide_requests import ROWS, longest_waits

SHORT = Scale(seconds=0.5, many=50)


def test_hostile_clients_harm_nobody() -> None:
    with besieged(SHORT) as siege:
        before = siege.good.report()
        assert siege.attack_with_all(ATTACKS) < RESIDENT_BYTES_MAX
        during, after = siege.good.report(), siege.good.report()
    assert before.keys() == during.keys() == after.keys()


def test_requests_that_ask_for_much_are_answered_while_others_are() -> None:
    with besieged(SHORT) as siege:
        waits = dict(longest_waits(siege, ROWS, [10]))
    assert list(waits) == [name for name, _ in ROWS]


def test_groups_and_transactions_of_much_are_answered_while_others_are() -> None:
    with besieged(SHORT) as siege:
        waits = dict(longest_waits(siege, ROWS_OF_GROUPS, [10]))
    assert list(waits) == [name for name, _ in ROWS_OF_GROUPS]
