"""How often records are delivered, and with how many others."""

from __future__ import annotations

import pytest

from pyk.coordinator.share_state.batches import StateBatch
from pyk.sharing.delivery import Acquired, Dead, Reason
from tests.sharing.group import ARCHIVED, LIMITS, RELEASE, Group


def delivered(times: int, *, size: int = 8, limit: int = 5) -> Group:
    """A group to which the first records were delivered, and were given back each time."""
    return Group(0, [StateBatch(0, size - 1, 0, times)], limits=LIMITS._replace(deliveries=limit))


def test_at_the_limit_a_record_is_archived_and_dead() -> None:
    group = delivered(4, size=1)
    assert group.fetch("ann", (0, 1)) == [Acquired(0, 0, 5)]
    change = group.say("ann", 0, 0, RELEASE)
    assert change.batches == [StateBatch(0, 0, ARCHIVED, 5)]
    assert change.dead == [Dead(0, 1, 5, Reason.DELIVERIES)]
    assert group.share.start_offset == 1


def test_at_the_limit_a_lock_that_is_over_is_the_end() -> None:
    group = delivered(4, size=1)
    group.fetch("ann", (0, 1))
    group.now = 30.0
    assert group.expire().dead == [Dead(0, 1, 5, Reason.DELIVERIES)]


def test_a_record_that_was_the_end_of_all_who_had_it_is_set_aside() -> None:
    group = delivered(4, size=1)
    group.fetch("ann", (0, 1))
    assert group.leave("ann").dead == [Dead(0, 1, 5, Reason.DELIVERIES)]
    assert group.fetch("bob", (0, 1)) == []


def test_a_limit_that_was_lowered_holds_for_what_was_delivered_before() -> None:
    group = delivered(3, size=4)
    group.limits = LIMITS._replace(deliveries=2)
    acquired, change = group.begin_to_fetch("ann", (0, 4), (4, 6))
    assert acquired == [Acquired(4, 5, 1)]
    assert change.dead == [Dead(0, 4, 3, Reason.DELIVERIES)]


@pytest.mark.parametrize(
    ("times", "limit", "size"),
    [
        (2, 5, 8),
        (3, 5, 4),
        (4, 5, 1),
        (1, 2, 8),
        (2, 3, 1),
        (5, 10, 4),
        (6, 10, 2),
        (7, 10, 1),
        (9, 10, 1),
    ],
)
def test_what_was_delivered_often_is_delivered_by_less_and_less(
    times: int, limit: int, size: int
) -> None:
    """From half of the limit on, a half, then a quarter and so on, and at last one."""
    group = delivered(times, limit=limit)
    assert group.fetch("ann", (0, 8)) == [Acquired(0, size - 1, times + 1)]


def test_a_suspicious_record_takes_no_others_with_it() -> None:
    batches = [StateBatch(0, 3, 0, 1), StateBatch(4, 4, 0, 4), StateBatch(5, 9, 0, 1)]
    group = Group(0, batches)
    assert group.fetch("ann", (0, 10), (10, 20)) == [Acquired(0, 3, 2)]
    assert group.fetch("bob", (0, 10), (10, 20)) == [Acquired(4, 4, 5)]
    assert group.fetch("cy", (0, 10), (10, 20)) == [Acquired(5, 9, 2), Acquired(10, 19, 1)]
