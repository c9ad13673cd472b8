"""Share groups: their members, their offsets, and what is written about them (KIP-932).

What a group reads is begun by moving its offsets, where a test is about something else: then both
sides have partitions to give from the first heartbeat on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from compat_tests.differential.comparison import Comparison, Listed, Make, comparing
from compat_tests.differential.sides import Side, Sides, until
from compat_tests.differential.stored import stored
from compat_tests.differential.test_consumer_groups import configure, written
from compat_tests.differential.test_consumer_groups import join as join_consumers
from compat_tests.differential.test_offsets import COMMIT, FETCH, commit, fetch
from pyk.types import Uuid
from pyk.wire.apis import ApiKey
from pyk.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from pyk.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pyk.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pyk.wire.messages.delete_groups import DeleteGroupsRequest
from pyk.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from pyk.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pyk.wire.messages.describe_groups import DescribeGroupsRequest
from pyk.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.heartbeat import HeartbeatRequest
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyk.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from pyk.wire.messages.list_groups import ListGroupsRequest
from pyk.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pyk.wire.messages.read_share_group_state_summary import (
    PartitionData,
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from pyk.wire.messages.share_group_describe import ShareGroupDescribeRequest
from pyk.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

BEAT, DESCRIBE = ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE
OFFSETS, ALTER = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.ALTER_SHARE_GROUP_OFFSETS
FORGET, DELETE = ApiKey.DELETE_SHARE_GROUP_OFFSETS, ApiKey.DELETE_GROUPS
A, B, LATER = "shared-a", "shared-b", "shared-later"
UNORDERED = (
    "topic_partitions",
    "members",
    "groups",
    "results",
    "subscribed_topic_names",
    "topics",
    "responses",
    "partitions",
)
AT_ONCE = {"share.assignment.interval.ms": "0"}
"""So that nothing depends on when it is asked."""


@pytest.fixture(scope="module", autouse=True)
def topics(sides: Sides) -> None:
    sides.create(A, B, partitions=3)
    for side in sides:
        _begin(side)


def _begin(side: Side) -> None:
    """Kafka makes the topic of share groups' state when it is first asked for, and sends those away
    who come before each part of it is loaded."""
    find = FindCoordinatorRequest(key_type=2, coordinator_keys=[f"probe:{'A' * 21}Q:0"])
    until(lambda: side.ask(ApiKey.FIND_COORDINATOR, 6, find).coordinators[0].error_code == 0)
    probe = ReadShareGroupStateSummaryRequest(
        group_id="probe",
        topics=[
            ReadStateSummaryData(
                topic_id=Uuid(side.id_of(A)),
                partitions=[PartitionData(partition=n, leader_epoch=0) for n in range(3)],
            )
        ],
    )
    key = ApiKey.READ_SHARE_GROUP_STATE_SUMMARY
    until(
        lambda: (
            not any(
                partition.error_code in (14, 15, 16)
                for result in side.ask(key, 0, probe).results
                for partition in result.partitions
            )
        )
    )


def beat(group: str, member: str, epoch: int, *names: str, **more: Any) -> Make:
    return lambda version, side: ShareGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        subscribed_topic_names=list(names) or None,
        **more,
    )


def join(group: str, member: str, *names: str, **more: Any) -> Make:
    return beat(group, member, 0, *names, **more)


def describe(*groups: str, operations: bool = False) -> Make:
    return lambda version, side: ShareGroupDescribeRequest(
        group_ids=list(groups), include_authorized_operations=operations
    )


def offsets(group: str, topics: Mapping[str, list[int]] | None = None) -> Make:
    wanted = None
    if topics is not None:
        wanted = [
            DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
            for name, numbers in topics.items()
        ]
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=wanted)
    return lambda version, side: DescribeShareGroupOffsetsRequest(groups=[asked])


def alter(group: str, topics: Mapping[str, Mapping[int, int]]) -> Make:
    wanted = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=n, start_offset=offset)
                for n, offset in places.items()
            ],
        )
        for name, places in topics.items()
    ]
    return lambda version, side: AlterShareGroupOffsetsRequest(group_id=group, topics=wanted)


def forget(group: str, *topics: str) -> Make:
    wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return lambda version, side: DeleteShareGroupOffsetsRequest(group_id=group, topics=wanted)


def delete(*groups: str) -> Make:
    return lambda version, side: DeleteGroupsRequest(groups_names=list(groups))


def begun(sides: Sides, group: str, *topics: str, partitions: int = 3) -> None:
    """A group that has partitions to give before it has members."""
    wanted = {name: dict.fromkeys(range(partitions), 0) for name in topics}
    for side in sides:
        answer = side.ask(ALTER, 0, alter(group, wanted)(0, side))
        assert answer.error_code == 0
        until(lambda side=side: _are_initialized(side, group))  # type: ignore[misc]


def _are_initialized(side: Side, group: str) -> bool:
    """Kafka notes it after its answer."""
    found = [value for _, *rest in stored(side, group) for value in rest[1:]]
    return any(each.get("initialized_topics") for each in found[-1:])


@comparing("members of share groups", unordered=UNORDERED)
def test_members_are_answered_alike(compare: Comparison, sides: Sides) -> None:
    group = "sg"
    configure(sides, group, values=AT_ONCE)
    compare.add(DESCRIBE, "before there is a group", describe(group))
    compare.add(OFFSETS, "before there is a group", offsets(group))
    compare.add(BEAT, "of nobody", beat(group, "m1", 5))
    compare.add(BEAT, "leaving nothing", beat(group, "m1", -1))
    begun(sides, group, A, B)
    compare.add(DESCRIBE, "without members", describe(group))
    compare.add(BEAT, "the first joins", join(group, "m1", A))
    compare.add(BEAT, "nothing new", beat(group, "m1", 2))
    compare.add(BEAT, "says all", beat(group, "m1", 2, A))
    compare.add(BEAT, "joins again", join(group, "m1", A))
    compare.add(DESCRIBE, "one member", describe(group, "nobody", operations=True))
    compare.add(BEAT, "in a later epoch", beat(group, "m1", 9))
    compare.add(BEAT, "in an earlier epoch", beat(group, "m1", 1))
    compare.add(BEAT, "wants more", beat(group, "m1", 2, A, B))
    compare.add(BEAT, "in its last epoch", beat(group, "m1", 2))
    compare.add(BEAT, "another rack", beat(group, "m1", 3, rack_id="r2"))
    compare.add(BEAT, "wants less", beat(group, "m1", 3, B))
    compare.add(BEAT, "wants what is not there", beat(group, "m1", 4, "nothing-like-it"))
    compare.add(DESCRIBE, "with nothing", describe(group))
    compare.add(BEAT, "wants it again", beat(group, "m1", 5, A))
    compare.add(OFFSETS, "of a group with members", offsets(group))
    compare.add(ALTER, "of a group with members", alter(group, {A: {0: 1}}))
    compare.add(FORGET, "of a group with members", forget(group, A))
    compare.add(DELETE, "with members", delete(group))
    for types in ([], ["Share"], ["consumer"], ["share", "classic"]):
        for states in ([], ["stable"], ["Empty"], ["dead"]):
            wanted = ListGroupsRequest(types_filter=types, states_filter=states)
            compare.ask(ApiKey.LIST_GROUPS, 5, f"{types} {states}", _always(wanted))
    compare.add(BEAT, "leaves", beat(group, "m1", -1))
    compare.add(BEAT, "leaves again", beat(group, "m1", -1))
    compare.add(BEAT, "is not known", beat(group, "m1", 6))
    compare.add(DESCRIBE, "empty", describe(group))
    compare.add(DELETE, "deleted", delete(group, "nobody"), until=0)
    compare.add(DESCRIBE, "deleted", describe(group))
    compare.judge("its log", *sides.each(lambda side: written(side, group)))


def _always(request: Any) -> Make:
    return lambda version, side: request


@comparing("members who share")
def test_members_share_alike(compare: Comparison, sides: Sides) -> None:
    """Which member gets what differs; how much it gets, and how often a partition is given does
    not."""
    group = "ss"
    configure(sides, group, values=AT_ONCE)
    begun(sides, group, A)
    for count in range(1, 8):
        for side in sides:
            side.ask(BEAT, 1, join(group, f"m{count}", A)(1, side))
            for member in range(1, count + 1):
                side.ask(BEAT, 1, join(group, f"m{member}", A)(1, side))
        compare.judge(f"{count} members", *sides.each(lambda side: _shares(side, group)))
    compare.add(BEAT, "one too many", join(group, "m8", A))
    for count in range(1, 7):
        for side in sides:
            side.ask(BEAT, 1, beat(group, f"m{count}", -1)(1, side))
            for member in range(count + 1, 8):
                side.ask(BEAT, 1, join(group, f"m{member}", A)(1, side))
        compare.judge(f"{count} have left", *sides.each(lambda side: _shares(side, group)))


def _shares(side: Side, group: str) -> tuple[Any, ...]:
    [found] = side.ask(DESCRIBE, 1, describe(group)(1, side)).groups
    held = [
        [number for topic in member.assignment.topic_partitions for number in topic.partitions]
        for member in found.members
    ]
    readers = [sum(number in each for each in held) for number in range(3)]
    epochs = {member.member_epoch for member in found.members}
    return (found.group_epoch, found.assignment_epoch, epochs, sorted(map(len, held)), readers)


@comparing("refused heartbeats of share groups")
def test_heartbeats_are_refused_alike(compare: Comparison) -> None:
    for name, make in {
        "without a group": join(" ", "m", A),
        "without a rack": join("r", "m", A, rack_id=" "),
        "without a subscription": beat("r", "m", 0),
        "without an id": join("r", "", A),
        "with an empty id": join("r", " ", A),
        "with the longest id": beat("r", "m" * 36, 5),
        "with an id that is too long": join("r", "m" * 37, A),
        "leaving without an id": beat("r", "", -1),
        "of no epoch": beat("r", "m", -2),
    }.items():
        compare.add(BEAT, name, make)
    compare.add(DESCRIBE, "without a name", describe("", "nobody"))
    compare.add(OFFSETS, "without a name", offsets(""))
    compare.add(OFFSETS, "of no topics", offsets("r", {}))
    compare.add(OFFSETS, "of no such topic", offsets("r", {"nothing-like-it": [0, 7]}))
    compare.add(ALTER, "without a name", alter("", {A: {0: 1}}))
    compare.add(FORGET, "without a name", forget("", A))
    compare.add(FORGET, "of no such group", forget("nobody", A))


@comparing("offsets of share groups", unordered=UNORDERED)
def test_offsets_are_moved_alike(compare: Comparison, sides: Sides) -> None:
    group = "so"
    compare.add(ALTER, "of a new group", alter(group, {A: {0: 5, 1: 0}, B: {2: 9}}))
    until(lambda: all(_are_initialized(side, group) for side in sides))
    compare.add(OFFSETS, "moved", offsets(group))
    compare.add(OFFSETS, "some of them", offsets(group, {A: [1], "nothing-like-it": [0]}))
    compare.add(DESCRIBE, "moved", describe(group))
    compare.add(ALTER, "again", alter(group, {A: {0: 7}}))
    compare.add(ALTER, "what is not there", alter(group, {A: {0: 1, 5: 1}, "nothing": {0: 1}}))
    compare.add(ALTER, "nothing", alter(group, {}))
    compare.add(OFFSETS, "moved again", offsets(group))
    compare.add(FORGET, "some", forget(group, B, "nothing-like-it"))
    compare.add(FORGET, "what was forgotten", forget(group, B))
    compare.add(OFFSETS, "without some", offsets(group))
    compare.add(FORGET, "nothing", forget(group))
    compare.add(DELETE, "with offsets", delete(group), since=2)
    compare.add(OFFSETS, "deleted", offsets(group))
    compare.add(DELETE, "again", delete(group), since=2)


@comparing("groups of other types", unordered=UNORDERED)
def test_types_of_groups_are_told_apart_alike(compare: Comparison, sides: Sides) -> None:
    begun(sides, "st", A)
    share, consumer = "st", "st-consumer"
    for name in ("without members", "with members"):
        if name == "with members":
            compare.ask(BEAT, 1, "joins", join(share, "m1", A))
        request = DescribeGroupsRequest(groups=[share])
        compare.add(ApiKey.DESCRIBE_GROUPS, name, _always(request))
        asked = ConsumerGroupDescribeRequest(group_ids=[share], include_authorized_operations=False)
        compare.add(ApiKey.CONSUMER_GROUP_DESCRIBE, name, _always(asked))
        compare.ask(
            ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, f"{name}, joining", join_consumers(share, "c", A)
        )
        classic = JoinGroupRequest(
            group_id=share,
            session_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        compare.ask(ApiKey.JOIN_GROUP, 9, name, _always(classic))
        beats = HeartbeatRequest(group_id=share, generation_id=1, member_id="c")
        compare.ask(ApiKey.HEARTBEAT, 4, name, _always(beats))
        leaves = LeaveGroupRequest(group_id=share, members=[MemberIdentity(member_id="c")])
        compare.ask(ApiKey.LEAVE_GROUP, 5, name, _always(leaves))
        compare.add(COMMIT, name, commit(share, 1, topic=A))
        compare.add(FETCH, name, fetch(share, 0, topic=A))
        for epoch in (-1, 0, 2):
            member: dict[str, Any] = {"member_id": "m1", "member_epoch": epoch}
            asked_by = fetch(share, 0, topic=A, **member)
            compare.add(FETCH, f"{name}, by a member in {epoch}", asked_by, since=9)
        gone = OffsetDeleteRequest(
            group_id=share,
            topics=[
                OffsetDeleteRequestTopic(
                    name=A, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
                )
            ],
        )
        compare.ask(ApiKey.OFFSET_DELETE, 0, name, _always(gone))
    for side in sides:
        side.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, join_consumers(consumer, "c", A)(1, side))
    for group in (consumer,):
        compare.ask(BEAT, 1, "joining another type", join(group, "m", A))
        compare.ask(BEAT, 1, "in another type", beat(group, "m", 3))
        compare.ask(BEAT, 1, "leaving another type", beat(group, "m", -1))
        compare.add(DESCRIBE, "another type", describe(group))
        compare.add(OFFSETS, "another type", offsets(group))
        compare.add(ALTER, "another type", alter(group, {A: {0: 1}}))
        compare.add(FORGET, "another type", forget(group, A))


SOONER = {
    "partitions with the first heartbeat": Listed(
        "joins|grown|has come",
        r"assignment",
        "pyk answers when the partitions have begun; Kafka gives them out with a later heartbeat.",
    ),
}


@comparing("partitions that begin", SOONER, unordered=UNORDERED)
def test_partitions_begin_alike(compare: Comparison, sides: Sides) -> None:
    """Kafka's epochs are ahead: it makes a target without the partitions, and then one with."""
    group = "sb"
    configure(sides, group, values=AT_ONCE)
    sides.create("shared-growing", partitions=1)
    names = ("shared-growing", LATER)
    compare.ask(BEAT, 1, "joins", join(group, "m1", *names))
    _come_to_rest(sides, group, *names)
    compare.judge("begun", *sides.each(lambda side: _state(side, group)))
    grown = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="shared-growing", count=3, assignments=None)],
        timeout_ms=30_000,
        validate_only=False,
    )
    for side in sides:
        side.ask(ApiKey.CREATE_PARTITIONS, 3, grown)
    sides.settle()
    _come_to_rest(sides, group, *names)
    compare.judge("grown", *sides.each(lambda side: _state(side, group)))
    sides.create(LATER, partitions=2)
    _come_to_rest(sides, group, *names)
    compare.judge("a topic has come", *sides.each(lambda side: _state(side, group)))
    compare.add(OFFSETS, "begun", offsets(group))
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=LATER)], timeout_ms=30_000)
    for side in sides:
        side.ask(ApiKey.DELETE_TOPICS, 6, gone)
    sides.settle()
    _come_to_rest(sides, group, *names)
    compare.judge("a topic has gone", *sides.each(lambda side: _state(side, group)))
    compare.add(OFFSETS, "a topic has gone", offsets(group))


def _come_to_rest(sides: Sides, group: str, *names: str) -> None:
    """Beat until nothing more happens."""
    for side in sides:

        def is_at_rest(side: Side = side) -> bool:
            before = _state(side, group)
            side.ask(BEAT, 1, join(group, "m1", *names)(1, side))
            counts = [len(topic["partitions"]) for topic in before["initializing_topics"]]
            return not counts and before == _state(side, group) == _wanted(side, group)

        until(is_at_rest)


def _state(side: Side, group: str) -> dict[str, Any]:
    """What is written about its partitions, and what its member has."""
    found = [v for k, *rest in stored(side, group) for v in rest[1:] if "initialized_topics" in v]
    [shown] = side.ask(DESCRIBE, 1, describe(group)(1, side)).groups
    [member] = shown.members
    held = sorted((t.topic_name, sorted(t.partitions)) for t in member.assignment.topic_partitions)
    last = {name: sorted(each, key=repr) for name, each in found[-1].items()}
    return {**last, "held": held}


def _wanted(side: Side, group: str) -> dict[str, Any]:
    state = _state(side, group)
    held = sorted((t["topic_name"], sorted(t["partitions"])) for t in state["initialized_topics"])
    return {**state, "held": held}
