"""The values in the store: JSON objects, so that they can be read, and grow.

A reader ignores fields that it does not know, and a field that is not there has its default. So a
field may be added if it has one, and is never given another meaning.

Annotations are not text in this module: msgspec would compile each one when it first reads a record
of its kind.
"""

import base64
from collections.abc import Callable
from functools import cache
from typing import Final, TypeVar

import msgspec

from pyk.types import Uuid

NO_LEADER: Final = -1

CLUSTER: Final = "cluster"
FEATURES: Final = "features"
PRODUCER_IDS: Final = "producer-ids"
BROKERS: Final = "brokers/"
TOPICS: Final = "topics/"
PARTITIONS: Final = "partitions/"
TOPIC_CONFIGS: Final = "configs/topics/"
BROKER_CONFIGS: Final = "configs/brokers/"
BROKER_DEFAULTS: Final = "configs/broker-defaults"
GROUP_CONFIGS: Final = "configs/groups/"
CLIENT_METRICS_CONFIGS: Final = "configs/client-metrics/"

R = TypeVar("R")

_PRINTED_SIZE: Final = 22
_LAST_OF_PRINTED: Final = "AQgw"
"""The last character has two bits of an id, and four that are zero."""
_ALPHABET: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


class ClusterRecord(msgspec.Struct, frozen=True):
    cluster_id: str


class FeaturesRecord(msgspec.Struct, frozen=True):
    levels: dict[str, int]


class ProducerIdsRecord(msgspec.Struct, frozen=True):
    next_producer_id: int


class Listener(msgspec.Struct, frozen=True):
    """Where a broker can be reached, by the name that its configuration gives that."""

    name: str
    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


class BrokerRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    listeners: tuple[Listener, ...]
    rack: str | None = None
    fenced: bool = False


class PartitionState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    replicas: tuple[int, ...]
    """The first is the preferred leader."""
    isr: tuple[int, ...]
    leader: int
    """NO_LEADER if nobody in the in-sync set is alive."""
    leader_epoch: int = 0
    partition_epoch: int = 0
    elr: tuple[int, ...] = ()
    """Who else has all that is committed (KIP-966)."""


class TopicRecord(msgspec.Struct, frozen=True):
    topic_id: str
    partitions: tuple[PartitionState, ...]
    """In the order of their numbers, each as it was created. Its own key says what it became."""


Configuration = dict[str, str]


def encode(record: msgspec.Struct | Configuration) -> bytes:
    return msgspec.json.encode(record)


def _reader(kind: type[R]) -> Callable[[bytes], R]:
    # Made when it is first needed: it takes long, and a new store has few kinds of records.
    decoder = cache(lambda: msgspec.json.Decoder(kind))

    def read(value: bytes) -> R:
        """Raise ValueError."""
        try:
            return decoder().decode(value)
        except (UnicodeDecodeError, msgspec.DecodeError) as error:
            raise ValueError(str(error)) from None

    return read


read_cluster = _reader(ClusterRecord)
read_features = _reader(FeaturesRecord)
read_producer_ids = _reader(ProducerIdsRecord)
read_broker = _reader(BrokerRecord)
read_topic = _reader(TopicRecord)
read_partition = _reader(PartitionState)
read_configuration = _reader(Configuration)


def printed(uuid: Uuid) -> str:
    """As Kafka prints it: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def parsed(text: str) -> Uuid:
    """Raise ValueError."""
    # Not by a pattern: the first broker that starts would wait for it to be compiled.
    is_printed = len(text) == _PRINTED_SIZE and text[-1] in _LAST_OF_PRINTED
    if not is_printed or not _ALPHABET.issuperset(text):
        raise ValueError(f"{text!r} is no id")
    return Uuid(base64.urlsafe_b64decode(text + "=="))


def topic_key(name: str) -> str:
    return f"{TOPICS}{name}"


def partitions_prefix(topic_id: Uuid) -> str:
    return f"{PARTITIONS}{printed(topic_id)}/"


def partition_key(topic_id: Uuid, partition: int) -> str:
    return f"{partitions_prefix(topic_id)}{partition}"


def broker_key(broker_id: int) -> str:
    return f"{BROKERS}{broker_id}"


def topic_config_key(name: str) -> str:
    return f"{TOPIC_CONFIGS}{name}"


def broker_config_key(broker_id: int) -> str:
    return f"{BROKER_CONFIGS}{broker_id}"


def group_config_key(name: str) -> str:
    return f"{GROUP_CONFIGS}{name}"


def client_metrics_config_key(name: str) -> str:
    return f"{CLIENT_METRICS_CONFIGS}{name}"
