"""CreateTopics, DeleteTopics, CreatePartitions and DescribeTopicPartitions, in every version."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from compat_tests.differential.comparison import Comparison, Listed, Make, comparing, versions
from compat_tests.differential.listed import MIN_ISR_IS_WRITTEN, MIN_ISR_OF_ALL
from compat_tests.differential.sides import Side, Sides
from pyk.types import ZERO_UUID
from pyk.wire.apis import ApiKey
from pyk.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pyk.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pyk.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pyk.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)

CREATE, DELETE = ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS
EXTEND, DESCRIBE = ApiKey.CREATE_PARTITIONS, ApiKey.DESCRIBE_TOPIC_PARTITIONS
THERE, DOTTED, MISSING = "there", "dotted.topic", "missing"
LONG_NAME = "x" * 249
BAD_NAMES = ("", ".", "..", "a b", "ü", "x" * 250, "a/b", "a\0")
Assignments = Sequence[tuple[int, Sequence[int]]]
CREATED_DIFFERENTLY = {MIN_ISR_OF_ALL: MIN_ISR_IS_WRITTEN}
EXTENDED_DIFFERENTLY = {
    "more than 10,000 partitions at once": Listed(
        "too many$", "", "Kafka fails over it, and adds 10,000 of them. Here it is refused."
    ),
}
DESCRIBED_DIFFERENTLY = {
    "a topic without a name": Listed(
        "the name ''$", "", "Kafka fails over it, with UNKNOWN_SERVER_ERROR."
    ),
}


@pytest.fixture(scope="module", autouse=True)
def topics(sides: Sides) -> None:
    sides.create(THERE, partitions=2)
    sides.create(DOTTED)


def topic(
    name: str,
    partitions: int = -1,
    replicas: int = -1,
    assignments: Assignments = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in assignments
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


def create(*topics: CreatableTopic, timeout_ms: int = 30_000, validate_only: bool = False) -> Make:
    """Names that end with a dash get the version behind it, so that each is new."""

    def make(version: int, side: Side) -> CreateTopicsRequest:
        named = [
            topic(
                each.name + str(version) if each.name.endswith("-") else each.name,
                each.num_partitions,
                each.replication_factor,
                [(one.partition_index, one.broker_ids) for one in each.assignments],
                [(one.name, one.value) for one in each.configs],
            )
            for each in topics
        ]
        return CreateTopicsRequest(topics=named, timeout_ms=timeout_ms, validate_only=validate_only)

    return make


@comparing("CREATE_TOPICS", CREATED_DIFFERENTLY, unordered=["topics"])
def test_topics_are_created_alike(compare: Comparison) -> None:
    compare.add(CREATE, "none", create())
    compare.add(CREATE, "with defaults", create(topic("defaults-")))
    compare.add(CREATE, "with three partitions", create(topic("three-", 3, 1)))
    compare.add(CREATE, "two at once", create(topic("one-", 1, 1), topic("two-", 2, 1)))
    compare.add(CREATE, "one good and one bad", create(topic("good-", 1, 1), topic("", 1, 1)))
    compare.add(CREATE, "one that is there", create(topic(THERE, 1, 1)))
    compare.add(CREATE, "one that is there, to try", create(topic(THERE), validate_only=True))
    compare.add(CREATE, "to try", create(topic("tried-", 3, 1), validate_only=True))
    compare.add(CREATE, "to try what is bad", create(topic("a b"), validate_only=True))
    compare.add(CREATE, "twice the same", create(topic("twice-"), topic("twice-")))
    compare.add(CREATE, "twice, and another", create(topic("t-"), topic("t-"), topic("other-")))
    compare.add(CREATE, "the longest name", create(topic(LONG_NAME), validate_only=True))
    for name in BAD_NAMES:
        compare.add(CREATE, f"the name {name[:5]!r}", create(topic(name, 1, 1)))
    compare.add(CREATE, "a name that collides", create(topic("dotted_topic", 1, 1)))
    compare.add(CREATE, "two that collide", create(topic("co_l-"), topic("co.l-")))
    for name in ("__consumer_offsets", "__cluster_metadata", "__transaction_state"):
        compare.add(CREATE, f"{name}, to try", create(topic(name, 1, 1), validate_only=True))
    for count in (0, -2, 10_001, 2**31 - 1):
        compare.add(CREATE, f"{count} partitions", create(topic("many-", count, 1)))
    for count in (0, -2, 2, 32_767):
        compare.add(CREATE, f"{count} replicas", create(topic("replicated-", 1, count)))
    for timeout_ms in (0, -1):
        asked = create(topic("", 1, 1), timeout_ms=timeout_ms)
        compare.add(CREATE, f"a bad one within {timeout_ms} ms", asked)
        asked = create(topic(THERE), timeout_ms=timeout_ms, validate_only=True)
        compare.add(CREATE, f"within {timeout_ms} ms", asked)


@comparing("CREATE_TOPICS with assignments", CREATED_DIFFERENTLY, unordered=["topics"])
def test_topics_are_assigned_alike(compare: Comparison) -> None:
    def add(case: str, *assignments: tuple[int, Sequence[int]], **more: Any) -> None:
        name = f"assigned-{case.replace(' ', '-')}-"
        compare.add(CREATE, case, create(topic(name, assignments=assignments, **more)))

    add("one", (0, [1]))
    add("two", (0, [1]), (1, [1]))
    add("in another order", (1, [1]), (0, [1]))
    add("with a gap", (0, [1]), (2, [1]))
    add("from one on", (1, [1]))
    add("negative", (-1, [1]))
    add("twice the same partition", (0, [1]), (0, [1]))
    add("to nobody", (0, []))
    add("to a stranger", (0, [7]))
    add("to a negative one", (0, [-1]))
    add("twice to the same", (0, [1, 1]))
    add("of different lengths", (0, [1]), (1, [1, 2]))
    add("with partitions", (0, [1]), partitions=1)
    add("with replicas", (0, [1]), replicas=1)
    add("with both", (0, [1]), partitions=3, replicas=2)


@comparing("CREATE_TOPICS with configurations", CREATED_DIFFERENTLY, unordered=["topics"])
def test_topics_are_configured_alike(compare: Comparison) -> None:
    def add(case: str, *configs: tuple[str, str | None]) -> None:
        name = f"configured-{case.replace(' ', '-')}-"
        compare.add(CREATE, case, create(topic(name, 1, 1, configs=configs)))
        asked = create(topic(name + "tried-", 1, 1, configs=configs), validate_only=True)
        compare.add(CREATE, f"{case}, to try", asked)

    add("good", ("retention.ms", "1000"), ("cleanup.policy", "compact"))
    add("unknown", ("nonsense", "1"))
    add("of a broker", ("log.retention.ms", "1"))
    add("of the wrong type", ("retention.ms", "soon"))
    add("out of range", ("segment.bytes", "5"))
    add("null", ("retention.ms", None))
    add("empty", ("retention.ms", ""))
    add("an empty name", ("", "1"))
    add("twice", ("retention.ms", "1"), ("retention.ms", "2"))
    add("with blanks", ("retention.ms", " 77 "))
    add("a list", ("cleanup.policy", "delete, compact"))
    add("excluding", ("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5"))
    add("remote", ("remote.storage.enable", "true"))


def delete(*names: str | None, timeout_ms: int = 30_000, with_id: bool = False) -> Make:
    """Names that end with a dash get the version behind it."""

    def make(version: int, side: Side) -> DeleteTopicsRequest:
        full = [name + str(version) if name and name.endswith("-") else name for name in names]
        if version >= 6:
            states = [
                DeleteTopicState(
                    name=name, topic_id=side.id_of(name or "") if with_id else ZERO_UUID
                )
                for name in full
            ]
            return DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
        return DeleteTopicsRequest(topic_names=[name or "" for name in full], timeout_ms=timeout_ms)

    return make


def delete_by_id(*names: str) -> Make:
    def make(version: int, side: Side) -> DeleteTopicsRequest:
        states = [DeleteTopicState(name=None, topic_id=side.id_of(name)) for name in names]
        return DeleteTopicsRequest(topics=states, timeout_ms=30_000)

    return make


@comparing("DELETE_TOPICS", unordered=["responses"])
def test_topics_are_deleted_alike(compare: Comparison, sides: Sides) -> None:
    doomed = product(("doomed", "doomed2", "doomed3"), versions(DELETE))
    names = [f"{name}-{version}" for name, version in doomed]
    sides.create(*names, "by-id", "by-id-2", "by-both")
    compare.add(DELETE, "none", delete())
    compare.add(DELETE, "a topic", delete("doomed-"))
    compare.add(DELETE, "a topic that is gone", delete("doomed-"))
    compare.add(DELETE, "one of two", delete("doomed2-", MISSING))
    compare.add(DELETE, "twice the same", delete("doomed3-", "doomed3-"))
    compare.add(DELETE, "twice what is missing", delete(MISSING, MISSING))
    for name in BAD_NAMES:
        compare.add(DELETE, f"the name {name[:5]!r}", delete(name))
    for timeout_ms in (0, -1):
        compare.add(DELETE, f"within {timeout_ms} ms", delete(MISSING, timeout_ms=timeout_ms))
    compare.add(DELETE, "by id", delete_by_id("by-id"), since=6)
    compare.add(DELETE, "by id, gone", delete_by_id("by-id"), since=6)
    compare.add(DELETE, "by an id that is missing", delete_by_id(MISSING), since=6)
    compare.add(DELETE, "by id twice", delete_by_id("by-id-2", "by-id-2"), since=6)
    compare.add(DELETE, "by name and id", delete("by-both", with_id=True), since=6)
    compare.add(DELETE, "by neither", delete(None), since=6)
    compare.add(DELETE, "by neither, twice", delete(None, None), since=6)

    def by_name_and_by_id(version: int, side: Side) -> DeleteTopicsRequest:
        states = [
            DeleteTopicState(name="by-both"),
            DeleteTopicState(name=None, topic_id=side.id_of("by-both")),
        ]
        return DeleteTopicsRequest(topics=states, timeout_ms=30_000)

    compare.add(DELETE, "once by name and once by id", by_name_and_by_id, since=6)


def extension(
    name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
) -> CreatePartitionsTopic:
    chosen = None
    if assignments is not None:
        chosen = [CreatePartitionsAssignment(broker_ids=list(each)) for each in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=chosen)


def extend(
    *topics: CreatePartitionsTopic, timeout_ms: int = 30_000, validate_only: bool = False
) -> Make:
    request = CreatePartitionsRequest(
        topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only
    )
    return lambda version, side: request


@comparing("CREATE_PARTITIONS", EXTENDED_DIFFERENTLY, unordered=["results"])
def test_partitions_are_created_alike(compare: Comparison, sides: Sides) -> None:
    sides.create("growing", "growing-2")

    def grow(name: str, assigned: bool = False) -> Make:
        """One more with each version."""

        def make(version: int, side: Side) -> CreatePartitionsRequest:
            chosen = [[1]] if assigned else None
            wanted = extension(name, version + 2, chosen)
            return CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000, validate_only=False)

        return make

    compare.add(EXTEND, "none", extend())
    compare.add(EXTEND, "one more", grow("growing"))
    compare.add(EXTEND, "one more, assigned", grow("growing-2", assigned=True))
    compare.add(EXTEND, "to try", extend(extension(THERE, 5), validate_only=True))
    for count in (2, 1, 0, -1, -(2**31)):
        compare.add(EXTEND, f"{count} of two", extend(extension(THERE, count)))
    compare.add(EXTEND, "too many", extend(extension(THERE, 20_000), validate_only=True))
    compare.add(EXTEND, "of a topic that is missing", extend(extension(MISSING, 3)))
    compare.add(EXTEND, "of a topic without a name", extend(extension("", 3)))
    compare.add(EXTEND, "of a bad name", extend(extension("a b", 3)))
    twice = extend(extension(THERE, 3), extension(THERE, 4))
    compare.add(EXTEND, "twice the same", twice)
    mixed = extend(extension(MISSING, 3), extension(THERE, 1), extension(THERE + "x", 1))
    compare.add(EXTEND, "three bad ones", mixed)
    choices: list[list[list[int]]]
    choices = [[], [[1]], [[1], [1]], [[7]], [[]], [[1, 1]], [[-1]], [[1, 2]]]
    for chosen in choices:
        asked = extend(extension(THERE, 3, chosen), validate_only=True)
        compare.add(EXTEND, f"assigned {chosen}", asked)
    asked = extend(extension(THERE, 4, [[1], [1, 2]]), validate_only=True)
    compare.add(EXTEND, "assigned in different lengths", asked)
    for timeout_ms in (0, -1):
        asked = extend(extension(MISSING, 3), timeout_ms=timeout_ms)
        compare.add(EXTEND, f"within {timeout_ms} ms", asked)


def describe(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Make:
    at = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=at,
    )
    return lambda version, side: request


@comparing("DESCRIBE_TOPIC_PARTITIONS", DESCRIBED_DIFFERENTLY)
def test_partitions_are_described_alike(compare: Comparison, sides: Sides) -> None:
    for name, count in (("pages-1", 3), ("pages-2", 4), ("pages-3", 1)):
        sides.create(name, partitions=count)
    pages = ("pages-1", "pages-2", "pages-3")
    compare.add(DESCRIBE, "a topic", describe("pages-1"))
    compare.add(DESCRIBE, "two topics", describe("pages-3", "pages-1"))
    compare.add(DESCRIBE, "as many as may be", describe(*pages))
    compare.add(DESCRIBE, "twice the same", describe("pages-1", "pages-1"))
    compare.add(DESCRIBE, "missing", describe(MISSING))
    compare.add(DESCRIBE, "missing and there", describe("pages-1", MISSING, "pages-3"))
    for name in BAD_NAMES:
        compare.add(DESCRIBE, f"the name {name[:5]!r}", describe(name))
    for limit in (0, -1, 1, 2, 3, 4, 5, 6, 7, 8, 2**31 - 1):
        compare.add(DESCRIBE, f"at most {limit}", describe(*pages, limit=limit))
        at = ("pages-1", 1)
        compare.add(
            DESCRIBE, f"at most {limit} from {at}", describe(*pages, limit=limit, cursor=at)
        )
    for at in (
        ("pages-1", 0),
        ("pages-1", 2),
        ("pages-1", 3),
        ("pages-1", 9),
        ("pages-1", -1),
        ("pages-2", 0),
        ("pages-3", 1),
        (MISSING, 0),
        ("", 0),
        ("pages-9", 0),
        ("a b", 0),
    ):
        compare.add(DESCRIBE, f"from {at}", describe(*pages, cursor=at))
        compare.add(DESCRIBE, f"from {at}, which is asked for", describe(*pages, at[0], cursor=at))
        compare.add(DESCRIBE, f"all from {at}", describe(limit=2, cursor=at))
    compare.add(DESCRIBE, "all", describe(limit=3))
    compare.add(DESCRIBE, "only missing ones and no room", describe(MISSING, "missing-2", limit=1))
