"""What handlers are given of the broker: the parts that they read, and through which they act."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pyk.config.settings import BrokerSettings
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Peer
from pyk.log.directory import DataDirectory
from pyk.metadata.image import Broker, ClusterImage, Features, Topic
from pyk.metadata.mirror import Mirror
from pyk.metadata.producer_ids import ProducerIdBlocks
from pyk.replication.fetch_sessions import FetchSessions
from pyk.replication.flushing import Flusher
from pyk.replication.partition import Partition
from pyk.replication.replicas import Replicas
from pyk.types import Uuid, Versions
from pyk.wire.apis import ApiKey
from pyk.wire.messages.api_versions import ApiVersionsResponse

if TYPE_CHECKING:
    from random import Random

    from pyk.coordinator.group_coordinator import GroupShards
    from pyk.coordinator.transaction_coordinator import TransactionCoordinator

INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)


class Context(Struct, kw_only=True):
    node_id: int
    settings: BrokerSettings
    mirror: Mirror
    directory: DataDirectory
    replicas: Replicas
    flusher: Flusher
    fetch_sessions: FetchSessions
    producer_ids: ProducerIdBlocks
    served: Mapping[ApiKey, Versions]
    rng: Random
    now_ms: Callable[[], int]
    begin_groups: Callable[[], GroupShards]
    """Makes the coordinator of groups, which few brokers need as soon as they start."""
    begin_transactions: Callable[[], TransactionCoordinator]
    group_shards: GroupShards | None = None
    transaction_coordinator: TransactionCoordinator | None = None
    api_versions: tuple[Features, ApiVersionsResponse, ApiVersionsResponse] | None = None
    """The last answer to ApiVersions. It is good for as long as the features are the same."""

    @property
    def image(self) -> ClusterImage:
        return self.mirror.image

    @property
    def groups(self) -> GroupShards:
        if self.group_shards is None:
            self.group_shards = self.begin_groups()
        return self.group_shards

    @property
    def transactions(self) -> TransactionCoordinator:
        if self.transaction_coordinator is None:
            self.transaction_coordinator = self.begin_transactions()
        return self.transaction_coordinator

    def settings_in(self, image: ClusterImage) -> BrokerSettings:
        """The settings with the dynamic layers of an image, which may be newer than those in use.
        Raise KafkaError."""
        settings = self.settings
        cluster_wide = image.broker_defaults.values
        per_broker = image.broker_config(self.node_id).values
        if settings.cluster_wide == cluster_wide and settings.per_broker == per_broker:
            return settings
        return settings.changed(cluster_wide=cluster_wide, per_broker=per_broker)

    def topic_named(self, name: str) -> Topic:
        """Raise KafkaError."""
        topic = self.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        return topic

    def topic_of_id(self, topic_id: Uuid) -> Topic:
        """Raise KafkaError."""
        topic = self.image.topic_by_id(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id.hex()}")
        return topic

    def leader_of(self, topic: str, partition: int) -> Partition:
        """A partition that this broker leads. Raise KafkaError."""
        return self.replicas.leader_of(self.topic_named(topic), partition)

    def address_of(self, broker: Broker, peer: Peer) -> tuple[str, int]:
        """Where a client reaches a broker by the listener that it used to reach this one: as it is
        advertised, or else the address that the client has reached."""
        for listener in broker.listeners:
            if listener.name == peer.listener and listener.host:
                return listener.host, listener.port
        return peer.reached_host, peer.reached_port
