from __future__ import annotations

import pytest

from pyk.coordinator.group import GroupType
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.payloads.consumer_protocol import ConsumerProtocolSubscription
from pyk.wire.prefixed import encode_value
from tests.coordinator.classic.coordinator import GROUP, MIDNIGHT_MS, Coordinator

E = ErrorCode


def subscribed(*topics: str, version: int = 0) -> dict[str, bytes]:
    said = ConsumerProtocolSubscription(topics=list(topics))
    return {"range": encode_value(said, version)}


def refusal_of_commit(
    it: Coordinator,
    member_id: str = "",
    generation: int = -1,
    instance_id: str | None = None,
    is_transactional: bool = False,
) -> ErrorCode:
    try:
        it.group.check_commit(
            member_id, instance_id, generation, version=9, is_transactional=is_transactional
        )
    except KafkaError as refusal:
        return refusal.code
    return E.NONE


def refusals(it: Coordinator) -> tuple[ErrorCode, ErrorCode]:
    """Of deleting offsets, and the group."""
    found = []
    for check in (it.group.check_offset_delete, it.group.check_delete):
        try:
            check()
        except KafkaError as refusal:
            found.append(refusal.code)
        else:
            found.append(E.NONE)
    return found[0], found[1]


def test_a_group_that_has_offsets_only_takes_commits_from_anybody() -> None:
    it = Coordinator()
    group = it.machine.simple(GROUP)
    assert (group.type, group.state, group.protocol_type) == (GroupType.CLASSIC, "Empty", "")
    assert refusal_of_commit(it) == E.NONE
    assert refusal_of_commit(it, "somebody") == E.NONE
    assert refusal_of_commit(it, "somebody", generation=0) == E.UNKNOWN_MEMBER_ID
    assert group.offsets_age_from(123) == 123
    assert not group.is_subscribed_to("orders")
    assert refusals(it) == (E.NONE, E.NONE)


def test_members_of_a_stable_group_may_commit_in_their_generation() -> None:
    it = Coordinator()
    [ann] = it.stable(1)
    assert refusal_of_commit(it, ann, 1) == E.NONE
    assert refusal_of_commit(it, ann, 2) == E.ILLEGAL_GENERATION
    assert refusal_of_commit(it, ann) == E.ILLEGAL_GENERATION
    assert refusal_of_commit(it, "nobody", 1) == E.UNKNOWN_MEMBER_ID
    assert refusal_of_commit(it, ann, 1, "one") == E.UNKNOWN_MEMBER_ID
    assert refusal_of_commit(it) == E.UNKNOWN_MEMBER_ID
    assert refusal_of_commit(it, is_transactional=True) == E.NONE
    assert refusal_of_commit(it, ann, 7, is_transactional=True) == E.ILLEGAL_GENERATION


def test_who_has_joined_and_not_synced_may_not_commit() -> None:
    it = Coordinator()
    [ann] = it.completing(1)
    assert refusal_of_commit(it, ann, 1) == E.REBALANCE_IN_PROGRESS
    assert refusal_of_commit(it, ann, 1, is_transactional=True) == E.NONE


def test_who_has_to_rejoin_may_commit_what_it_has_done() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    it.join(ann)
    assert refusal_of_commit(it, bob, 1) == E.NONE


def test_a_fenced_member_may_not_commit() -> None:
    it = Coordinator()
    it.join(instance_id="one")
    it.settle()
    it.hand_out()
    [member_id] = it.group.members
    assert refusal_of_commit(it, member_id, 1, "one") == E.NONE
    assert refusal_of_commit(it, "old", 1, "one") == E.FENCED_INSTANCE_ID


def test_to_commit_is_a_sign_of_life() -> None:
    it = Coordinator()
    [ann] = it.stable(1, session_timeout_ms=10_000)
    it.pass_time(9)
    it.group.note_commit(ann, it.now)
    it.group.note_commit("nobody", it.now)
    it.pass_time(9)
    assert ann in it.group.members


def test_only_an_empty_group_may_be_deleted() -> None:
    it = Coordinator()
    [ann] = it.completing(1)
    assert refusals(it) == (E.NONE, E.NON_EMPTY_GROUP)
    it.hand_out()
    assert refusals(it) == (E.NONE, E.NON_EMPTY_GROUP)
    it.join(ann, protocols={"range": b"new"})
    assert refusals(it) == (E.NONE, E.NON_EMPTY_GROUP)
    it.leave(ann)
    assert refusals(it) == (E.NONE, E.NONE)


def test_offsets_of_a_group_that_no_broker_understands_stay_while_it_has_members() -> None:
    it = Coordinator()
    it.stable(1, protocol_type="connect")
    assert refusals(it) == (E.NON_EMPTY_GROUP, E.NON_EMPTY_GROUP)


@pytest.mark.parametrize("version", range(4))
def test_a_consumer_group_is_subscribed_to_what_its_members_are(version: int) -> None:
    it = Coordinator(group_initial_rebalance_delay_ms=100)
    it.newcomer(protocols=subscribed("orders", "bills", version=version))
    it.newcomer(protocols=subscribed("bills", "letters", version=version))
    it.pass_time(1)
    it.hand_out()
    for _ in range(2):
        assert it.group.subscribed_topics == frozenset(("orders", "bills", "letters"))
        assert it.group.is_subscribed_to("orders")
        assert not it.group.is_subscribed_to("parcels")
        it.restart()


@pytest.mark.parametrize("said", [b"", b"\0", b"\0\0\0\0\0\1", b"any topic", b"\xff" * 40])
def test_who_cannot_be_understood_may_be_subscribed_to_anything(said: bytes) -> None:
    it = Coordinator()
    it.stable(1, protocols={"range": said})
    assert it.group.is_subscribed_to("orders")
    assert it.group.offsets_age_from(5) is None


def test_a_group_that_is_no_consumer_is_subscribed_to_nothing() -> None:
    it = Coordinator()
    it.stable(1, protocol_type="connect", protocols=subscribed("orders"))
    assert not it.group.is_subscribed_to("orders")
    assert it.group.offsets_age_from(5) is None


def test_offsets_age_from_when_the_group_became_empty() -> None:
    it = Coordinator()
    [ann] = it.stable(1, protocols=subscribed("orders"))
    assert it.group.offsets_age_from(5) == 5, "of topics that it has turned from"
    it.join(ann)
    assert it.group.offsets_age_from(5) is None
    it.pass_time(3)
    it.leave(ann)
    became_empty = MIDNIGHT_MS + 1_003_000
    assert it.group.offsets_age_from(5) == became_empty
    it.pass_time(100)
    it.restart()
    assert it.group.offsets_age_from(5) == became_empty


def test_a_stable_group_is_described_with_what_members_said() -> None:
    it = Coordinator()
    [ann] = it.stable(1, client_id="app")
    described = it.machine.describe(it.group, 7)
    assert (described.group_id, described.group_state) == (GROUP, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    assert described.authorized_operations == 7
    [member] = described.members
    assert (member.member_id, member.group_instance_id) == (ann, None)
    assert (member.client_id, member.client_host) == ("app", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"any topic", ann.encode())


def test_in_a_rebalance_a_group_is_described_without_it() -> None:
    it = Coordinator()
    [ann] = it.completing(1)
    described = it.machine.describe(it.group, 7)
    assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
    assert [m.member_metadata for m in described.members] == [b""]
    it.leave(ann)
    described = it.machine.describe(it.group, 7)
    assert (described.group_state, described.protocol_type) == ("Empty", "consumer")
    assert described.members == []
