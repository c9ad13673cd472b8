"""The shards of an internal topic: which of them a key is in, and their lifetimes.

A shard belongs to one leader epoch of its partition. It comes when this broker is elected, if there
is a log, or else when somebody asks for it. When the epoch is over it is dropped, even while it is
loading, and also if this broker is elected again: another leader may have written in between.

One whose log cannot be read answers NOT_COORDINATOR, as in Kafka, so that clients look for another
coordinator and come back. It is loaded again after a while: what is damaged may be restored, and
what the disk has refused once may succeed. All others serve meanwhile.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import trio
from msgspec import Struct

from pyk.config.settings import BrokerSettings
from pyk.coordinator.internal_topics import internal_topic, partition_for
from pyk.coordinator.journal import Journal, JournalOptions, LogUnreadable, RecordTypes
from pyk.coordinator.machine import Decision, Machine, Ticket
from pyk.coordinator.shard import Shard
from pyk.coordinator.topic_changes import TopicChanges, topic_changes
from pyk.errors import ErrorCode, KafkaError
from pyk.late_wakeups import let_sockets_be_read
from pyk.log.directory import DataDirectory
from pyk.metadata.controller import Plan
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.mirror import Mirror
from pyk.metadata.records import PartitionState
from pyk.metadata.topics import Creation, TopicDefaults, create_topics
from pyk.offload import Elsewhere, in_thread
from pyk.replication.replicas import Replicas
from pyk.turns import Work, in_turns
from pyk.types import TopicPartition

if TYPE_CHECKING:
    from random import Random

logger = logging.getLogger(__name__)

RETRY_MIN: Final = 1.0
RETRY_MAX: Final = 60.0
"""Seconds until a shard that could not be loaded is tried again: twice as many each time."""

M = TypeVar("M", bound=Machine)


class Parts(Struct, frozen=True, kw_only=True):
    """What a coordinator needs of its broker."""

    node_id: int
    settings: Callable[[], BrokerSettings]
    mirror: Mirror
    directory: DataDirectory
    replicas: Replicas
    rng: Random
    now_ms: Callable[[], int]
    offload: Elsewhere = in_thread
    """Where work is done that would keep others waiting."""


class Shards(Generic[M]):
    def __init__(
        self,
        parts: Parts,
        topic: str,
        types: RecordTypes,
        options: Callable[[], JournalOptions],
        machine: Callable[[], M],
        note_change: Callable[[Shard[M]], None] = lambda _: None,
    ) -> None:
        """`machine` makes one for a new shard."""
        self._parts = parts
        self._name = topic
        self._types = types
        self._options = options
        self._machine = machine
        self._note_change = note_change
        self._mirror = parts.mirror
        self._shards: dict[int, Shard[M]] = {}
        self._topic: Topic | None = None
        self._to_load, self._loads = trio.open_memory_channel[tuple[int, Shard[M]]](math.inf)
        self._to_retry, self._retries = trio.open_memory_channel[
            tuple[int, Shard[M] | None, float]
        ](math.inf)
        self._patience: dict[int, float] = {}
        """By those that could not be loaded: how long they waited before they were tried again."""
        self._compared: tuple[ClusterImage, ClusterImage, TopicChanges] | None = None
        self._earlier = trio.Event()
        self._sleeps_until = -math.inf

    def execute(
        self, key: str, decide: Callable[[M, Ticket, float], Decision]
    ) -> Any | Awaitable[Any]:
        """What the key's shard says, or an awaitable of it. Raise KafkaError."""
        return self.of(key).execute(decide)

    def of(self, key: str) -> Shard[M]:
        """Raise KafkaError if this broker is not the one to ask."""
        topic = self._mirror.image.topics.get(self._name)
        if topic is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        if topic is not self._topic:
            self._follow(topic)
        return self._at(topic, partition_for(key, len(topic.partitions)))

    def at(self, number: int) -> Shard[M]:
        """That of a partition. Raise KafkaError."""
        topic = self._mirror.image.topics.get(self._name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic is not self._topic:
            self._follow(topic)
        return self._at(topic, number)

    def _at(self, topic: Topic, number: int) -> Shard[M]:
        shard = self._shards.get(number)
        return self._begin(topic, number) if shard is None else shard

    def __iter__(self) -> Iterator[Shard[M]]:
        """Those that are there. One whose log was never written has nothing to tell."""
        return iter(list(self._shards.values()))

    @property
    def has_topic(self) -> bool:
        return self._name in self._mirror.image.topics

    def coordinator_of(self, key: str) -> int:
        """The broker that is responsible for the key, if the topic is there."""
        partitions = self._mirror.image.topics[self._name].partitions
        return partitions[partition_for(key, len(partitions))].leader

    async def create_topic(self) -> None:
        """Make the topic, unless it is there by now. Raise KafkaError."""

        def decide(image: ClusterImage) -> Plan[list[Creation]]:
            wanted = internal_topic(self._name, self._parts.settings(), image)
            return create_topics(image, [wanted], TopicDefaults(), self._parts.rng)

        ((_, outcome),) = await self._mirror.carry_out(decide)
        if not self.has_topic:
            assert isinstance(outcome, KafkaError), outcome
            logger.error("the topic %s cannot be made: %s", self._name, outcome)
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome.message)

    def on_image(self, image: ClusterImage) -> None:
        """Let shards come and go with their partitions, and hear what else has changed."""
        self._follow(image.topics.get(self._name))
        for shard in self:
            try:
                shard.on_image(image, self._changes)
            except Exception:
                logger.exception("a shard of %s does not follow the metadata", self._name)

    def _changes(self, before: ClusterImage, after: ClusterImage) -> TopicChanges:
        """Mostly the same for all shards."""
        known = self._compared
        if known is None or known[0] is not before or known[1] is not after:
            known = self._compared = before, after, topic_changes(before, after)
        return known[2]

    async def run(self) -> None:
        """Load what is to be loaded, and let time pass."""
        self.on_image(self._mirror.image)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._load, nursery)
            nursery.start_soon(self._retry, nursery)
            nursery.start_soon(self._expire)

    def _follow(self, topic: Topic | None) -> None:
        before, self._topic = self._topic, topic
        if topic is before:
            return
        then: Sequence[PartitionState] = ()
        if topic is not None and before is not None and topic.topic_id == before.topic_id:
            then = before.partitions
        now = () if topic is None else topic.partitions
        for number in [number for number in self._shards if number >= min(len(then), len(now))]:
            self.on_resigned(number)
        for number, state in enumerate(now):
            if state.leader != self._parts.node_id:
                self.on_resigned(number)
            elif number >= len(then) or not _is_same_election(state, then[number]):
                self.on_elected(number, state.leader_epoch)

    def on_elected(self, number: int, leader_epoch: int) -> None:
        """This broker leads the partition from now on, in that epoch."""
        shard = self._shards.get(number)
        if shard is not None and shard.leader_epoch == leader_epoch:
            return
        self.on_resigned(number)
        partition, directory = TopicPartition(self._name, number), self._parts.directory
        if self._topic is not None and (directory.has(partition) or partition in directory.failed):
            self._begin_or_retry(self._topic, number)

    def on_resigned(self, number: int) -> None:
        """This broker does not lead the partition any more, or not in the same epoch."""
        self._patience.pop(number, None)
        shard = self._shards.pop(number, None)
        if shard is not None:
            shard.drop()

    def _is_led_here(self, topic: Topic, number: int) -> bool:
        partitions = topic.partitions
        return number < len(partitions) and partitions[number].leader == self._parts.node_id

    def _begin_or_retry(self, topic: Topic, number: int, *, has_failed: bool = False) -> None:
        try:
            self._begin(topic, number, has_failed=has_failed)
        except KafkaError as refusal:
            self._try_later(number, None, str(refusal))

    def _begin(self, topic: Topic, number: int, *, has_failed: bool = False) -> Shard[M]:
        """Raise KafkaError."""
        try:
            partition = self._parts.replicas.leader_of(topic, number)
            journal = Journal(partition, self._types, self._options())
        except (KafkaError, OSError) as refusal:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, str(refusal)) from refusal
        shard = Shard(
            self._machine(),
            journal,
            self._parts.now_ms,
            lambda: self._mirror.image,
            self._note_deadline,
            self._note_change,
            lambda shard: self._fail(number, shard, "it cannot go on after a bug"),
            has_failed=has_failed,
        )
        self._shards[number] = shard
        if journal.is_empty:
            shard.begin()
        else:
            self._to_load.send_nowait((number, shard))
        return shard

    async def _load(self, nursery: trio.Nursery) -> None:
        """One log after the other. What is not committed yet keeps no other shard waiting."""
        async for number, shard in self._loads:
            await self._attempt(number, shard, shard.replay)
            if not shard.is_over and not shard.is_replay_committed:
                nursery.start_soon(self._serve, number, shard)
            elif not shard.is_over:
                await self._serve(number, shard)

    async def _serve(self, number: int, shard: Shard[M]) -> None:
        await self._attempt(number, shard, shard.serve_when_committed)
        if shard.is_loaded:
            self._patience.pop(number, None)
            if shard.unreadable:
                logger.warning("%s records of %s cannot be read", shard.unreadable, self._name)

    async def _attempt(
        self, number: int, shard: Shard[M], load: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            await load()
        except LogUnreadable as error:
            self._fail(number, shard, str(error))
        except Exception:
            logger.exception("%s-%s cannot be loaded after a bug", self._name, number)
            self._fail(number, shard, "a bug")

    def _fail(self, number: int, shard: Shard[M], why: str) -> None:
        if shard.is_dropped:
            return  # Its log may have been truncated meanwhile.
        shard.fail()
        if self._shards.get(number) is shard:
            self._try_later(number, shard, why)

    def _try_later(self, number: int, failed: Shard[M] | None, why: str) -> None:
        before = self._patience.get(number)
        patience = RETRY_MIN if before is None else min(2 * before, RETRY_MAX)
        self._patience[number] = patience
        logger.error(
            "%s-%s cannot be loaded, and is tried again in %.0f s: %s",
            self._name,
            number,
            patience,
            why,
        )
        self._to_retry.send_nowait((number, failed, patience))

    async def _retry(self, nursery: trio.Nursery) -> None:
        async for number, failed, patience in self._retries:
            nursery.start_soon(self._begin_again, number, failed, patience)

    async def _begin_again(self, number: int, failed: Shard[M] | None, patience: float) -> None:
        """Unless another has taken the place of the one that has failed."""
        await trio.sleep(patience)
        topic = self._topic
        is_needed = self._shards.get(number) is failed
        if topic is not None and self._is_led_here(topic, number) and is_needed:
            if failed is not None:
                del self._shards[number]
                failed.drop()
            self._begin_or_retry(topic, number, has_failed=True)

    def _note_deadline(self, deadline: float) -> None:
        if deadline < self._sleeps_until:
            self._earlier.set()

    async def _expire(self) -> None:
        while True:
            deadlines = [shard.deadline() for shard in self]
            self._sleeps_until = min((d for d in deadlines if d is not None), default=math.inf)
            self._earlier = trio.Event()
            with trio.move_on_at(self._sleeps_until):
                await self._earlier.wait()
            moment = await let_sockets_be_read(self._sleeps_until)
            await in_turns(self._expire_due(moment))

    def _expire_due(self, moment: float) -> Work[None]:
        """Each timer by itself: one that fails is dropped, and the others go on."""
        for shard in self:
            is_due = True
            while is_due:
                try:
                    is_due = shard.expire(moment)
                except KafkaError as refusal:
                    logger.warning("%s does not take what is due: %s", self._name, refusal)
                    # It may be due again at once: by then others have had their turn.
                    break
                except Exception:
                    logger.exception("a timer of %s is dropped after a bug", self._name)
                if is_due:
                    yield


def _is_same_election(state: PartitionState, before: PartitionState) -> bool:
    return (state.leader, state.leader_epoch) == (before.leader, before.leader_epoch)
