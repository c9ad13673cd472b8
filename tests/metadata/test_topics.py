"""What is decided about topics: the codes and words are those that Kafka 4.3.1 was seen to use."""

from __future__ import annotations

from random import Random

import pytest

from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage
from pyk.metadata.records import BrokerRecord, PartitionState, broker_key, encode
from pyk.metadata.state import State, Transaction
from pyk.metadata.store import Absent, ModifiedAt, NonePutSince, Put, Snapshot
from pyk.metadata.topics import (
    CreatedTopic,
    Creation,
    MorePartitions,
    NewTopic,
    TopicDefaults,
    TopicReference,
    create_partitions,
    create_topics,
    delete_topics,
)
from pyk.types import ZERO_UUID, Uuid

LONG = "x" * 250
E = ErrorCode
MANUAL = "The manual partition assignment includes"
SPECIFIED = "A manual partition assignment was specified, but"


class Cluster:
    """The pure parts of a cluster: a state, and the image of it."""

    def __init__(self, *brokers: int, fenced: int = 0) -> None:
        self.state = State()
        self.image = ClusterImage()
        self.rng = Random(1)
        for broker_id in brokers:
            record = BrokerRecord((), rack=None, fenced=broker_id == fenced)
            self.write(Put(broker_key(broker_id), encode(record)))

    def write(self, *operations: Put) -> None:
        changes = self.state.apply(Transaction(operations))
        assert changes is not None
        self.image = self.image.apply(changes)

    def create(self, *topics: NewTopic, partitions: int = 1, replicas: int = 1) -> list[Creation]:
        defaults = TopicDefaults(partitions=partitions, replication_factor=replicas)
        plan = create_topics(self.image, topics, defaults, self.rng)
        assert self.state.holds(plan.compares)
        changes = self.state.apply(Transaction(tuple(plan.operations)))
        if changes is not None:
            self.image = self.image.apply(changes)
        assert self.image == ClusterImage.load(Snapshot(self.state.revision, self.state.range("")))
        return plan.outcome

    def extend(self, *topics: MorePartitions) -> list[tuple[str, int, str | None]]:
        plan = create_partitions(self.image, topics, Random(1))
        assert self.state.holds(plan.compares)
        changes = self.state.apply(Transaction(tuple(plan.operations)))
        if changes is not None:
            self.image = self.image.apply(changes)
        return [(name, *verdict(outcome)) for name, outcome in plan.outcome]

    def delete(self, *references: TopicReference) -> list[tuple[TopicReference, int, str | None]]:
        plan = delete_topics(self.image, references)
        assert self.state.holds(plan.compares)
        changes = self.state.apply(Transaction(tuple(plan.operations)))
        if changes is not None:
            self.image = self.image.apply(changes)
        return [(reference, *verdict(error)) for reference, error in plan.outcome]


def verdict(outcome: object) -> tuple[int, str | None]:
    return (outcome.code, outcome.message) if isinstance(outcome, KafkaError) else (E.NONE, None)


def new(name: str, partitions: int = 1, replication_factor: int = 1) -> NewTopic:
    return NewTopic(name=name, partitions=partitions, replication_factor=replication_factor)


def manual(*assignments: tuple[int, list[int]]) -> NewTopic:
    return NewTopic(name="m", assignments=assignments)


