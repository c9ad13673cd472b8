"""Groups whose members change from the classic protocol to the new one, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from pyk.config.broker import BrokerConfig
from pyk.coordinator.classic.group import ClassicGroup
from pyk.coordinator.consumer.consumer_protocol import decode_assignment, encode_assignment
from pyk.coordinator.consumer.member import MemberState
from pyk.coordinator.group import Caller
from pyk.coordinator.machine import Ticket
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.codec import encode
from pyk.wire.messages.heartbeat import HeartbeatRequest
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyk.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pyk.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pyk.wire.payloads.consumer_protocol import ConsumerProtocolSubscription, OwnedPartitions
from tests.coordinator.consumer.coordinator import GROUP, Coordinator, Held

OLD = Caller(9, "old", "/10.0.0.2")


def subscription(topics: Iterable[str], held: Held) -> bytes:
    said = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[OwnedPartitions(topic=t, partitions=sorted(p)) for t, p in held.items()],
    )
    (body,) = encode(said, 3)
    assert isinstance(body, bytes | bytearray | memoryview)
    return b"\0\3" + bytes(body)


class Migration(Coordinator):
    """A coordinator, with members who speak the classic protocol."""

    def classic_join(
        self,
        member_id: str,
        *topics: str,
        held: Held | None = None,
        protocol: str = "range",
        protocols: Sequence[tuple[str, bytes]] = (),
        version: int = 9,
        **fields: Any,
    ) -> Ticket:
        """`protocols` are instead of the one that subscribes to the topics."""
        offered = protocols or [(protocol, subscription(topics, held or {}))]
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in offered],
            **fields,
        )
        caller = OLD._replace(version=version)
        return self.ask(lambda groups, ticket, now: groups.join(request, caller, ticket, now))

    def rejoin(self, member_id: str, *topics: str, **fields: Any) -> Any:
        return self.answers.pop(self.classic_join(member_id, *topics, **fields))

    def sync(self, member_id: str, generation: int, given: Mapping[str, bytes] = {}) -> Ticket:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in given.items()
            ],
        )
        return self.ask(lambda groups, ticket, now: groups.sync(request, OLD, ticket, now))

    def synced(self, member_id: str, generation: int) -> Held:
        answer = self.answers.pop(self.sync(member_id, generation))
        found = decode_assignment(answer.assignment, self.image)
        assert found is not None
        return {self.name(topic_id): set(partitions) for topic_id, partitions in found.items()}

    def classic_beat(self, member_id: str, generation: int) -> ErrorCode:
        request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
        try:
            ticket = self.ask(lambda groups, t, now: groups.heartbeat(request, OLD, t, now))
        except KafkaError as error:
            return error.code
        return ErrorCode(self.answers.pop(ticket).error_code)

    def classic_leave(self, *members: MemberIdentity) -> list[ErrorCode]:
        told = self.answers.pop(self.ask_to_leave(*members))
        return [ErrorCode(each.error_code) for each in told.members]

    def ask_to_leave(self, *members: MemberIdentity) -> Ticket:
        request = LeaveGroupRequest(group_id=GROUP, members=list(members))
        return self.ask(lambda groups, ticket, now: groups.leave(request, OLD, ticket, now))

    @property
    def classic_group(self) -> ClassicGroup:
        group = self.surroundings.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group


def classic(topics: Mapping[str, int] = {"a": 2}, **config: Any) -> tuple[Migration, str]:
    """A classic group of one member, which has everything, and its id."""
    it = Migration(topics, **{"group_initial_rebalance_delay_ms": 0, **config})
    member_id = it.rejoin("", *topics).member_id
    ticket = it.classic_join(member_id, *topics)
    it.settle()
    generation = it.answers.pop(ticket).generation_id
    all_of_it = {it.topic_id(name): frozenset(range(count)) for name, count in topics.items()}
    it.sync(member_id, generation, {member_id: encode_assignment(all_of_it, 3, it.image)})
    it.answers.clear()
    return it, member_id


def mixed() -> tuple[Migration, str]:
    """Old has both partitions, and one is to be new's."""
    it, old = classic()
    joined = it.join("new", "a")
    assert (joined.epoch, joined.held) == (2, {})
    return it, old


