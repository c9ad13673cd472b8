"""What to write for a request: decided from an image, in the words of Kafka 4.3.

    decide(image, request) -> Plan(outcome, compares, operations)

- A plan is optimistic. If the image was old a compare is false, nothing happens, and whoever wanted
  it decides again (`Mirror.carry_out`).
- What is refused changes nothing. In a request for several things each is refused by itself, with
  a `KafkaError` in its place. One that is raised refuses the whole request.
- Chance comes from the `Random` that is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from msgspec import Struct

from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import NEVER, ClusterImage, Configured
from pyk.metadata.records import (
    BROKER_DEFAULTS,
    CLUSTER,
    FEATURES,
    PRODUCER_IDS,
    BrokerRecord,
    ClusterRecord,
    FeaturesRecord,
    ProducerIdsRecord,
    broker_config_key,
    broker_key,
    client_metrics_config_key,
    encode,
    group_config_key,
    printed,
    topic_config_key,
    topic_key,
)
from pyk.metadata.store import (
    Absent,
    Compare,
    CreatedAt,
    Delete,
    LeaseId,
    ModifiedAt,
    Operation,
    Put,
)
from pyk.types import Uuid

if TYPE_CHECKING:
    from random import Random

    import msgspec

T = TypeVar("T")

PRODUCER_ID_BLOCK: Final = 1_000
INT64_MAX: Final = 2**63 - 1
_RESERVED_IDS: Final = (bytes(16), bytes(15) + b"\1")


class Plan(Struct, Generic[T], frozen=True):
    """What is answered if the transaction succeeds. Without operations there is none to make."""

    outcome: T
    compares: Sequence[Compare] = ()
    operations: Sequence[Operation] = ()


def new_uuid(rng: Random) -> Uuid:
    """A random id as Kafka makes them: version 4, not reserved, and no dash in front, which tools
    would take for an option."""
    while True:
        drawn = bytearray(rng.randbytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        uuid = Uuid(bytes(drawn))
        if uuid not in _RESERVED_IDS and not printed(uuid).startswith("-"):
            return uuid


def initialise(image: ClusterImage, cluster_id: str, features: Mapping[str, int]) -> Plan[str]:
    """Begin a cluster, if that has not been done. The outcome is its id."""
    if image.cluster_id is not None:
        return Plan(image.cluster_id)
    return Plan(
        cluster_id,
        [Absent(CLUSTER), unchanged(FEATURES, image.features.epoch)],
        [put(CLUSTER, ClusterRecord(cluster_id)), put(FEATURES, FeaturesRecord(dict(features)))],
    )


def set_features(image: ClusterImage, levels: Mapping[str, int]) -> Plan[None]:
    """Make these the finalized features, all of them."""
    if levels == image.features.levels:
        return Plan(None)
    compare = unchanged(FEATURES, image.features.epoch)
    return Plan(None, [compare], [put(FEATURES, FeaturesRecord(dict(levels)))])


def register_broker(
    image: ClusterImage, broker_id: int, record: BrokerRecord, lease: LeaseId | None = None
) -> Plan[None]:
    """Add a broker, whose epoch is the revision of that. Raise DUPLICATE_BROKER_REGISTRATION."""
    if broker_id in image.brokers:
        raise KafkaError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker is registered with that broker id {broker_id}.",
        )
    key = broker_key(broker_id)
    return Plan(None, [Absent(key)], [Put(key, encode(record), lease)])


def unregister_broker(image: ClusterImage, broker_id: int) -> Plan[None]:
    """Remove a broker, if it is there: as that of an earlier start."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return Plan(None)
    key = broker_key(broker_id)
    return Plan(None, [CreatedAt(key, broker.epoch)], [Delete(key)])


def allocate_producer_ids(image: ClusterImage) -> Plan[range]:
    """The next block of producer ids, which nobody else gets."""
    first = image.producer_ids.next_producer_id
    if first > INT64_MAX - PRODUCER_ID_BLOCK:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 "
            "type limit",
        )
    block = range(first, first + PRODUCER_ID_BLOCK)
    compare = unchanged(PRODUCER_IDS, image.producer_ids.revision)
    return Plan(block, [compare], [put(PRODUCER_IDS, ProducerIdsRecord(block.stop))])


def set_topic_config(image: ClusterImage, name: str, values: Mapping[str, str]) -> Plan[None]:
    """Make these the configuration of a topic, all of it. Raise UNKNOWN_TOPIC_OR_PARTITION."""
    topic = image.topics.get(name)
    if topic is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        raise KafkaError(code, f"The topic '{name}' does not exist.")
    plan = _set_config(topic_config_key(name), image.topic_config(name), values)
    return Plan(
        None, [*plan.compares, ModifiedAt(topic_key(name), topic.revision)], plan.operations
    )


def set_broker_config(image: ClusterImage, broker_id: int, values: Mapping[str, str]) -> Plan[None]:
    """Make these the configuration of a broker, all of it. Raise BROKER_ID_NOT_REGISTERED."""
    if broker_id not in image.brokers:
        code = ErrorCode.BROKER_ID_NOT_REGISTERED
        raise KafkaError(code, f"No broker with id {broker_id} found.")
    return _set_config(broker_config_key(broker_id), image.broker_config(broker_id), values)


def set_broker_defaults(image: ClusterImage, values: Mapping[str, str]) -> Plan[None]:
    """Make these what brokers are configured with that say nothing else."""
    return _set_config(BROKER_DEFAULTS, image.broker_defaults, values)


def set_group_config(image: ClusterImage, name: str, values: Mapping[str, str]) -> Plan[None]:
    """Make these the configuration of a group, all of it. It need not exist."""
    return _set_config(group_config_key(name), image.group_config(name), values)


def set_client_metrics_config(
    image: ClusterImage, name: str, values: Mapping[str, str]
) -> Plan[None]:
    """Make these the configuration of a subscription to metrics. Without any there is none."""
    found = image.client_metrics_config(name)
    return _set_config(client_metrics_config_key(name), found, values)


def _set_config(key: str, found: Configured, values: Mapping[str, str]) -> Plan[None]:
    if values == found.values:
        return Plan(None)
    operation = Put(key, encode(dict(values))) if values else Delete(key)
    return Plan(None, [unchanged(key, found.revision)], [operation])


def unchanged(key: str, revision: int) -> Compare:
    """The key is as it was at that revision, or NEVER was."""
    return Absent(key) if revision == NEVER else ModifiedAt(key, revision)


def put(key: str, record: msgspec.Struct) -> Put:
    return Put(key, encode(record))
