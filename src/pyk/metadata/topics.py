"""Topics as a request may make, delete and extend them, decided as Kafka 4.3's controller does.

The order of the checks is Kafka's: of two faults the same one is reported. What differs:

- Partitions are added all or none. Kafka answers UNKNOWN_SERVER_ERROR to more than 10,000 at once,
  and adds 10,000 of them.
- Answers are in the order of the request. Kafka shuffles some, so that nobody learns from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct, field

from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.controller import Plan, new_uuid, put
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.placement import place
from pyk.metadata.records import (
    TOPICS,
    PartitionState,
    TopicRecord,
    encode,
    partitions_prefix,
    printed,
    topic_config_key,
    topic_key,
)
from pyk.metadata.store import (
    Absent,
    Compare,
    Delete,
    DeletePrefix,
    ModifiedAt,
    NonePutSince,
    Operation,
    Put,
)
from pyk.metadata.topic_names import check_topic_name, collisions_with, may_collide, unified
from pyk.types import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from random import Random

DEFAULT: Final = -1
"""As a number of partitions or replicas: what the broker is configured with."""

RECORDS_MAX: Final = 10_000
"""How much Kafka does in one request: each topic, partition and configuration counts."""

_CLUSTER_METADATA: Final = "__cluster_metadata"
_TOO_MUCH: Final = "Unable to perform excessively large batch operation."
_UNKNOWN_NAME: Final = "This server does not host this topic-partition."
_UNKNOWN_ID: Final = "This server does not host this topic ID."

Assignments: TypeAlias = Sequence[tuple[int, Sequence[int]]]


class NewTopic(Struct, frozen=True, kw_only=True):
    """A topic as a request wants it."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignments: Assignments = ()
    """The replicas of each partition by its number, if the client has chosen them."""
    configs: Mapping[str, str] | KafkaError = field(default_factory=dict)
    """Or why they are refused, which is said only of a topic that could be made otherwise."""


class TopicDefaults(Struct, frozen=True, kw_only=True):
    partitions: int = 1
    replication_factor: int = 1


class CreatedTopic(Struct, frozen=True):
    topic_id: Uuid
    partitions: tuple[PartitionState, ...]
    configs: Mapping[str, str]


Creation: TypeAlias = tuple[str, CreatedTopic | KafkaError]


def create_topics(
    image: ClusterImage, topics: Sequence[NewTopic], defaults: TopicDefaults, rng: Random
) -> Plan[list[Creation]]:
    """Make topics. A name that is there twice is answered once, at the end."""
    counts = Counter(topic.name for topic in topics)
    single = [topic for topic in topics if counts[topic.name] == 1]
    allowed = [topic for topic in single if topic.name != _CLUSTER_METADATA]
    _check_size(sum(_partitions_wanted(topic, defaults) for topic in allowed), "partitions")
    collisions = collisions_with(image.topics, [topic.name for topic in allowed])
    outcomes: list[Creation] = []
    for topic in allowed:
        try:
            _check_new(image, topic, collisions)
            outcomes.append((topic.name, _create(image, topic, defaults, rng)))
        except KafkaError as refusal:
            outcomes.append((topic.name, refusal))
    made = [(name, o) for name, o in outcomes if isinstance(o, CreatedTopic)]
    _check_size(sum(1 + len(o.partitions) + len(o.configs) for _, o in made), "records")
    outcomes += [(name, _duplicate()) for name, count in counts.items() if count > 1]
    if len(single) > len(allowed):
        message = f"Creation of internal topic {_CLUSTER_METADATA} is prohibited."
        outcomes.append((_CLUSTER_METADATA, KafkaError(ErrorCode.INVALID_REQUEST, message)))
    return Plan(outcomes, *_creation(image, made))


def _creation(
    image: ClusterImage, made: Sequence[tuple[str, CreatedTopic]]
) -> tuple[list[Compare], list[Operation]]:
    compares: list[Compare] = [Absent(topic_key(name)) for name, _ in made]
    if any(may_collide(name) for name, _ in made):
        compares.append(NonePutSince(TOPICS, image.revision))
    operations: list[Operation] = []
    for name, topic in made:
        operations.append(
            put(topic_key(name), TopicRecord(printed(topic.topic_id), topic.partitions))
        )
        if topic.configs:
            operations.append(Put(topic_config_key(name), encode(dict(topic.configs))))
    return compares, operations