def test_a_member_that_speaks_the_new_protocol_makes_a_consumer_group() -> None:
    it, old = mixed()
    assert it.member(old).classic is not None
    assert it.member(old).assigned == {it.topic_id("a"): {0: 1, 1: 1}}
    assert it.target(old) == {"a": {0}}
    assert it.target("new") == {"a": {1}}
    before = it.described()
    assert {m.member_id: m.member_type for m in before.members} == {old: 0, "new": 1}
    it.restart()
    assert it.described() == before


def test_a_classic_member_is_told_to_join_again_and_gives_back() -> None:
    it, old = mixed()
    assert it.classic_beat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    with pytest.raises(KafkaError) as refusal:
        it.sync(old, 1)
    assert refusal.value.code == ErrorCode.REBALANCE_IN_PROGRESS
    joined = it.rejoin(old, "a", held={"a": {0, 1}})
    assert (joined.generation_id, joined.leader, joined.members) == (1, "", [])
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert it.synced(old, 1) == {"a": {0}}
    assert it.member(old).state is MemberState.UNREVOKED_PARTITIONS
    assert it.beat("new", 2).held is None
    assert it.classic_beat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert it.rejoin(old, "a", held={"a": {0}}).generation_id == 2
    assert it.synced(old, 2) == {"a": {0}}
    assert it.classic_beat(old, 2) == ErrorCode.NONE
    assert it.beat("new", 2).held == {"a": {1}}


def test_a_member_that_revokes_all_before_it_joins_moves_on_at_once() -> None:
    it, old = mixed()
    assert it.rejoin(old, "a").generation_id == 2
    assert it.synced(old, 2) == {"a": {0}}


