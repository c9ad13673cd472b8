"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: members of KIP-848, and what is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from compat_tests.differential.comparison import Answers, Comparison, Make, comparing
from compat_tests.differential.sides import Side, Sides, until
from compat_tests.differential.stored import stored
from compat_tests.differential.test_offsets import COMMIT, FETCH, commit, fetch
from pyk.coordinator.metadata_hash import TopicHashes
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.records import PartitionState
from pyk.wire.apis import ApiKey
from pyk.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pyk.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from pyk.wire.messages.delete_groups import DeleteGroupsRequest
from pyk.wire.messages.describe_groups import DescribeGroupsRequest
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyk.wire.messages.list_groups import ListGroupsRequest
from pyk.wire.messages.offset_commit import OffsetCommitRequest
from pyk.wire.payloads.consumer_group_records import ConsumerGroupMetadataKey

BEAT, DESCRIBE = ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE
GROUP_CONFIG = 32
A, B, MATCHED = "consumed-a", "consumed-b", "matched-1"
UNORDERED = ("topic_partitions", "members", "groups", "results", "subscribed_topic_names")
AT_ONCE = {"consumer.assignment.interval.ms": "0"}
"""So that nothing depends on when it is asked."""


@pytest.fixture(scope="module", autouse=True)
def topics(sides: Sides) -> None:
    sides.create(A, B, MATCHED, partitions=3)


def configure(sides: Sides, *groups: str, values: Mapping[str, str] = AT_ONCE) -> None:
    configs = [AlterableConfig(name=n, config_operation=0, value=v) for n, v in values.items()]
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=group, configs=configs)
            for group in groups
        ],
        validate_only=False,
    )
    for side in sides:
        answer = side.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        assert [each.error_code for each in answer.responses] == [0] * len(groups)
    sides.settle()


def beat(
    group: str,
    member: str,
    epoch: int,
    held: Mapping[str, Sequence[int]] | None = None,
    **more: Any,
) -> Make:
    def make(version: int, side: Side) -> ConsumerGroupHeartbeatRequest:
        owned = None
        if held is not None:
            owned = [
                TopicPartitions(topic_id=side.id_of(topic), partitions=list(partitions))
                for topic, partitions in held.items()
            ]
        return ConsumerGroupHeartbeatRequest(
            group_id=group.format(version),
            member_id=member,
            member_epoch=epoch,
            topic_partitions=owned,
            **more,
        )

    return make


def join(group: str, member: str, *names: str, **more: Any) -> Make:
    given = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(names), **more}
    return beat(group, member, 0, {}, **given)


def describe(*groups: str, operations: bool = False) -> Make:
    return lambda version, side: ConsumerGroupDescribeRequest(
        group_ids=[group.format(version) for group in groups],
        include_authorized_operations=operations,
    )


@comparing("members of consumer groups", unordered=UNORDERED)
def test_members_are_answered_alike(compare: Comparison, sides: Sides) -> None:
    configure(sides, "cg0", "cg1")
    group = "cg{}"
    compare.add(DESCRIBE, "before there is a group", describe(group))
    compare.add(DESCRIBE, "without a name", describe(""))
    compare.add(BEAT, "of nobody", beat(group, "m1", 5))
    compare.add(BEAT, "leaving nothing", beat(group, "m1", -1))
    compare.add(BEAT, "the first joins", join(group, "m1", A))
    compare.add(BEAT, "nothing new", beat(group, "m1", 2))
    compare.add(BEAT, "says what it holds", beat(group, "m1", 2, {A: [0, 1, 2]}))
    compare.add(BEAT, "joins again", join(group, "m1", A))
    compare.add(BEAT, "a second joins", join(group, "m2", A))
    compare.add(DESCRIBE, "reconciling", describe(group, "nobody"))
    compare.add(BEAT, "the second waits", beat(group, "m2", 3))
    compare.add(BEAT, "the first gives back", beat(group, "m1", 2, {A: [0, 1, 2]}))
    compare.add(BEAT, "not yet", beat(group, "m1", 2))
    compare.add(BEAT, "in a later epoch", beat(group, "m1", 9))
    compare.add(DESCRIBE, "revoking", describe(group, operations=True))
    compare.add(BEAT, "has given back", beat(group, "m1", 2, {A: [0, 1]}))
    compare.add(BEAT, "the second gets it", beat(group, "m2", 3))
    compare.add(BEAT, "says that it holds it", beat(group, "m2", 3, {A: [2]}))
    compare.add(DESCRIBE, "stable", describe(group))
    compare.add(BEAT, "the first in its last epoch", beat(group, "m1", 2, {A: [0]}))
    compare.add(BEAT, "the first in its last epoch, silent", beat(group, "m1", 2))
    compare.add(BEAT, "with more than it has", beat(group, "m1", 2, {A: [0, 2]}))
    names: dict[str, Any] = {"subscribed_topic_names": [A, B]}
    compare.add(BEAT, "the second wants more", beat(group, "m2", 3, {A: [2]}, **names))
    compare.add(DESCRIBE, "with more", describe(group))
    compare.add(BEAT, "another rack", beat(group, "m2", 4, rack_id="r2"))
    compare.add(BEAT, "another assignor", beat(group, "m2", 4, server_assignor="range"))
    compare.add(DESCRIBE, "with another assignor", describe(group))
    compare.add(BEAT, "nothing any more", beat(group, "m2", 4, {}, subscribed_topic_names=[]))
    compare.add(BEAT, "the first leaves", beat(group, "m1", -1))
    compare.add(BEAT, "the first leaves again", beat(group, "m1", -1))
    compare.add(BEAT, "the second leaves", beat(group, "m2", -1))
    compare.add(DESCRIBE, "empty", describe(group))
    compare.add(
        ApiKey.DESCRIBE_GROUPS,
        "as a classic group",
        lambda version, side: DescribeGroupsRequest(groups=["cg0"]),
    )
    compare.ask(
        ApiKey.LIST_GROUPS,
        5,
        "of their type",
        lambda version, side: ListGroupsRequest(types_filter=["Consumer"]),
    )
    gone = DeleteGroupsRequest(groups_names=["cg0", "cg1"])
    compare.ask(ApiKey.DELETE_GROUPS, 2, "deleted", lambda version, side: gone)
    compare.add(DESCRIBE, "deleted", describe(group))