def _check_new(image: ClusterImage, topic: NewTopic, collisions: Mapping[str, str]) -> None:
    if topic.name in image.topics:
        code = ErrorCode.TOPIC_ALREADY_EXISTS
        raise KafkaError(code, f"Topic '{topic.name}' already exists.")
    existing = collisions.get(unified(topic.name)) if may_collide(topic.name) else None
    if existing is not None:
        message = f"Topic '{topic.name}' collides with existing topic: {existing}"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)
    check_topic_name(topic.name)
    if isinstance(topic.configs, KafkaError):
        raise topic.configs


def _partitions_wanted(topic: NewTopic, defaults: TopicDefaults) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return defaults.partitions if topic.partitions == DEFAULT else max(0, topic.partitions)


def _check_size(size: int, what: str) -> None:
    if size > RECORDS_MAX:
        too_many = "Excessively large number of partitions per request."
        message = too_many if what == "partitions" else _TOO_MUCH
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)


def _create(
    image: ClusterImage, topic: NewTopic, defaults: TopicDefaults, rng: Random
) -> CreatedTopic:
    if topic.assignments:
        partitions = _assigned(image, topic)
    else:
        partitions = _placed(image, topic, defaults, rng)
    assert not isinstance(topic.configs, KafkaError)
    topic_id = new_uuid(rng)
    while topic_id in image.names:
        topic_id = new_uuid(rng)
    return CreatedTopic(topic_id, partitions, topic.configs)


def _placed(
    image: ClusterImage, topic: NewTopic, defaults: TopicDefaults, rng: Random
) -> tuple[PartitionState, ...]:
    if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partitions < DEFAULT or topic.partitions == 0:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count = defaults.partitions if topic.partitions == DEFAULT else topic.partitions
    factor = topic.replication_factor
    if factor == DEFAULT:
        factor = defaults.replication_factor
    try:
        placed = place(image.brokers.values(), count, factor, _start(image, rng))
    except KafkaError as refusal:
        message = f"Unable to replicate the partition {factor} time(s): {refusal.message}"
        raise KafkaError(refusal.code, message) from None
    return tuple(_new_partition(image, replicas) for replicas in placed)


def _start(image: ClusterImage, rng: Random) -> int:
    return rng.randrange(max(1, len(image.brokers)))


def _assigned(image: ClusterImage, topic: NewTopic) -> tuple[PartitionState, ...]:
    for wanted, name in (
        (topic.replication_factor, "replication factor"),
        (topic.partitions, "numPartitions"),
    ):
        if wanted != DEFAULT:
            message = f"A manual partition assignment was specified, but {name} was not set to -1."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    found: dict[int, PartitionState] = {}
    factor: int | None = None
    for number, replicas in topic.assignments:
        if number in found:
            raise _bad_assignment(
                f"Found multiple manual partition assignments for partition {number}"
            )
        found[number] = _assigned_partition(image, number, replicas, factor)
        factor = len(replicas)
    if found.keys() != set(range(len(found))):
        raise _bad_assignment("partitions should be a consecutive 0-based integer sequence")
    return tuple(found[number] for number in range(len(found)))


def _assigned_partition(
    image: ClusterImage, number: int, replicas: Sequence[int], factor: int | None
) -> PartitionState:
    prefix = "The manual partition assignment includes"
    if not replicas:
        raise _bad_assignment(f"{prefix} an empty replica list.")
    before: int | None = None
    for broker_id in sorted(replicas):
        if broker_id not in image.brokers:
            raise _bad_assignment(f"{prefix} broker {broker_id}, but no such broker is registered.")
        if broker_id == before:
            raise _bad_assignment(f"{prefix} the broker {broker_id} more than once.")
        before = broker_id
    if factor is not None and len(replicas) != factor:
        raise _bad_assignment(
            f"{prefix} a partition with {len(replicas)} replica(s), but this is not consistent "
            f"with previous partitions, which have {factor} replica(s)."
        )
    if all(image.brokers[broker_id].fenced for broker_id in replicas):
        raise _bad_assignment(
            "All brokers specified in the manual partition assignment for "
            f"partition {number} are fenced or in controlled shutdown."
        )
    return _new_partition(image, replicas)


def _new_partition(image: ClusterImage, replicas: Sequence[int]) -> PartitionState:
    isr = tuple(broker_id for broker_id in replicas if not image.brokers[broker_id].fenced)
    return PartitionState(tuple(replicas), isr, isr[0])