def test_a_classic_member_that_waits_is_told_when_it_can_have_more() -> None:
    it, old = mixed()
    it.rejoin(old, "a")
    it.beat("new", 2)
    it.pass_time()
    it.create(a=4)
    it.beat("new", 2, {"a": {1}})
    assert it.classic_beat(old, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    assert it.rejoin(old, "a", held={"a": {0}}).generation_id == 3
    assert it.classic_beat(old, 3) == ErrorCode.NONE
    assert len(it.synced(old, 3)["a"]) == 2


def test_who_waits_for_a_generation_is_told_to_join_again() -> None:
    it, _ = classic()
    other = it.rejoin("", "a").member_id
    waiting = it.classic_join(other, "a")
    it.join("new", "a")
    assert it.answers.pop(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_group_of_which_a_newcomer_speaks_another_protocol_is_not_converted_yet() -> None:
    it = Migration({"a": 2}, group_initial_rebalance_delay_ms=0)
    both = [(name, subscription(["a"], {})) for name in ("range", "sticky")]
    old = it.rejoin("", protocols=both).member_id
    ticket = it.classic_join(old, protocols=both)
    it.settle()
    it.sync(old, it.answers.pop(ticket).generation_id)
    newcomer = it.rejoin("", protocols=both[1:]).member_id
    it.classic_join(newcomer, protocols=both[1:])
    assert it.join("new", "a").error == ErrorCode.UNKNOWN_SERVER_ERROR
    it.classic_join(old, protocols=both)
    assert it.classic_group.protocol == "sticky"
    assert it.join("new", "a").error == ErrorCode.NONE
    assert it.group.members.keys() == {old, newcomer, "new"}


def test_if_the_log_refuses_the_group_stays_as_it_is() -> None:
    it, old = classic()
    other = it.rejoin("", "a").member_id
    waiting = it.classic_join(other, "a")
    it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
    assert it.join("new", "a").error == ErrorCode.KAFKA_STORAGE_ERROR
    it.log_refuses = None
    assert waiting not in it.answers
    assert it.classic_group.members.keys() == {old, other}


def test_classic_members_have_sessions_of_their_own() -> None:
    it, old = mixed()
    it.pass_time(9)
    it.rejoin(old, "a")
    it.synced(old, 2)
    it.pass_time(9)
    assert old in it.group.members
    it.pass_time(1)
    assert old not in it.group.members


@pytest.mark.parametrize("syncs", [True, False])
def test_a_classic_member_that_does_not_sync_in_time_is_out(syncs: bool) -> None:
    it, old = mixed()
    it.rejoin(old, "a")
    if syncs:
        it.synced(old, 2)
    for _ in range(4):
        it.pass_time(5)
        it.classic_beat(old, 2)
        it.beat("new", 2)
    assert (old in it.group.members) == syncs


def test_a_classic_member_that_does_not_join_again_in_time_is_out() -> None:
    it, old = mixed()
    for _ in range(4):
        assert it.classic_beat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        it.pass_time(5)
    assert old not in it.group.members


def test_a_classic_member_may_join_a_consumer_group() -> None:
    it = Migration({"a": 2})
    it.join("new", "a")
    it.pass_time()
    required = it.rejoin("", "a")
    assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert it.rejoin(required.member_id, "a").generation_id == 3
    assert it.rejoin("", "a", version=3).error_code == ErrorCode.NONE


def test_classic_members_need_something_in_common() -> None:
    it, _ = mixed()
    with pytest.raises(KafkaError) as refusal:
        it.rejoin("", "a", protocol="sticky")
    assert refusal.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_each_member_is_asked_in_its_own_protocol() -> None:
    it, old = mixed()
    assert it.classic_beat("new", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert it.classic_beat("nobody", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert it.classic_beat(old, 7) == ErrorCode.ILLEGAL_GENERATION
    with pytest.raises(KafkaError) as refusal:
        it.group.check_commit(old, None, 7, version=9, is_transactional=False)
    assert refusal.value.code == ErrorCode.ILLEGAL_GENERATION
    it.group.check_commit(old, None, 1, version=5, is_transactional=False)


def test_when_the_last_new_member_leaves_the_group_is_classic_again() -> None:
    it, old = mixed()
    it.rejoin(old, "a")
    it.synced(old, 2)
    it.leave("new")
    assert (it.classic_group.generation, it.classic_group.state) == (2, "PreparingRebalance")
    assert it.classic_beat(old, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    ticket = it.classic_join(old, "a")
    assert it.answers.pop(ticket).generation_id == 3


def test_a_group_that_became_classic_has_sessions() -> None:
    it, old = mixed()
    it.leave("new")
    assert old in it.classic_group.members
    it.pass_time(10)
    it.pass_time(20)
    assert it.classic_group.members == {}


def test_a_group_that_became_classic_is_that_after_a_restart() -> None:
    it, old = mixed()
    it.leave("new")
    it.restart()
    assert it.classic_group.members.keys() == {old}
    found = decode_assignment(it.classic_group.members[old].assignment, it.image)
    assert found == {it.topic_id("a"): frozenset({0})}


def test_without_leave_to_go_back_a_group_stays_a_consumer_group() -> None:
    it, old = classic(group_consumer_migration_policy="upgrade")
    it.join("new", "a")
    it.leave("new")
    assert it.group.members.keys() == {old}


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_without_leave_a_classic_group_stays_classic(policy: str) -> None:
    it, old = classic(group_consumer_migration_policy=policy)
    answer = it.join("new", "a")
    assert answer.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert it.classic_group.members.keys() == {old}


def test_without_leave_no_classic_member_joins_a_consumer_group() -> None:
    it = Migration({"a": 1}, group_consumer_migration_policy="disabled")
    it.join("new", "a")
    with pytest.raises(KafkaError) as refusal:
        it.rejoin("", "a")
    assert refusal.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_classic_group_makes_room() -> None:
    it, old = classic()
    it.classic_leave(MemberIdentity(member_id=old))
    assert it.join("new", "a").held == {"a": {0, 1}}
    it.restart()
    assert it.group.members.keys() == {"new"}


def test_members_of_either_protocol_may_be_sent_away() -> None:
    it, old = mixed()
    codes = it.classic_leave(MemberIdentity(member_id="nobody"), MemberIdentity(member_id="new"))
    assert codes == [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert it.classic_group.members.keys() == {old}


def test_a_static_member_changes_its_protocol_under_its_instance() -> None:
    it = Migration({"a": 2}, group_initial_rebalance_delay_ms=0)
    it.join("new", "a", instance_id="i1")
    it.join("other", "a")
    joined = it.rejoin("", "a", group_instance_id="i1")
    assert joined.generation_id == 2
    assert it.group.static_members == {"i1": joined.member_id}
    assert it.member(joined.member_id).classic is not None
    back = it.join("again", "a", instance_id="i1")
    assert back.error == ErrorCode.NONE
    assert it.group.static_members == {"i1": "again"}


UNREADABLE = pytest.mark.parametrize("metadata", [b"", b"\0", b"\xff\xff", b"\0\1", b"\0\1\xff"])


@UNREADABLE
def test_metadata_that_cannot_be_read_does_not_keep_a_group_from_becoming_classic(
    metadata: bytes,
) -> None:
    """Whom the group follows is decided by a vote that only comes then."""
    it = Migration({"a": 4})
    it.join("new", "a")
    good = subscription(["a"], {})
    for offered in (
        [("first", good), ("second", metadata)],
        [("second", good), ("first", good)],
        [("second", good), ("first", good)],
    ):
        it.rejoin(it.rejoin("", protocols=offered).member_id, protocols=offered)
    it.leave("new")
    assert it.classic_group.protocol == "second"
    assert len(it.classic_group.members) == 3
    it.restart()
    assert len(it.classic_group.members) == 3


def test_the_last_new_member_may_be_replaced_by_a_classic_one() -> None:
    it = Migration({"a": 2}, group_initial_rebalance_delay_ms=0)
    it.join("new", "a", instance_id="i1")
    joined = it.rejoin("", "a", group_instance_id="i1")
    assert it.classic_group.members.keys() == {joined.member_id}
    assert joined.generation_id == it.classic_group.generation == 2
    it.settle()
    assert it.synced(joined.member_id, 2) == {"a": {0, 1}}


def half_migrated() -> tuple[Migration, str]:
    """A static member of the new protocol and a classic one, each of which has one partition."""
    it = Migration({"old": 2, "new": 2}, group_initial_rebalance_delay_ms=0)
    it.join("static", "old", instance_id="i1")
    it.pass_time()
    other = it.rejoin("", "old").member_id
    generation = it.rejoin(other, "old").generation_id
    it.beat("static", 2, {"old": {0}})
    it.beat("static", generation, {"old": {0}})
    assert it.rejoin(other, "old").generation_id == generation
    assert len(it.synced(other, generation)["old"]) == 1
    it.pass_time()
    assert it.described().group_state == "Stable"
    return it, other


def test_a_member_that_comes_back_with_another_subscription_is_rebalanced() -> None:
    it, other = half_migrated()
    it.beat("static", -2, instance_id="i1")
    joined = it.rejoin("", "new", group_instance_id="i1")
    generation = joined.generation_id
    assert generation == it.classic_group.generation
    with pytest.raises(KafkaError) as refusal:
        it.sync(joined.member_id, generation)
    assert refusal.value.code == ErrorCode.REBALANCE_IN_PROGRESS
    assert it.classic_group.state == "PreparingRebalance"
    for member_id in (joined.member_id, other):
        assert it.classic_group.members[member_id].member_id == member_id
        assert it.classic_beat(member_id, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_comes_back_as_it_was_is_not_rebalanced() -> None:
    it, other = half_migrated()
    it.beat("static", -2, instance_id="i1")
    joined = it.rejoin("", "old", group_instance_id="i1")
    it.settle()
    assert it.classic_group.state == "Stable"
    for member_id in (joined.member_id, other):
        assert len(it.synced(member_id, joined.generation_id)["old"]) == 1
        assert it.classic_beat(member_id, joined.generation_id) == ErrorCode.NONE


def test_a_rebalance_that_was_due_before_the_group_became_classic_is_made() -> None:
    it, other = half_migrated()
    third = it.rejoin("", "old").member_id
    it.rejoin(third, "old")
    it.classic_leave(MemberIdentity(member_id=third))
    assert it.group.epoch > it.group.target_epoch
    joined = it.rejoin("", "old", group_instance_id="i1")
    it.settle()
    assert it.classic_group.state == "PreparingRebalance"
    for member_id in (joined.member_id, other):
        beaten = it.classic_beat(member_id, it.classic_group.generation)
        assert beaten == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_of_a_group_that_became_classic_support_all_that_they_did() -> None:
    it = Migration({"a": 2}, group_initial_rebalance_delay_ms=0)
    it.join("new", "a")
    said = subscription(["a"], {})
    offered = [("range", said), ("sticky", said)]
    it.rejoin(it.rejoin("", protocols=offered).member_id, protocols=offered)
    it.leave("new")
    assert it.classic_group.protocol == "range"
    joined = it.rejoin("", "a", protocol="sticky")
    assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_a_group_that_the_log_does_not_let_become_classic_is_what_it_was() -> None:
    it, old = mixed()
    it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
    assert it.leave("new").error == ErrorCode.KAFKA_STORAGE_ERROR
    it.log_refuses = None
    assert it.group.members.keys() == {old, "new"}
    it.classic_leave(MemberIdentity(member_id=old), MemberIdentity(member_id="new"))
    it.classic_join(it.rejoin("", "a").member_id, "a")
    it.settle()
    assert old not in it.classic_group.members


def test_if_the_log_refuses_that_a_group_becomes_classic_members_still_have_to_join_in_time() -> (
    None
):
    it, old = mixed()
    for _ in range(4):
        assert it.classic_beat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
        assert it.beat("new", 2).error == ErrorCode.NONE
        it.pass_time(4)
    it.log_refuses = ErrorCode.NOT_COORDINATOR
    assert it.leave("new").error == ErrorCode.NOT_COORDINATOR
    it.log_refuses = None
    assert it.classic_beat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    it.pass_time(5)
    assert it.group.members.keys() == {"new"}


@pytest.mark.parametrize(("size_max", "is_classic"), [(1, False), (2, True)])
def test_who_takes_the_place_of_the_last_new_member_counts_for_the_size_of_the_group(
    size_max: int, is_classic: bool
) -> None:
    it, _ = half_migrated()
    it.config = BrokerConfig(group_max_size=size_max)
    it.rejoin("", "old", group_instance_id="i1")
    assert isinstance(it.surroundings.groups[GROUP], ClassicGroup) == is_classic


def test_what_a_member_had_to_do_in_time_is_forgotten_when_the_group_becomes_classic() -> None:
    it, old = mixed()
    assert it.classic_beat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    it.leave("new")
    it.settle()
    ticket = it.classic_join(old, "a")
    generation = it.answers.pop(ticket).generation_id
    it.sync(old, generation, {})
    for _ in range(2):
        it.pass_time(9)
        assert it.classic_beat(old, generation) == ErrorCode.NONE
    it.join("again", "a")
    assert it.classic_beat(old, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    it.pass_time(9)
    assert old in it.group.members, "it has its time to join again anew"


def test_an_empty_consumer_group_makes_room_for_a_classic_one() -> None:
    it = Migration({"a": 2}, group_initial_rebalance_delay_ms=0)
    it.join("new", "a")
    it.leave("new")
    told = it.rejoin("", "a")
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert it.classic_group.pending == {told.member_id}
    it.restart()
    assert it.classic_group.members == {}


def test_who_is_refused_leaves_an_empty_consumer_group_as_it_is() -> None:
    it = Migration({"a": 2})
    it.join("new", "a")
    it.leave("new")
    refused = it.rejoin("stranger", "a")
    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert it.group.is_empty
    it.restart()
    assert it.group.is_empty


def test_an_empty_consumer_group_stays_if_the_log_does_not_take_a_classic_one() -> None:
    it = Migration({"a": 2})
    it.join("new", "a")
    it.leave("new")
    it.log_refuses = ErrorCode.NOT_COORDINATOR
    assert it.rejoin("", "a").error_code == ErrorCode.NOT_COORDINATOR
    it.log_refuses = None
    assert it.group.is_empty
    it.restart()
    assert it.group.is_empty
