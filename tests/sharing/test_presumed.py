"""What may be sent before it is persisted: what a crash would have counted as delivered anyway."""

from __future__ import annotations

from pyk.coordinator.share_state.batches import StateBatch
from pyk.coordinator.share_state.state import PRESUMED
from pyk.sharing.delivery import Span
from pyk.sharing.share_partition import SharePartition
from tests.sharing.group import ACCEPT, AVAILABLE, RELEASE, Group


def test_the_next_few_records_may_be_sent_first() -> None:
    group = Group(100)
    _, change = group.begin_to_fetch("ann", (100, 100 + PRESUMED))
    assert group.share.is_presumed(change)


def test_more_than_a_crash_presumes_may_not() -> None:
    group = Group(100)
    _, change = group.begin_to_fetch("ann", (100, 101 + PRESUMED))
    assert not group.share.is_presumed(change)


def test_they_are_counted_from_what_is_persisted() -> None:
    group = Group()
    group.fetch("ann", (0, 1000))
    _, change = group.begin_to_fetch("ann", (1000, 1000 + PRESUMED))
    assert group.share.is_presumed(change)


def test_nothing_is_presumed_of_what_was_delivered_before() -> None:
    """It counts as delivered as often as it was persisted to be."""
    group = Group()
    group.fetch("ann", (0, 10))
    group.say("ann", 9, 9, RELEASE)
    _, change = group.begin_to_fetch("bob", (9, 11))
    assert [part.base for part in change.parts] == [9, 10]
    assert not group.share.is_presumed(change)


def test_nor_of_what_lies_in_between() -> None:
    group = Group(0, [StateBatch(5, 9, AVAILABLE, 1)])
    _, change = group.begin_to_fetch("ann", (0, 5))
    assert not group.share.is_presumed(change)


def test_nothing_is_sent_first_while_something_else_is_to_be_persisted() -> None:
    """What came before it might get lost, and with it where the rest begins."""
    group = Group()
    _, first = group.begin_to_fetch("ann", (0, 1))
    _, second = group.begin_to_fetch("bob", (1, 2))
    assert not group.share.is_presumed(second)
    group.share.settle(first, is_persisted=True)
    group.share.settle(second, is_persisted=True)
    _, third = group.begin_to_fetch("ann", (2, 3))
    assert group.share.is_presumed(third)


def test_after_a_failure_all_is_persisted_first() -> None:
    group = Group()
    _, sent = group.begin_to_fetch("ann", (0, 1))
    group.share.settle(sent, is_persisted=True)
    group.share.doubt()
    _, change = group.begin_to_fetch("ann", (1, 2))
    assert not group.share.is_presumed(change)
    assert change.batches == [StateBatch(0, 1, AVAILABLE, 1)]
    group.share.settle(change, is_persisted=True)
    _, change = group.begin_to_fetch("ann", (2, 3))
    assert group.share.is_presumed(change)


def test_a_start_that_was_not_persisted_is_not_known_after_a_crash() -> None:
    share = SharePartition(0, 100, is_known=False)
    group = Group()
    group.share = share
    _, change = group.begin_to_fetch("ann", (100, 101))
    assert not share.is_presumed(change)
    share.settle(change, is_persisted=True)
    _, change = group.begin_to_fetch("ann", (101, 102))
    assert share.is_presumed(change)


def test_what_is_archived_on_the_way_is_persisted_first() -> None:
    group = Group()
    _, change = group.begin_to_fetch("ann", (0, 2), (2, 4), aborted=[Span(0, 2)])
    assert len(change.parts) == 2
    assert not group.share.is_presumed(change)


def test_where_the_log_begins_later_nothing_is_presumed() -> None:
    """The start that is persisted is the old one."""
    group = Group()
    group.share.on_log_start(1000)
    _, change = group.begin_to_fetch("ann", (1000, 1001))
    assert not group.share.is_presumed(change)


def test_an_acknowledgement_is_nothing_to_send() -> None:
    group = Group()
    group.fetch("ann", (0, 1))
    assert not group.share.is_presumed(group.begin_to_say("ann", 0, 0, ACCEPT))