def _bad_assignment(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _duplicate() -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


class MorePartitions(Struct, frozen=True, kw_only=True):
    """How many partitions a topic shall have, as a request wants it."""

    name: str
    count: int
    assignments: Sequence[Sequence[int]] | None = None
    """The replicas of the new ones, if the client has chosen them."""


Extension: TypeAlias = tuple[str, tuple[PartitionState, ...] | KafkaError]
"""The partitions that the topic has then."""


def create_partitions(
    image: ClusterImage, topics: Sequence[MorePartitions], rng: Random
) -> Plan[list[Extension]]:
    """Add partitions to topics. A name that is there twice is answered once, in front."""
    counts = Counter(topic.name for topic in topics)
    outcomes: list[Extension] = [(name, _duplicate()) for name, n in counts.items() if n > 1]
    compares: list[Compare] = []
    operations: list[Operation] = []
    room = RECORDS_MAX
    for wanted in (topic for topic in topics if counts[topic.name] == 1):
        try:
            topic, added = _extend(image, wanted, room, rng)
        except KafkaError as refusal:
            outcomes.append((wanted.name, refusal))
            continue
        room -= len(added)
        partitions = (*topic.partitions, *added)
        outcomes.append((topic.name, partitions))
        key = topic_key(topic.name)
        compares.append(ModifiedAt(key, topic.revision))
        operations.append(put(key, TopicRecord(printed(topic.topic_id), partitions)))
    return Plan(outcomes, compares, operations)


def _extend(
    image: ClusterImage, wanted: MorePartitions, room: int, rng: Random
) -> tuple[Topic, tuple[PartitionState, ...]]:
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    existing = len(topic.partitions)
    more = wanted.count - existing
    if more <= 0:
        message = f"Topic already has {existing} partition(s)."
        if more < 0:
            message = (
                f"The topic {topic.name} currently has {existing} partition(s); "
                f"{wanted.count} would not be an increase."
            )
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
    if wanted.assignments is not None and len(wanted.assignments) != more:
        raise _bad_assignment(
            f"Attempted to add {more} additional partition(s), but only "
            f"{len(wanted.assignments)} assignment(s) were specified."
        )
    if more > room:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, _TOO_MUCH)
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        placed = place(image.brokers.values(), more, factor, _start(image, rng))
        return topic, tuple(_new_partition(image, replicas) for replicas in placed)
    numbered = enumerate(wanted.assignments, existing)
    return topic, tuple(_assigned_partition(image, n, chosen, factor) for n, chosen in numbered)


class TopicReference(Struct, frozen=True):
    """A topic by its name or by its id, the other one being None or zeros."""

    name: str | None = None
    topic_id: Uuid = ZERO_UUID


Deletion: TypeAlias = tuple[TopicReference, KafkaError | None]
"""The topic, by name and by id if it was found, and why it was not deleted."""


def delete_topics(
    image: ClusterImage, references: Sequence[TopicReference]
) -> Plan[list[Deletion]]:
    """Delete topics. What is referred to twice is answered once, and not deleted. What refers to
    nothing, or to something in two ways, is answered each time."""
    faults = [(reference, _fault(reference)) for reference in references]
    outcomes: list[Deletion] = [(each, fault) for each, fault in faults if fault is not None]
    counts = Counter(each for each, fault in faults if fault is None)
    doomed: dict[Uuid, Topic] = {}
    by_id_first = sorted(counts, key=lambda reference: reference.name is not None)
    for reference in by_id_first:
        try:
            topic = _referred(image, reference, counts[reference])
        except KafkaError as refusal:
            outcomes.append((reference, refusal))
            continue
        if doomed.pop(topic.topic_id, None) is None:
            doomed[topic.topic_id] = topic
        else:
            message = "The provided topic name maps to an ID that was already supplied."
            both = TopicReference(topic.name, topic.topic_id)
            outcomes.append((both, KafkaError(ErrorCode.INVALID_REQUEST, message)))
    compares: list[Compare] = []
    operations: list[Operation] = []
    for topic in doomed.values():
        outcomes.append((TopicReference(topic.name, topic.topic_id), None))
        compares.append(ModifiedAt(topic_key(topic.name), topic.revision))
        operations += [
            Delete(topic_key(topic.name)),
            DeletePrefix(partitions_prefix(topic.topic_id)),
            Delete(topic_config_key(topic.name)),
        ]
    return Plan(outcomes, compares, operations)


def _fault(reference: TopicReference) -> KafkaError | None:
    has_name, has_id = reference.name is not None, reference.topic_id != ZERO_UUID
    if has_name != has_id:
        return None
    message = "You may not specify both topic name and topic id."
    if not has_name:
        message = "Neither topic name nor id were specified."
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _referred(image: ClusterImage, reference: TopicReference, count: int) -> Topic:
    has_name = reference.name is not None
    if count > 1:
        kind = "name" if has_name else "id"
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Duplicate topic {kind}.")
    topic = image.topics.get(reference.name or "") if has_name else None
    if has_name and topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_NAME)
    topic = topic or image.topic_by_id(reference.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, _UNKNOWN_ID)
    return topic
