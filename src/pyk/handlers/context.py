"""What handlers are given of the broker: the parts that they read, and through which they act."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import trio
from msgspec import Struct, field

from pyk.config.settings import BrokerSettings
from pyk.config.topic import TopicConfig
from pyk.coordinator.internal_topics import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Peer
from pyk.handlers.failures import Failures, Run, Tasks
from pyk.handlers.parked import News
from pyk.log.directory import DataDirectory
from pyk.metadata.controller import Plan
from pyk.metadata.image import Broker, ClusterImage, Features, Topic
from pyk.metadata.mirror import Mirror
from pyk.metadata.producer_ids import ProducerIdBlocks
from pyk.offload import Elsewhere, in_thread
from pyk.replication.checkpoints import Checkpoints
from pyk.replication.fetch_sessions import FetchSessions
from pyk.replication.flushing import Flusher
from pyk.replication.partition import Partition
from pyk.replication.replicas import Replicas
from pyk.replication.unused import Unused
from pyk.types import Uuid, Versions
from pyk.wire.apis import ApiKey

if TYPE_CHECKING:
    from random import Random

    from pyk.coordinator.group_coordinator import GroupShards
    from pyk.coordinator.shards import Parts
    from pyk.coordinator.share_coordinator import ShareCoordinator
    from pyk.coordinator.share_lifecycle import ShareLifecycle
    from pyk.coordinator.transaction_coordinator import TransactionCoordinator
    from pyk.sharing.shares import Shares
    from pyk.wire.messages.api_versions import ApiVersionsResponse

T = TypeVar("T")

DECIDED_AT_ONCE_MAX: Final = 50
"""How many topics, partitions or configurations may be decided about before others have a turn."""
INFLATED_AT_ONCE: Final = 4
"""Requests whose batches are inflated in threads at the same time: a batch of a few bytes may take
tens of megabytes then."""
SEARCHED_AT_ONCE: Final = 2
"""Searches by time, which inflate batches too: they keep no Produce waiting."""
OPENING_PATIENCE: Final = 5.0
"""Seconds that a reader waits for logs to be opened."""
INTERNAL_TOPICS: Final = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC})


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
    checkpoints: Checkpoints
    """What must be durable of where logs start."""
    tasks: Tasks
    """What runs for as long as the broker does."""
    failures: Failures
    offload: Elsewhere = in_thread
    """Where work is done that would keep others waiting."""
    inflations: trio.CapacityLimiter = field(
        default_factory=lambda: trio.CapacityLimiter(INFLATED_AT_ONCE)
    )
    searches: trio.CapacityLimiter = field(
        default_factory=lambda: trio.CapacityLimiter(SEARCHED_AT_ONCE)
    )
    news: News = field(default_factory=News)
    """What requests bring to those who wait."""
    group_shards: GroupShards | None = None
    transaction_coordinator: TransactionCoordinator | None = None
    coordinator_of_shares: ShareCoordinator | None = None
    lifecycle_of_shares: ShareLifecycle | None = None
    shares_led: Shares | None = None
    api_versions: tuple[Features, ApiVersionsResponse, ApiVersionsResponse] | None = None
    """The last answer to ApiVersions. It is good for as long as the features are the same."""

    @property
    def start_soon(self) -> Callable[[Run], None]:
        """Runs something beside everything else, to its end."""
        return self.tasks.start_soon

    @property
    def image(self) -> ClusterImage:
        return self.mirror.image

    @property
    def groups(self) -> GroupShards:
        """Their coordinator is made when the first group comes, or is found: most of a broker's
        start is imports."""
        if self.group_shards is None:
            from pyk.coordinator.group_coordinator import group_shards

            self.group_shards = group_shards(self._parts(), self.share_lifecycle)
            self.tasks.keep_running(self.group_shards.run)
        return self.group_shards

    @property
    def share_lifecycle(self) -> ShareLifecycle:
        if self.lifecycle_of_shares is None:
            from pyk.coordinator.share_lifecycle import ShareLifecycle

            self.lifecycle_of_shares = ShareLifecycle(
                lambda: self.share_coordinator.persister, self.start_soon
            )
        return self.lifecycle_of_shares

    @property
    def transactions(self) -> TransactionCoordinator:
        if self.transaction_coordinator is None:
            from pyk.coordinator.transaction_coordinator import TransactionCoordinator

            self.transaction_coordinator = TransactionCoordinator(
                self._parts(), self.producer_ids, lambda: self.groups
            )
            self.tasks.keep_running(self.transaction_coordinator.run)
        return self.transaction_coordinator

    @property
    def share_coordinator(self) -> ShareCoordinator:
        if self.coordinator_of_shares is None:
            from pyk.coordinator.share_coordinator import ShareCoordinator

            self.coordinator_of_shares = ShareCoordinator(
                self._parts(), lambda key: self.share_lifecycle.note_missing(key, self.groups)
            )
            self.tasks.keep_running(self.coordinator_of_shares.run)
        return self.coordinator_of_shares

    @property
    def shares(self) -> Shares:
        """What share groups have of the partitions that this broker leads."""
        if self.shares_led is None:
            from pyk.coordinator.group_configs import GroupConfigs
            from pyk.handlers.automatic_topics import found_or_made
            from pyk.sharing.shares import Shares

            self.shares_led = Shares(
                replicas=self.replicas,
                persister=self.share_coordinator.persister,
                group_config=GroupConfigs(lambda: self.settings, self.mirror).of,
                sessions_max=lambda: self.settings.config.group_share_max_share_sessions,
                now_ms=self.now_ms,
                start_soon=self.start_soon,
                topic_for_letters=lambda name: found_or_made(name, self),
            )
            self.tasks.keep_running(self.shares_led.run)
        return self.shares_led

    async def open_logs_of_coordinators(self) -> None:
        """What they have to load, in threads: a shard that begins opens its log where it is."""
        topics = self.image.topics
        await self.replicas.ensure_logs(
            (topics[partition.topic], partition.partition)
            for partition in sorted(self.directory.partitions)
            if partition.topic in INTERNAL_TOPICS and partition.topic in topics
        )

    def begin_coordinators(self) -> None:
        """Those that have something to load, or to finish."""
        topics = {partition.topic for partition in self.directory.partitions}
        if GROUP_TOPIC in topics:
            _ = self.groups
        if TRANSACTION_TOPIC in topics:
            _ = self.transactions
        if SHARE_TOPIC in topics:
            _ = self.share_coordinator

    def _parts(self) -> Parts:
        from pyk.coordinator.shards import Parts

        return Parts(
            node_id=self.node_id,
            settings=lambda: self.settings,
            mirror=self.mirror,
            directory=self.directory,
            replicas=self.replicas,
            rng=self.rng,
            now_ms=self.now_ms,
            offload=self.offload,
        )

    async def inflate(self, run: Callable[[], T]) -> T:
        """Run what inflates batches that are to be written, when few others do so."""
        async with self.inflations:
            return await self.offload(run)

    async def search(self, run: Callable[[], T]) -> T:
        """Run what looks for a time in batches, when few others do so."""
        async with self.searches:
            return await self.offload(run)

    def settings_in(self, image: ClusterImage) -> BrokerSettings:
        """The settings with the dynamic layers of an image, which may be newer than those in use.
        What is not valid in them is ignored."""
        settings = self.settings
        cluster_wide = image.broker_defaults.values
        per_broker = image.broker_config(self.node_id).values
        if settings.stored == (cluster_wide, per_broker):
            return settings
        return settings.following(cluster_wide, per_broker)

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

    def readable(
        self, topic: str, partition: int, closed: list[tuple[Topic, int]]
    ) -> Partition | Unused:
        """The same, for who only reads it: no log is made or opened for that. See
        `Replicas.readable`."""
        return self.replicas.readable(self.topic_named(topic), partition, closed)

    async def ensure_logs_in_time(self, partitions: Sequence[tuple[Topic, int]]) -> None:
        """See `Replicas.ensure_logs`. If it takes longer than others wait for an answer it goes on
        by itself, and who comes again may find them open."""
        done = trio.Event()

        async def ensure() -> None:
            try:
                await self.replicas.ensure_logs(partitions)
            finally:
                done.set()

        self.start_soon(ensure)
        with trio.move_on_after(OPENING_PATIENCE):
            await done.wait()

    def topic_config(self, name: str) -> TopicConfig:
        return self.settings.topic_config(self.image.topic_config(name).values)

    async def carry_out(self, decide: Callable[[ClusterImage], Plan[T]], size: int) -> T:
        """Commit what is decided from the image; see `Mirror.carry_out`. If it is about much it is
        decided elsewhere: `decide` reads nothing that changes. Raise KafkaError."""
        if size <= DECIDED_AT_ONCE_MAX:
            return await self.mirror.carry_out(decide)
        return await self.mirror.carry_out(lambda image: self.offload(lambda: decide(image)))

    async def validate(self, decide: Callable[[ClusterImage], Plan[T]], size: int) -> T:
        """The same, without a commit."""
        if size <= DECIDED_AT_ONCE_MAX:
            return decide(self.image).outcome
        image = self.image
        return (await self.offload(lambda: decide(image))).outcome

    def address_of(self, broker: Broker, peer: Peer) -> tuple[str, int]:
        """Where a client reaches a broker by the listener that it used to reach this one: as it is
        advertised, or else the address that the client has reached."""
        for listener in broker.listeners:
            if listener.name == peer.listener and listener.host:
                return listener.host, listener.port
        return peer.reached_host, peer.reached_port
