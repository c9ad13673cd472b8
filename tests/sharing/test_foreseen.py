"""What may be sent before it is decided and persisted: what is sure to be decided so, and what a
crash would have counted as delivered anyway."""

from __future__ import annotations

from pyk.coordinator.share_state.batches import StateBatch
from pyk.coordinator.share_state.state import PRESUMED
from pyk.sharing.delivery import Acquired
from pyk.sharing.share_partition import SharePartition
from tests.sharing.group import ACCEPT, AVAILABLE, LIMITS, RELEASE, Group


def test_the_next_few_records_may_be_sent_first() -> None:
    group = Group(100)
    assert group.foresees(100, 100 + PRESUMED)
    assert group.fetch("ann", (100, 100 + PRESUMED)) == [Acquired(100, 99 + PRESUMED, 1)]


def test_more_than_a_crash_presumes_may_not() -> None:
    assert not Group(100).foresees(100, 101 + PRESUMED)


def test_they_are_counted_from_what_is_persisted() -> None:
    group = Group()
    group.fetch("ann", (0, 1000))
    assert group.foresees(1000, 1000 + PRESUMED)


def test_nothing_is_foreseen_while_something_can_be_had_that_was_delivered_before() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    group.say("ann", 9, 9, RELEASE)
    assert not group.foresees(9, 10)
    assert not group.foresees(10, 11)


def test_nor_of_what_lies_in_between() -> None:
    """It counts as delivered as often as it was persisted to be."""
    group = Group(0, [StateBatch(5, 9, AVAILABLE, 1)])
    assert not group.foresees(0, 5)
    assert not group.foresees(10, 11)


def test_nor_of_what_is_behind_records_that_nobody_has_fetched() -> None:
    assert not Group().foresees(1, 2)


def test_nothing_is_foreseen_of_a_batch_that_was_fetched_in_part() -> None:
    group = Group()
    group.fetch("ann", (0, 4), max_records=2, is_strict=True)
    assert not group.foresees(0, 4)


def test_who_takes_fewer_records_than_the_batch_has_waits_for_what_is_decided() -> None:
    group = Group()
    assert group.foresees(0, 3, max_records=3)
    assert not group.foresees(0, 3, max_records=2)


def test_so_does_who_comes_when_the_window_is_full() -> None:
    group = Group(limits=LIMITS._replace(in_flight=10))
    group.fetch("ann", (0, 8))
    assert group.foresees(8, 10)
    assert not group.foresees(8, 11)


def test_nothing_is_sent_first_while_something_else_is_to_be_persisted() -> None:
    """What came before it might get lost, and with it where the rest begins."""
    group = Group()
    _, first = group.begin_to_fetch("ann", (0, 1))
    assert not group.foresees(1, 2)
    group.share.settle(first, is_persisted=True)
    assert group.foresees(1, 2)


def test_nor_while_that_is_an_acknowledgement() -> None:
    group = Group()
    group.fetch("ann", (0, 1))
    change = group.begin_to_say("ann", 0, 0, ACCEPT)
    assert not group.foresees(1, 2)
    group.share.settle(change, is_persisted=True)
    assert group.foresees(1, 2)


def test_after_a_failure_all_is_persisted_first() -> None:
    group = Group()
    _, sent = group.begin_to_fetch("ann", (0, 1))
    group.share.settle(sent, is_persisted=True)
    group.share.doubt()
    assert not group.foresees(1, 2)
    _, change = group.begin_to_fetch("ann", (1, 2))
    assert change.batches == [StateBatch(0, 1, AVAILABLE, 1)]
    group.share.settle(change, is_persisted=True)
    assert group.foresees(2, 3)


def test_a_start_that_was_not_persisted_is_not_known_after_a_crash() -> None:
    group = Group()
    group.share = SharePartition(0, 100, is_known=False)
    assert not group.foresees(100, 101)
    group.fetch("ann", (100, 101))
    assert group.foresees(101, 102)


def test_where_the_log_begins_later_nothing_is_presumed() -> None:
    """The start that is persisted is the old one."""
    group = Group()
    group.share.on_log_start(1000)
    assert not group.foresees(1000, 1001)
