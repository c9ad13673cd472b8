"""What a leader begins with."""

from __future__ import annotations

from pyk.coordinator.share_state.batches import StateBatch
from pyk.sharing.delivery import Acquired, Dead, Reason
from pyk.sharing.share_partition import SharePartition
from tests.sharing.group import ACKNOWLEDGED, ARCHIVED, AVAILABLE, LIMITS, Group


def test_it_goes_on_where_it_was() -> None:
    share = SharePartition(7, 100, [])
    assert (share.state_epoch, share.start_offset, share.end_offset) == (7, 100, 100)
    assert share.next_fetch_offset() == 100


def test_what_nothing_was_persisted_of_is_available() -> None:
    group = Group(10, [StateBatch(12, 14, ACKNOWLEDGED, 1), StateBatch(17, 19, AVAILABLE, 2)])
    assert (group.share.start_offset, group.share.end_offset) == (10, 20)
    assert group.share.delivery_complete_count == 3
    assert group.share.next_fetch_offset() == 10
    assert group.fetch("ann", (0, 12), (12, 17)) == [Acquired(10, 11, 1), Acquired(15, 16, 1)]
    assert group.share.next_fetch_offset() == 17


def test_what_is_complete_at_the_beginning_is_not_in_the_window() -> None:
    batches = [StateBatch(0, 4, ACKNOWLEDGED, 1), StateBatch(5, 9, ARCHIVED, 5)]
    share = SharePartition(0, 0, batches)
    assert (share.start_offset, share.in_flight, share.delivery_complete_count) == (10, 0, 0)


def test_a_delivery_counts_though_the_broker_was_killed() -> None:
    group = Group()
    _, change = group.begin_to_fetch("ann", (0, 10))
    restarted = Group(change.start_offset, change.batches)
    assert restarted.fetch("bob", (0, 10)) == [Acquired(0, 9, 2)]


def test_what_was_delivered_for_the_last_time_is_dead_after_a_restart() -> None:
    share = SharePartition(0, 0, [StateBatch(0, 0, AVAILABLE, 5), StateBatch(1, 2, AVAILABLE, 4)])
    change = share.recover(LIMITS)
    assert change.dead == [Dead(0, 1, 5, Reason.DELIVERIES)]
    assert change.batches == [StateBatch(0, 0, ARCHIVED, 5)]
    assert change.start_offset == 1
    share.settle(change, is_persisted=True)
    assert share.next_fetch_offset() == 1


def test_batches_that_make_no_sense_do_no_harm() -> None:
    strange = [StateBatch(8, 9, 77, 1), StateBatch(0, 6, ACKNOWLEDGED, 1), StateBatch(6, 5, 0, 0)]
    share = SharePartition(0, 5, strange)
    assert (share.start_offset, share.end_offset, share.next_fetch_offset()) == (7, 10, 7)
