"""Changes that are decided, and not yet persisted."""

from __future__ import annotations

import pytest

from pyk.coordinator.share_state.batches import StateBatch
from pyk.errors import ErrorCode, KafkaError
from pyk.sharing.delivery import KEEP_START_OFFSET, Acquired
from tests.sharing.group import ACCEPT, ACKNOWLEDGED, AVAILABLE, LIMITS, RELEASE, RENEW, Group


def test_until_it_is_settled_an_acquisition_cannot_be_touched() -> None:
    group = Group()
    _, change = group.begin_to_fetch("ann", (0, 10))
    with pytest.raises(KafkaError, match="could not be completed") as refused:
        group.say("ann", 0, 9, ACCEPT)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    assert group.fetch("bob", (0, 10)) == []
    assert group.leave("ann").is_empty
    group.now = 31.0
    assert group.share.deadline() is None
    assert group.expire().is_empty
    group.share.settle(change, is_persisted=True)
    assert group.share.deadline() == 30.0


def test_an_acquisition_that_is_taken_back_is_none() -> None:
    group = Group()
    _, change = group.begin_to_fetch("ann", (0, 10))
    assert group.share.acquired == 10
    assert group.share.settle(change, is_persisted=False)
    assert (group.share.acquired, group.share.next_fetch_offset()) == (0, 0)
    assert group.fetch("bob", (0, 10)) == [Acquired(0, 9, 1)]


def test_an_acknowledgement_that_is_taken_back_leaves_the_records_to_the_member() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    change = group.begin_to_say("ann", 0, 9, ACCEPT)
    with pytest.raises(KafkaError):
        group.say("ann", 0, 9, RENEW)
    assert not group.share.settle(change, is_persisted=False)
    assert group.share.acquired == 10
    assert group.share.deadline() == 30.0
    assert group.say("ann", 0, 9, ACCEPT).start_offset == 10


def test_a_lock_may_be_over_when_an_acknowledgement_is_taken_back() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    change = group.begin_to_say("ann", 0, 9, ACCEPT)
    group.now = 31.0
    assert group.expire().is_empty
    group.share.settle(change, is_persisted=False)
    assert group.expire().batches == [StateBatch(0, 9, AVAILABLE, 1)]
    assert group.fetch("bob", (0, 10)) == [Acquired(0, 9, 2)]


def test_who_waits_is_woken_by_what_it_can_have() -> None:
    group = Group()
    _, acquired = group.begin_to_fetch("ann", (0, 10))
    assert not group.share.settle(acquired, is_persisted=True)
    accepted = group.begin_to_say("ann", 5, 6, ACCEPT)
    assert not group.share.settle(accepted, is_persisted=True)
    first = group.begin_to_say("ann", 0, 0, ACCEPT)
    assert group.share.settle(first, is_persisted=True)
    released = group.begin_to_say("ann", 8, 8, RELEASE)
    assert group.share.next_fetch_offset() == 10
    assert group.share.settle(released, is_persisted=True)
    assert group.share.next_fetch_offset() == 8


def test_start_offsets_that_are_written_do_not_go_back() -> None:
    """The second is written while nobody knows if the first one was."""
    group = Group()
    group.fetch("ann", (0, 10))
    first = group.begin_to_say("ann", 0, 4, ACCEPT)
    second = group.begin_to_say("ann", 5, 6, ACCEPT)
    assert (first.start_offset, first.delivery_complete_count) == (5, 0)
    assert (second.start_offset, second.delivery_complete_count) == (KEEP_START_OFFSET, 2)
    group.share.settle(first, is_persisted=True)
    third = group.begin_to_say("ann", 9, 9, ACCEPT)
    assert (third.start_offset, third.delivery_complete_count) == (5, 1)
    group.share.settle(third, is_persisted=True)
    group.share.settle(second, is_persisted=True)
    assert (group.share.start_offset, group.share.delivery_complete_count) == (7, 1)


def test_after_a_failure_everything_is_written() -> None:
    """What has failed may have been written all the same, and the start offset with it."""
    group = Group()
    group.fetch("ann", (0, 10))
    failed = group.begin_to_say("ann", 0, 9, ACCEPT)
    group.share.settle(failed, is_persisted=False)
    change = group.say("ann", 5, 6, ACCEPT)
    assert change.start_offset == 0
    assert change.batches == [
        StateBatch(0, 4, AVAILABLE, 1),
        StateBatch(5, 6, ACKNOWLEDGED, 1),
        StateBatch(7, 9, AVAILABLE, 1),
    ]
    assert group.say("ann", 7, 7, ACCEPT).batches == [StateBatch(7, 7, ACKNOWLEDGED, 1)]


def test_locks_may_be_over_again_when_that_could_not_be_persisted() -> None:
    group = Group()
    group.fetch("ann", (0, 10))
    group.now = 30.0
    change = group.share.expire(LIMITS, group.now)
    group.share.settle(change, is_persisted=False)
    assert group.share.deadline() == 30.0
    assert group.expire().batches == [StateBatch(0, 9, AVAILABLE, 1)]


def test_nothing_to_persist_is_nothing_to_settle() -> None:
    group = Group()
    change = group.share.expire(LIMITS, 0.0)
    assert change.is_empty
    assert not group.share.settle(change, is_persisted=False)