@comparing("refused heartbeats")
def test_heartbeats_are_refused_alike(compare: Comparison) -> None:
    for name, make in {
        "without a group": join(" ", "m", A),
        "without an instance": join("r", "m", A, instance_id=""),
        "without a rack": join("r", "m", A, rack_id=" "),
        "without a timeout": join("r", "m", A, rebalance_timeout_ms=-1),
        "without a subscription": beat("r", "m", 0, {}, rebalance_timeout_ms=1),
        "that hold something": beat("r", "m", 0, {A: [0]}, rebalance_timeout_ms=1),
        "that do not say what they hold": beat("r", "m", 0, rebalance_timeout_ms=1),
        "with no such assignor": join("r", "m", A, server_assignor="nobody"),
        "without an id": beat("r", "", 1),
        "leaving without an id": beat("r", "", -1),
        "away without an instance": beat("r", "m", -2),
        "of no epoch": beat("r", "m", -3),
    }.items():
        compare.add(BEAT, name, make)
    compare.ask(BEAT, 1, "joining without an id", join("r", "", A))


@comparing("static members", unordered=UNORDERED)
def test_static_members_are_answered_alike(compare: Comparison, sides: Sides) -> None:
    configure(sides, "cs0", "cs1")
    group = "cs{}"
    who: dict[str, Any] = {"instance_id": "i1"}
    compare.add(BEAT, "joins", join(group, "s1", A, **who))
    compare.add(BEAT, "another joins", join(group, "s2", A, **who))
    compare.add(BEAT, "it joins again", join(group, "s1", A, **who))
    compare.add(BEAT, "as another", beat(group, "s2", 2, **who))
    compare.add(BEAT, "as nobody", beat(group, "s1", 2, instance_id="i2"))
    compare.add(BEAT, "without its instance", beat(group, "s1", 2))
    compare.add(BEAT, "goes for a while", beat(group, "s1", -2, **who))
    compare.add(DESCRIBE, "away", describe(group))
    compare.add(BEAT, "beats while it is away", beat(group, "s1", 2, **who))
    compare.add(BEAT, "is back as another", join(group, "s2", A, **who))
    compare.add(BEAT, "who it was is fenced", beat(group, "s1", 2, **who))
    compare.add(BEAT, "who it was leaves", beat(group, "s1", -1, **who))
    compare.add(BEAT, "goes again", beat(group, "s2", -2, **who))
    compare.add(BEAT, "is back and wants more", join(group, "s3", A, B, **who))
    compare.add(DESCRIBE, "back", describe(group))
    compare.add(BEAT, "leaves", beat(group, "s3", -1, **who))
    compare.judge("their logs", *sides.each(lambda side: written(side, "cs1")))


@comparing("regular expressions", unordered=UNORDERED)
def test_expressions_are_matched_alike(compare: Comparison, sides: Sides) -> None:
    configure(sides, "ce")

    def ask(case: str, make: Make) -> Answers:
        return compare.ask(BEAT, 1, case, make)

    def pattern(regex: str) -> dict[str, Any]:
        return {"subscribed_topic_regex": regex, "subscribed_topic_names": None}

    for regex in ("(", "[", "*", "a**", "(?=x)", "\\1", "a{1001}", "\\", "(?P<n>a", "x{2,1}"):
        ask(f"refused: {regex}", join("ce", "m0", **pattern(regex)))
    ask("joins", join("ce", "m1", **pattern("matched-.*|nobody")))

    def epoch(side: Side) -> int:
        answer = side.ask(DESCRIBE, 1, describe("ce")(1, side))
        found: int = answer.groups[0].group_epoch
        return found

    until(lambda: sides.each(epoch) == (2, 2))
    ask("gets its topics", beat("ce", "m1", 1))
    ask("a second joins", join("ce", "m2", **pattern("matched-.*|nobody")))
    compare.ask(DESCRIBE, 1, "with expressions", describe("ce"))
    ask("gives its expression up", beat("ce", "m2", 3, {}, subscribed_topic_regex=""))
    ask("the first leaves", beat("ce", "m1", -1))
    ask("the second leaves", beat("ce", "m2", -1))
    compare.judge("their logs", *sides.each(lambda side: written(side, "ce")))


