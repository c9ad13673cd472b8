"""Records that are deleted while they are in flight."""

from __future__ import annotations

from pyk.coordinator.share_state.batches import StateBatch
from tests.sharing.group import ACCEPT, ACKNOWLEDGED, RELEASE, Group


def test_the_window_begins_no_earlier_than_the_log() -> None:
    group = Group()
    group.fetch("ann", (0, 10), (10, 20))
    group.say("ann", 0, 4, RELEASE)
    assert group.share.on_log_start(12).is_empty
    assert (group.share.start_offset, group.share.acquired) == (12, 8)
    assert group.share.next_fetch_offset() == 20


def test_who_has_deleted_records_may_say_what_it_will() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    group.share.on_log_start(5)
    change = group.say("ann", 0, 9, ACCEPT)
    assert change.batches == [StateBatch(5, 9, ACKNOWLEDGED, 1)]
    assert change.start_offset == 10


def test_what_is_deleted_before_more_is_handed_out_with_it_does_not_count_as_complete() -> None:
    group = Group()
    group.fetch("ann", (0, 5))
    accepted = group.begin_to_say("ann", 0, 4, ACCEPT)
    group.share.on_log_start(3)
    _, change = group.begin_to_fetch("ann", (5, 10), onto=accepted)
    assert change is accepted
    assert (change.start_offset, change.delivery_complete_count) == (5, 0)


def test_the_log_may_begin_behind_all_of_the_window() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    group.share.on_log_start(50)
    assert (group.share.start_offset, group.share.end_offset) == (50, 50)
    assert group.share.acquired == 0
    assert group.share.deadline() is None


def test_what_is_complete_behind_the_deleted_records_leaves_as_well() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    group.say("ann", 5, 7, ACCEPT)
    change = group.share.on_log_start(5)
    assert (change.start_offset, change.delivery_complete_count) == (8, 0)


def test_records_may_be_deleted_in_transition() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    change = group.begin_to_say("ann", 0, 7, ACCEPT)
    group.share.on_log_start(5)
    group.share.settle(change, is_persisted=False)
    assert (group.share.start_offset, group.share.acquired) == (5, 5)
    group.say("ann", 5, 9, ACCEPT)
    assert group.share.start_offset == 10


def test_a_log_that_began_before_changes_nothing() -> None:
    group = Group(10)
    group.share.on_log_start(3)
    assert group.share.start_offset == 10