@pytest.mark.parametrize(
    ("topic", "code", "message"),
    [
        (new(""), 17, "Topic name is invalid: the empty string is not allowed"),
        (new("."), 17, "Topic name is invalid: '.' is not allowed"),
        (new(".."), 17, "Topic name is invalid: '..' is not allowed"),
        (
            new(LONG),
            17,
            f"Topic name is invalid: the length of '{LONG}' is longer than the max allowed length "
            "249",
        ),
        (
            new("é"),
            17,
            "Topic name is invalid: 'é' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'",
        ),
        (new("__x"), 0, None),
        (new("__consumer_offsets"), 0, None),
        (new("..."), 0, None),
        (
            new("__cluster_metadata"),
            42,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (new("old.one"), 36, "Topic 'old.one' already exists."),
        (new("old_one"), 17, "Topic 'old_one' collides with existing topic: old.one"),
        (new("p", 0), 37, "Number of partitions was set to an invalid non-positive value."),
        (new("p", -2), 37, "Number of partitions was set to an invalid non-positive value."),
        (
            new("r", 0, 0),
            38,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            new("r", 1, 2),
            38,
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 "
            "cannot be reached because only 1 broker(s) are registered or some brokers have all "
            "their log directories cordoned.",
        ),
        (new("d", -1, -1), 0, None),
        (manual((0, [1])), 0, None),
        (
            NewTopic(name="m", partitions=1, assignments=[(0, [1])]),
            42,
            f"{SPECIFIED} numPartitions was not set to -1.",
        ),
        (
            NewTopic(name="m", partitions=1, replication_factor=1, assignments=[(0, [1])]),
            42,
            f"{SPECIFIED} replication factor was not set to -1.",
        ),
        (manual((1, [1])), 39, "partitions should be a consecutive 0-based integer sequence"),
        (
            manual((0, [1]), (2, [1])),
            39,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (manual((0, [1, 1])), 39, f"{MANUAL} the broker 1 more than once."),
        (manual((0, [2])), 39, f"{MANUAL} broker 2, but no such broker is registered."),
        (manual((0, [-1])), 39, f"{MANUAL} broker -1, but no such broker is registered."),
        (manual((0, [])), 39, f"{MANUAL} an empty replica list."),
        (
            manual((0, [1]), (0, [1])),
            39,
            "Found multiple manual partition assignments for partition 0",
        ),
    ],
)
def test_a_topic_is_made_or_refused_as_kafka_does(
    topic: NewTopic, code: int, message: str | None
) -> None:
    cluster = Cluster(1)
    cluster.create(new("old.one"))
    revision = cluster.state.revision
    [(name, outcome)] = cluster.create(topic)
    assert name == topic.name
    assert verdict(outcome) == (code, message)
    assert (cluster.state.revision == revision) == (code != 0)


def test_a_topic_has_what_was_asked_for_or_the_defaults() -> None:
    cluster = Cluster(1, 2, 3)
    outcomes = cluster.create(
        NewTopic(name="a", configs={"retention.ms": "5"}),
        new("b", 7, 2),
        NewTopic(name="c", assignments=[(1, [3, 2]), (0, [2, 1])]),
        partitions=4,
        replicas=3,
    )
    shapes = {
        name: (len(o.partitions), len(o.partitions[0].replicas))
        for name, o in outcomes
        if isinstance(o, CreatedTopic)
    }
    assert shapes == {"a": (4, 3), "b": (7, 2), "c": (2, 2)}
    assert cluster.image.topic_config("a").values == {"retention.ms": "5"}
    assert cluster.image.topic_config("b").values == {}
    topic = cluster.image.topics["c"]
    assert topic.partitions == (
        PartitionState((2, 1), (2, 1), 2),
        PartitionState((3, 2), (3, 2), 3),
    )
    assert cluster.image.topic_by_id(topic.topic_id) == topic
    [(_, created)] = [outcome for outcome in outcomes if outcome[0] == "c"]
    assert isinstance(created, CreatedTopic)
    assert created.topic_id == topic.topic_id


def test_names_that_are_in_a_request_twice_are_answered_once_and_last() -> None:
    outcomes = Cluster(1).create(new("dup"), new("dup"), new("ok"))
    assert [(name, *verdict(outcome)) for name, outcome in outcomes] == [
        ("ok", E.NONE, None),
        ("dup", E.INVALID_REQUEST, "Duplicate topic name."),
    ]


def test_names_that_collide_may_be_made_in_one_request() -> None:
    cluster = Cluster(1)
    assert all(isinstance(o, CreatedTopic) for _, o in cluster.create(new("a.b"), new("a_b")))


def test_configurations_are_refused_only_where_nothing_else_is() -> None:
    cluster = Cluster(1)
    cluster.create(new("old"))
    bad = KafkaError(E.INVALID_CONFIG, "no")
    topics = [NewTopic(name=name, partitions=0, configs=bad) for name in ("old", "new")]
    assert [verdict(outcome)[0] for _, outcome in cluster.create(*topics)] == [36, 40]


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ([new("a", 10_001)], "Excessively large number of partitions per request."),
        ([new("a", 6_000), new("b", 6_000)], "Excessively large number of partitions per request."),
        ([new("a", 10_000)], "Unable to perform excessively large batch operation."),
    ],
)
def test_too_much_at_once_is_refused_as_a_whole(topics: list[NewTopic], message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        Cluster(1).create(*topics)
    assert verdict(caught.value) == (E.POLICY_VIOLATION, message)
    assert len(Cluster(1).create(new("a", 9_999))) == 1


def test_a_creation_is_off_if_a_name_was_taken_meanwhile() -> None:
    image = Cluster(1).image
    plan = create_topics(image, [new("a"), new("b")], TopicDefaults(), Random(1))
    assert plan.compares == [Absent("topics/a"), Absent("topics/b")]
    # A name that could collide depends on all the others.
    plan = create_topics(image, [new("a_b")], TopicDefaults(), Random(1))
    assert plan.compares == [Absent("topics/a_b"), NonePutSince("topics/", image.revision)]


def test_a_fenced_broker_follows_and_is_not_in_sync() -> None:
    cluster = Cluster(1, 2, fenced=2)
    cluster.create(new("a", 3, 2), manual((0, [2, 1])))
    assert set(cluster.image.topics["a"].partitions) == {PartitionState((1, 2), (1,), 1)}
    assert cluster.image.topics["m"].partitions == (PartitionState((2, 1), (1,), 1),)
    message = (
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in "
        "controlled shutdown."
    )
    [(_, outcome)] = cluster.create(NewTopic(name="n", assignments=[(0, [2])]))
    assert verdict(outcome) == (E.INVALID_REPLICA_ASSIGNMENT, message)


def test_without_brokers_nothing_is_placed() -> None:
    [(_, outcome)] = Cluster(2, fenced=2).create(new("a"))
    message = "Unable to replicate the partition 1 time(s): All brokers are currently fenced."
    assert verdict(outcome) == (E.INVALID_REPLICATION_FACTOR, message)


@pytest.mark.parametrize(
    ("wanted", "code", "message"),
    [
        (MorePartitions(name="none", count=2), 3, None),
        (MorePartitions(name="a", count=1), 37, "Topic already has 1 partition(s)."),
        (
            MorePartitions(name="a", count=-1),
            37,
            "The topic a currently has 1 partition(s); -1 would not be an increase.",
        ),
        (
            MorePartitions(name="a", count=3, assignments=[[1]]),
            39,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            MorePartitions(name="a", count=2, assignments=[[2]]),
            39,
            f"{MANUAL} broker 2, but no such broker is registered.",
        ),
        (
            MorePartitions(name="a", count=2, assignments=[[]]),
            39,
            f"{MANUAL} an empty replica list.",
        ),
        (MorePartitions(name="a", count=2, assignments=[[1]]), 0, None),
        (MorePartitions(name="a", count=5), 0, None),
        (
            MorePartitions(name="a", count=10_002),
            44,
            "Unable to perform excessively large batch operation.",
        ),
    ],
)
def test_partitions_are_added_or_refused_as_kafka_does(
    wanted: MorePartitions, code: int, message: str | None
) -> None:
    cluster = Cluster(1)
    cluster.create(new("a"))
    before = cluster.image.topics["a"]
    assert cluster.extend(wanted) == [(wanted.name, code, message)]
    after = cluster.image.topics["a"]
    assert after.topic_id == before.topic_id
    assert len(after.partitions) == (wanted.count if code == 0 else 1)


def test_partitions_are_added_to_the_topic_that_was_seen() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.create(new("a", 2, 3))
    outcome = cluster.extend(
        MorePartitions(name="b", count=2),
        MorePartitions(name="b", count=3),
        MorePartitions(name="a", count=4),
    )
    assert [(name, code) for name, code, _ in outcome] == [("b", 42), ("a", 0)]
    assert [len(p.replicas) for p in cluster.image.topics["a"].partitions] == [3] * 4
    topic = cluster.image.topics["a"]
    plan = create_partitions(cluster.image, [MorePartitions(name="a", count=9)], Random(1))
    assert plan.compares == [ModifiedAt("topics/a", topic.revision)]


def test_no_two_topics_have_one_id() -> None:
    cluster = Cluster(1)
    cluster.create(new("a"))
    cluster.rng = Random(1)
    cluster.create(new("b"))
    assert len(cluster.image.names) == 2


def test_topics_are_deleted_by_name_and_by_id_with_all_they_have() -> None:
    cluster = Cluster(1)
    cluster.create(*(NewTopic(name=name, configs={"x": "y"}) for name in "abc"))
    topics = cluster.image.topics
    b = topics["b"].topic_id
    cluster.write(Put(f"partitions/{'A' * 22}/0", encode(topics["b"].partitions[0])))
    outcome = cluster.delete(TopicReference("a"), TopicReference(topic_id=b))
    assert sorted((reference.name, code) for reference, code, _ in outcome) == [("a", 0), ("b", 0)]
    assert {reference.topic_id for reference, _, _ in outcome} == {topics["a"].topic_id, b}
    left = [entry.key for entry in cluster.state.range("")]
    assert left == [
        "brokers/1",
        "configs/topics/c",
        f"partitions/{'A' * 22}/0",
        "topics/c",
    ]
    [(_, again)] = cluster.create(new("a"))
    assert isinstance(again, CreatedTopic)
    assert again.topic_id != topics["a"].topic_id


def test_what_cannot_be_deleted_is_answered_as_kafka_does() -> None:
    cluster = Cluster(1)
    cluster.create(new("a"))
    a = cluster.image.topics["a"].topic_id
    one, two = Uuid(b"\1" * 16), Uuid(b"\2" * 16)
    outcome = cluster.delete(
        TopicReference("none"),
        TopicReference(""),
        TopicReference(topic_id=one),
        TopicReference(),
        TopicReference(),
        TopicReference("x", one),
        TopicReference("d"),
        TopicReference("d"),
        TopicReference(topic_id=two),
        TopicReference(topic_id=two),
        TopicReference("a"),
        TopicReference(topic_id=a),
    )
    unknown = "This server does not host this topic-partition."
    assert {(r.name, r.topic_id): (code, message) for r, code, message in outcome} == {
        ("none", ZERO_UUID): (3, unknown),
        ("", ZERO_UUID): (3, unknown),
        (None, one): (100, "This server does not host this topic ID."),
        (None, ZERO_UUID): (42, "Neither topic name nor id were specified."),
        ("x", one): (42, "You may not specify both topic name and topic id."),
        ("d", ZERO_UUID): (42, "Duplicate topic name."),
        (None, two): (42, "Duplicate topic id."),
        ("a", a): (42, "The provided topic name maps to an ID that was already supplied."),
    }
    assert len(outcome) == 9
    assert "a" in cluster.image.topics
