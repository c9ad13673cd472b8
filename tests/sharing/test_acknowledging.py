"""What members say of records, and how they are refused."""

from __future__ import annotations

import pytest

from pyk.coordinator.share_state.batches import StateBatch
from pyk.errors import ErrorCode, KafkaError
from pyk.sharing.delivery import Acknowledgement, Acquired, Dead, Reason
from tests.sharing.group import (
    ACCEPT,
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    LIMITS,
    REJECT,
    RELEASE,
    Group,
)


@pytest.fixture
def group() -> Group:
    """Ann has 0 to 9, and Bob 10 to 14."""
    group = Group()
    group.fetch("ann", (0, 10))
    group.fetch("bob", (10, 15))
    return group


def test_the_window_begins_behind_what_is_accepted(group: Group) -> None:
    change = group.say("ann", 0, 4, ACCEPT)
    assert change.batches == [StateBatch(0, 4, ACKNOWLEDGED, 1)]
    assert (change.start_offset, change.delivery_complete_count) == (5, 0)
    assert group.share.start_offset == 5


def test_what_is_accepted_behind_others_is_counted(group: Group) -> None:
    change = group.say("bob", 10, 14, ACCEPT)
    assert (change.start_offset, change.delivery_complete_count) == (0, 5)
    assert group.share.delivery_complete_count == 5
    change = group.say("ann", 0, 9, ACCEPT)
    assert (change.start_offset, change.delivery_complete_count) == (15, 0)
    assert group.share.in_flight == 0


def test_each_offset_may_have_a_type_of_its_own(group: Group) -> None:
    change = group.say("ann", 0, 5, ACCEPT, RELEASE, RELEASE, REJECT, GAP, ACCEPT)
    assert change.batches == [
        StateBatch(0, 0, ACKNOWLEDGED, 1),
        StateBatch(1, 2, AVAILABLE, 1),
        StateBatch(3, 4, ARCHIVED, 1),
        StateBatch(5, 5, ACKNOWLEDGED, 1),
    ]
    assert change.dead == [Dead(3, 4, 1, Reason.REJECTED)]
    assert change.start_offset == 1
    assert group.fetch("bob", (0, 10), max_records=2) == [Acquired(1, 2, 2)]


def test_what_is_before_the_window_is_passed_over(group: Group) -> None:
    group.say("ann", 0, 4, ACCEPT)
    assert group.say("ann", 0, 3, RELEASE).is_empty
    assert group.say("ann", 2, 6, ACCEPT).batches == [StateBatch(5, 6, ACKNOWLEDGED, 1)]
    assert group.say("ann", 5, 8, GAP, GAP, ACCEPT, REJECT).start_offset == 9


@pytest.mark.parametrize(
    ("member", "first", "last", "message"),
    [
        ("bob", 0, 9, "Member is not the owner of batch record"),
        ("bob", 3, 5, "Member is not the owner of offset"),
        ("ann", 5, 12, "Member is not the owner of offset"),
    ],
)
def test_members_speak_of_their_own_records(
    group: Group, member: str, first: int, last: int, message: str
) -> None:
    with pytest.raises(KafkaError, match=message) as refused:
        group.say(member, first, last, ACCEPT)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    assert group.share.acquired == 15


def test_nothing_is_acknowledged_twice(group: Group) -> None:
    group.say("ann", 3, 4, ACCEPT)
    with pytest.raises(KafkaError, match="The batch is not in the acquired state") as refused:
        group.say("ann", 3, 4, ACCEPT)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    with pytest.raises(KafkaError, match="The offset is not acquired"):
        group.say("ann", 3, 3, RELEASE)


def test_an_empty_window_knows_no_records() -> None:
    with pytest.raises(KafkaError, match="not found in the cache") as refused:
        Group().say("ann", 0, 0, ACCEPT)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize(
    ("first", "last", "types", "message"),
    [
        (15, 15, [ACCEPT], "The first offset in request is past acquired records"),
        (14, 15, [ACCEPT], "The last offset in request is past acquired records"),
        (5, 4, [ACCEPT], "Invalid offsets"),
        (-2, 4, [ACCEPT], "Invalid offsets"),
        (0, 2**63 - 1, [ACCEPT], "The last offset in request is past acquired records"),
        (0, 4, [], "Invalid number of acknowledge types"),
        (0, 4, [ACCEPT, ACCEPT], "Invalid number of acknowledge types"),
        (0, 0, [5], "Invalid acknowledge type"),
        (0, 1, [ACCEPT, -1], "Invalid acknowledge type"),
    ],
)
def test_nonsense_is_refused(
    group: Group, first: int, last: int, types: list[int], message: str
) -> None:
    with pytest.raises(KafkaError, match=message) as refused:
        group.say("ann", first, last, *types)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert group.share.acquired == 15


@pytest.mark.parametrize(
    ("first", "code"),
    [(3, ErrorCode.INVALID_REQUEST), (4, ErrorCode.INVALID_RECORD_STATE)],
)
def test_all_is_acknowledged_or_nothing(group: Group, first: int, code: ErrorCode) -> None:
    said = [Acknowledgement(0, 4, [ACCEPT]), Acknowledgement(first, 6, [ACCEPT])]
    with pytest.raises(KafkaError) as refused:
        group.share.acknowledge("ann", said, LIMITS, 0.0)
    assert refused.value.code is code
    assert group.share.acquired == 15
    assert group.say("ann", 0, 9, ACCEPT).start_offset == 10
