"""How long members have what they have acquired."""

from __future__ import annotations

from pyk.coordinator.share_state.batches import StateBatch
from pyk.sharing.delivery import Acquired, Delivery, RecordState
from pyk.sharing.locks import Locks
from pyk.sharing.runs import Runs
from tests.sharing.group import ACCEPT, AVAILABLE, RELEASE, RENEW, Group


def test_what_is_kept_for_too_long_is_available_again() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    assert group.share.deadline() == 30.0
    group.now = 29.9
    assert group.expire().is_empty
    group.now = 30.0
    assert group.expire().batches == [StateBatch(0, 9, AVAILABLE, 1)]
    assert group.share.deadline() is None
    assert group.fetch("bob", (0, 10)) == [Acquired(0, 9, 2)]


def test_each_lock_has_its_own_time() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    group.now = 10.0
    group.fetch("bob", (10, 20))
    group.say("ann", 0, 9, ACCEPT)
    assert group.share.deadline() == 40.0


def test_a_lock_may_be_renewed_for_some_of_the_records() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    group.now = 20.0
    assert group.say("ann", 2, 3, RENEW).is_empty
    group.now = 30.0
    assert group.expire().batches == [
        StateBatch(0, 1, AVAILABLE, 1),
        StateBatch(4, 9, AVAILABLE, 1),
    ]
    assert group.share.deadline() == 50.0
    group.say("ann", 2, 3, ACCEPT)


def test_what_a_member_has_that_leaves_is_for_others() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    group.fetch("bob", (10, 20))
    group.say("ann", 0, 4, RELEASE)
    assert group.fetch("ann", (0, 10)) == [Acquired(0, 4, 2)]
    assert group.leave("ann").batches == [
        StateBatch(0, 4, AVAILABLE, 2),
        StateBatch(5, 9, AVAILABLE, 1),
    ]
    assert group.share.acquired == 10
    assert group.leave("ann").is_empty


def test_locks_that_were_given_up_are_not_kept() -> None:
    runs: Runs[Delivery] = Runs(0)
    locks = Locks(runs)
    for number in range(10_000):
        runs.put(number, number + 1, Delivery(RecordState.ACQUIRED, 1, "ann", number))
        locks.add(number, number, number + 1)
        runs.drop_before(number - 5)
        assert len(locks) < 100
    assert locks.deadline() == 9994
