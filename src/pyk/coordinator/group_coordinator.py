"""The coordinator of groups: which shard a group is in, and the lifetime of shards.

A shard comes when this broker leads its partition and somebody asks for it, or at once if its log
is there from before. It is dropped when the partition is no longer this broker's.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import trio

from pyk.config.group import GroupConfig
from pyk.config.settings import BrokerSettings
from pyk.coordinator.group import Surroundings
from pyk.coordinator.groups import Groups
from pyk.coordinator.internal_topics import GROUP_TOPIC, internal_topic, partition_for
from pyk.coordinator.journal import Journal, RecordTypes
from pyk.coordinator.machine import Decision, Ticket
from pyk.coordinator.shard import Shard
from pyk.errors import ErrorCode, KafkaError
from pyk.log.directory import DataDirectory
from pyk.metadata.controller import Plan
from pyk.metadata.image import ClusterImage, Configured, Topic
from pyk.metadata.mirror import Mirror
from pyk.metadata.topics import Creation, TopicDefaults, create_topics
from pyk.replication.replicas import Replicas
from pyk.wire.compression import Compression
from pyk.wire.payloads import classic_group_records, consumer_group_records, offset_records
from pyk.wire.prefixed import by_record_type

if TYPE_CHECKING:
    from random import Random

logger = logging.getLogger(__name__)

GroupShard = Shard[Groups]
Decide = Callable[[Groups, Ticket, float], Decision]


def _record_types() -> RecordTypes:
    values: dict[type, type] = {}
    for module in (offset_records, classic_group_records, consumer_group_records):
        for name, declared in vars(module).items():
            if name.endswith("Key") and isinstance(declared, type):
                values[declared] = getattr(module, name.removesuffix("Key") + "Value")
    return RecordTypes(by_record_type(*values), values)


RECORD_TYPES: Final = _record_types()


class GroupCoordinator:
    def __init__(
        self,
        *,
        node_id: int,
        settings: Callable[[], BrokerSettings],
        mirror: Mirror,
        directory: DataDirectory,
        replicas: Replicas,
        rng: Random,
        now_ms: Callable[[], int],
    ) -> None:
        self._node_id = node_id
        self._settings = settings
        self._mirror = mirror
        self._directory = directory
        self._replicas = replicas
        self._rng = rng
        self._now_ms = now_ms
        self._configs = _GroupConfigs(settings, mirror)
        self._shards: dict[int, GroupShard] = {}
        self._topic: Topic | None = None
        self._to_load, self._loads = trio.open_memory_channel[GroupShard](math.inf)
        self._earlier = trio.Event()
        self._sleeps_until = -math.inf

    def execute(self, group_id: str, decide: Decide) -> Any | Awaitable[Any]:
        """What the group's shard says, or an awaitable of it. Raise KafkaError."""
        return self.shard_of(group_id).execute(decide)

    def shard_of(self, group_id: str) -> GroupShard:
        """Raise KafkaError if this broker is not the one to ask."""
        topic = self._mirror.image.topics.get(GROUP_TOPIC)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if topic is not self._topic:
            self._follow(topic)
        number = partition_for(group_id, len(topic.partitions))
        shard = self._shards.get(number)
        return self._begin(topic, number) if shard is None else shard

    def shards(self) -> Iterator[GroupShard]:
        """Those that are there. One whose log was never written has no groups."""
        return iter(list(self._shards.values()))

    @property
    def has_topic(self) -> bool:
        return GROUP_TOPIC in self._mirror.image.topics

    def coordinator_of(self, group_id: str) -> int:
        """The broker that coordinates the group, whose topic is there."""
        partitions = self._mirror.image.topics[GROUP_TOPIC].partitions
        return partitions[partition_for(group_id, len(partitions))].leader

    async def create_topic(self) -> None:
        """Make the topic that groups live on, unless it is there by now. Raise KafkaError."""

        def decide(image: ClusterImage) -> Plan[list[Creation]]:
            wanted = internal_topic(GROUP_TOPIC, self._settings(), image)
            return create_topics(image, [wanted], TopicDefaults(), self._rng)

        ((_, outcome),) = await self._mirror.carry_out(decide)
        if not self.has_topic:
            assert isinstance(outcome, KafkaError), outcome
            logger.error("the topic %s cannot be made: %s", GROUP_TOPIC, outcome)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome.message)

    def on_image(self, image: ClusterImage) -> None:
        """Let shards come and go with their partitions, and groups hear of their topics."""
        self._follow(image.topics.get(GROUP_TOPIC))
        for shard in self.shards():
            try:
                shard.perform(lambda groups, now: groups.on_image(image, now))
            except KafkaError as refusal:
                logger.warning("offsets of deleted topics stay for now: %s", refusal)

    async def run(self) -> None:
        """Load what is to be loaded, and let time pass for groups."""
        self.on_image(self._mirror.image)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._load)
            nursery.start_soon(self._expire)

    def _follow(self, topic: Topic | None) -> None:
        before, self._topic = self._topic, topic
        if topic is before:
            return
        for number, shard in list(self._shards.items()):
            is_ours = (
                topic is not None
                and before is not None
                and topic.topic_id == before.topic_id
                and topic.partitions[number].leader == self._node_id
            )
            if not is_ours:
                del self._shards[number]
                shard.drop()
        if topic is None:
            return
        for partition in self._directory.partitions:
            if partition.topic == GROUP_TOPIC and partition.partition not in self._shards:
                number = partition.partition
                if number < len(topic.partitions):
                    self._begin(topic, number)

    def _begin(self, topic: Topic, number: int) -> GroupShard:
        config = self._settings().config
        try:
            partition = self._replicas.leader_of(topic, number)
        except KafkaError as refusal:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, refusal.message) from refusal
        surroundings = Surroundings(
            config=lambda: self._settings().config,
            group_config=self._configs.of,
            rng=self._rng,
            now_ms=self._now_ms,
            image=self._mirror.image,
        )
        journal = Journal(
            partition,
            RECORD_TYPES,
            Compression(config.offsets_topic_compression_codec),
            config.offsets_commit_timeout_ms / 1000,
        )
        shard = Shard(Groups(surroundings), journal, self._now_ms, self._note_deadline)
        self._shards[number] = shard
        if journal.is_empty:
            shard.begin()
        else:
            self._to_load.send_nowait(shard)
        return shard

    async def _load(self) -> None:
        async for shard in self._loads:
            await shard.load()
            if shard.unreadable:
                logger.warning("%s records of groups cannot be read", shard.unreadable)

    def _note_deadline(self, deadline: float) -> None:
        if deadline < self._sleeps_until:
            self._earlier.set()

    async def _expire(self) -> None:
        while True:
            deadlines = [shard.deadline() for shard in self.shards()]
            self._sleeps_until = min((d for d in deadlines if d is not None), default=math.inf)
            self._earlier = trio.Event()
            with trio.move_on_at(self._sleeps_until):
                await self._earlier.wait()
            for shard in self.shards():
                await self._expire_one(shard)

    async def _expire_one(self, shard: GroupShard) -> None:
        is_due = True
        while is_due:
            try:
                is_due = shard.expire()
            except KafkaError as refusal:
                logger.warning("the log of groups refuses what is due: %s", refusal)
            await trio.lowlevel.checkpoint()


class _GroupConfigs:
    """The configuration of groups, which is made of text, remembered as long as it is good."""

    def __init__(self, settings: Callable[[], BrokerSettings], mirror: Mirror) -> None:
        self._settings = settings
        self._mirror = mirror
        self._based_on: BrokerSettings | None = None
        self._made: dict[str, tuple[Configured, GroupConfig]] = {}
        self._default = GroupConfig()

    def of(self, group_id: str) -> GroupConfig:
        settings = self._settings()
        if settings is not self._based_on:
            self._based_on, self._made = settings, {}
            self._default = settings.group_config()
        configured = self._mirror.image.group_config(group_id)
        if not configured.values:
            return self._default
        known = self._made.get(group_id)
        if known is None or known[0] is not configured:
            known = configured, settings.group_config(configured.values)
            self._made[group_id] = known
        return known[1]