@comparing("offsets of members", unordered=("topics", "partitions", "topic_partitions"))
def test_members_commit_alike(compare: Comparison, sides: Sides) -> None:
    configure(sides, "co")
    compare.ask(BEAT, 1, "joins", join("co", "m1", A))
    for epoch in (-1, 1, 2, 3):
        member: dict[str, Any] = {"member_id": "m1", "generation_id_or_member_epoch": epoch}
        compare.add(COMMIT, f"in epoch {epoch}", commit("co", 5, topic=A, **member), since=8)
        asked = fetch("co", 0, topic=A, member_id="m1", member_epoch=epoch)
        compare.add(FETCH, f"in epoch {epoch}", asked, since=9)
    nobody: dict[str, Any] = {"member_id": "m2", "generation_id_or_member_epoch": 2}
    compare.add(COMMIT, "of nobody", commit("co", 5, topic=A, **nobody), since=8)
    compare.add(COMMIT, "from outside", commit("co", 5, topic=A), since=8)
    compare.add(FETCH, "from outside", fetch("co", 0, topic=A))
    compare.add(FETCH, "of nobody", fetch("co", 0, topic=A, member_id="m2"), since=9)
    both: dict[str, Any] = {"subscribed_topic_names": [A, B]}
    compare.ask(BEAT, 1, "wants more", beat("co", "m1", 2, {A: [0, 1, 2]}, **both))
    late: dict[str, Any] = {"member_id": "m1", "generation_id_or_member_epoch": 2}
    of_a, of_b = commit("co", 6, topic=A, **late), commit("co", 6, topic=B, **late)
    compare.add(COMMIT, "what it had before", of_a, since=9)
    compare.add(COMMIT, "what it has since", of_b, since=9)

    def of_both(version: int, side: Side) -> OffsetCommitRequest:
        topics = of_a(version, side).topics + of_b(version, side).topics
        return OffsetCommitRequest(group_id="co", topics=topics, **late)

    compare.add(COMMIT, "both", of_both, since=9)
    compare.add(FETCH, "what it has committed", fetch("co", every=True))


@comparing("the records of a member")
def test_a_member_leaves_the_same_behind(compare: Comparison, sides: Sides) -> None:
    configure(sides, "cw")
    steps = [
        join("cw", "m1", A),
        beat("cw", "m1", 2, rack_id="r", server_assignor="range", rebalance_timeout_ms=70_000),
        beat("cw", "m1", 2, subscribed_topic_names=[B]),
        beat("cw", "m1", 2, {A: [0, 1, 2]}),
        beat("cw", "m1", 2, {}),
        beat("cw", "m1", 3, {B: [0, 1, 2]}),
        beat("cw", "m1", -1),
    ]
    for number, step in enumerate(steps):
        compare.ask(BEAT, 1, f"step {number}", step)
    gone = DeleteGroupsRequest(groups_names=["cw"])
    compare.ask(ApiKey.DELETE_GROUPS, 2, "deleted", lambda version, side: gone)
    compare.judge("the log", *sides.each(lambda side: written(side, "cw")))


def test_what_is_noted_of_topics_is_kafkas_number(sides: Sides) -> None:
    for side in sides:
        topics = {
            name: Topic(name, side.id_of(name), (PartitionState((1,), (1,), 1),) * 3, 1)
            for name in (A, B)
        }
        expected = TopicHashes().of_all(topics, ClusterImage(topics=topics))
        side.ask(BEAT, 1, join("ch", "m1", A, B)(1, side))
        [*_, noted] = (
            value["metadata_hash"]
            for key, *rest in stored(side, "ch")
            if isinstance(key, ConsumerGroupMetadataKey)
            for value in rest[1:]
        )
        assert noted == expected, side.name


def written(side: Side, group_id: str) -> list[Any]:
    """Its records in their order. Numbers that stem from the ids of topics are each side's own."""
    return [(key, *map(_without_numbers, rest)) for key, *rest in stored(side, group_id)]


def _without_numbers(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    own = {name: bool(value[name]) for name in ("metadata_hash", "version") if name in value}
    return {
        name: sorted(each, key=repr) if isinstance(each, list) else each
        for name, each in {**value, **own}.items()
    }
