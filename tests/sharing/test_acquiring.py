"""Who gets which records."""

from __future__ import annotations

from pyk.coordinator.share_state.batches import StateBatch
from pyk.sharing.delivery import Acquired, Span
from tests.sharing.group import ACCEPT, ARCHIVED, AVAILABLE, LIMITS, RELEASE, Group


def test_members_get_different_records() -> None:
    group = Group()
    assert group.fetch("ann", (0, 10)) == [Acquired(0, 9, 1)]
    assert group.share.next_fetch_offset() == 10
    assert group.fetch("bob", (0, 10), (10, 15)) == [Acquired(10, 14, 1)]
    assert group.fetch("cy", (0, 10), (10, 15)) == []
    assert group.share.acquired == 15


def test_a_delivery_is_persisted_before_records_are_sent() -> None:
    _, change = Group().begin_to_fetch("ann", (0, 10))
    assert change.batches == [StateBatch(0, 9, AVAILABLE, 1)]
    assert (change.start_offset, change.delivery_complete_count) == (0, 0)


def test_whole_record_batches_are_handed_out() -> None:
    group = Group()
    assert group.fetch("ann", (0, 10), (10, 20), (20, 30), max_records=11) == [Acquired(0, 19, 1)]
    assert group.share.next_fetch_offset() == 20


def test_who_is_strict_gets_no_more_than_it_asked_for() -> None:
    group = Group()
    assert group.fetch("ann", (0, 10), max_records=4, is_strict=True) == [Acquired(0, 3, 1)]
    assert group.share.next_fetch_offset() == 4
    assert group.fetch("bob", (0, 10), max_records=4, is_strict=True) == [Acquired(4, 7, 1)]


def test_records_come_in_pieces_that_end_with_a_record_batch() -> None:
    batches = [(base, base + 4) for base in range(0, 24, 4)]
    assert Group().fetch("ann", *batches, batch_size=6) == [
        Acquired(0, 7, 1),
        Acquired(8, 15, 1),
        Acquired(16, 23, 1),
    ]


def test_what_is_available_again_comes_before_what_is_new() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    group.say("ann", 3, 4, RELEASE)
    assert group.share.next_fetch_offset() == 3
    assert group.fetch("bob", (0, 10), (10, 12)) == [Acquired(3, 4, 2), Acquired(10, 11, 1)]
    assert group.share.redeliveries == 2


def test_no_more_is_looked_at_than_can_be_handed_out() -> None:
    group = Group()
    assert group.share.reach(0, 5) == 5
    group.fetch("ann", (0, 10))
    group.say("ann", 3, 4, RELEASE)
    assert group.share.reach(3, 1) == 4
    assert group.share.reach(3, 2) == 5
    assert group.share.reach(3, 3) == 11, "what ann has is passed over"


def test_a_full_window_gives_out_only_what_is_in_it() -> None:
    group = Group(limits=LIMITS._replace(in_flight=10))
    group.fetch("ann", (0, 10))
    assert not group.share.can_acquire(group.limits)
    assert group.fetch("bob", (10, 20)) == []
    group.say("ann", 5, 5, RELEASE)
    assert group.share.can_acquire(group.limits)
    assert group.fetch("bob", (0, 10), (10, 20)) == [Acquired(5, 5, 2)]
    group.say("ann", 0, 3, ACCEPT)
    assert group.fetch("bob", (10, 20), is_strict=True) == [Acquired(10, 13, 1)]


def test_offsets_between_record_batches_are_archived() -> None:
    group = Group()
    acquired, change = group.begin_to_fetch("ann", (0, 5), (8, 10))
    assert acquired == [Acquired(0, 4, 1), Acquired(8, 9, 1)]
    assert StateBatch(5, 7, ARCHIVED, 0) in change.batches
    assert change.dead == []
    assert change.delivery_complete_count == 3


def test_a_window_that_is_empty_begins_with_the_first_record() -> None:
    group = Group()
    acquired, change = group.begin_to_fetch("ann", (100, 110))
    assert acquired == [Acquired(100, 109, 1)]
    assert (change.start_offset, group.share.in_flight) == (100, 10)


def test_nobody_gets_records_of_aborted_transactions() -> None:
    group = Group()
    batches = [(0, 5), (5, 10), (10, 15)]
    acquired = group.fetch("ann", *batches, aborted=[Span(0, 5), Span(10, 15)])
    assert acquired == [Acquired(5, 9, 1)]
    assert group.share.start_offset == 5
    group.say("ann", 5, 9, ACCEPT)
    assert group.share.start_offset == 15


def test_what_compaction_has_taken_is_archived_and_is_no_dead_letter() -> None:
    group = Group()
    group.fetch("ann", (0, 5), (5, 10))
    group.say("ann", 0, 4, RELEASE)
    acquired, change = group.begin_to_fetch("bob", (5, 10), (10, 12))
    assert acquired == [Acquired(10, 11, 1)]
    assert change.batches[0] == StateBatch(0, 4, ARCHIVED, 2)
    assert change.dead == []


def test_nothing_read_is_nothing_acquired() -> None:
    acquired, change = Group().begin_to_fetch("ann")
    assert acquired == []
    assert change.is_empty
