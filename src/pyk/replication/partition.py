"""A partition of which this broker has a replica: its log, its role, and who waits for it.

    append -> log -> leader -> high watermark -> those who wait

It leads in one leader epoch after the other, or does not lead. A wait for a commit is one of its
epoch, and ends with it.

Whoever waits registers with one or many partitions, and is woken when any of them has more to
show. Everything but waiting is a plain function: nothing happens in between.
"""

from __future__ import annotations

import logging
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import trio
from msgspec import Struct

from pyk.config.topic import TopicConfig
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import LogConfig
from pyk.log.epochs import EpochEnd
from pyk.log.guards import UNGUARDED, Guard
from pyk.log.index import TimedOffset
from pyk.log.log import Appended as Added
from pyk.log.log import Log
from pyk.log.producers import Origin
from pyk.log.segment import Piece
from pyk.log.transactions import AbortedTransaction
from pyk.log.validation import Prepared, prepare
from pyk.metadata.records import PartitionState
from pyk.replication.flushing import Flusher
from pyk.replication.leader import Appended, Event, IsrChanged, Leader
from pyk.replication.readers import Readers
from pyk.replication.watermark import Watermark
from pyk.types import Buffer, TopicPartition, Uuid
from pyk.wire.batch import ControlType
from pyk.wire.prefixed import encode_end_marker
from pyk.wire.records import Record, build_batch

logger: Final = logging.getLogger(__name__)

ACKS_ALL = -1
NO_EPOCH = -1


class Isolation(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Wakeable(Protocol):
    """Somebody who waits for partitions to have more to show."""

    def wake(self) -> None:
        """Do nothing yet but to see that it is done."""


class Waiter:
    """A task that waits."""

    def __init__(self) -> None:
        self._woken = trio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def wait(self) -> None:
        """Until woken. It can be waited for again then."""
        await self._woken.wait()
        self._woken = trio.Event()


def check_leader_epoch(asked: int, current: int, partition: TopicPartition) -> None:
    """Raise KafkaError if the client's view of who leads is older or newer than ours."""
    if asked in (NO_EPOCH, current):
        return
    if asked < current:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {asked} of {partition} is over"
        )
    raise KafkaError(
        ErrorCode.UNKNOWN_LEADER_EPOCH, f"leader epoch {asked} of {partition} is not known here"
    )


class Produced(Struct, frozen=True):
    added: Added
    append_time: int
    """-1 if records keep their own times."""
    is_flush_due: bool
    """Whether the answer has to wait until all of it is durable."""
    leader_epoch: int
    """In which it was appended. Who waits for it to be committed names it."""

    @property
    def end_offset(self) -> int:
        return self.added.last_offset + 1


class Marker(NamedTuple):
    """That a transaction has ended, for each of its partitions to know."""

    producer_id: int
    producer_epoch: int
    outcome: ControlType
    coordinator_epoch: int
    transaction_version: int


class Offsets(NamedTuple):
    """Where a log starts, and what readers may see of it."""

    start: int
    last_stable: int
    high_watermark: int
    end: int


class Fetched(NamedTuple):
    piece: Piece | None
    aborted: list[AbortedTransaction] | None
    """For readers of committed records."""
    offsets: Offsets


class Partition:
    def __init__(
        self,
        partition: TopicPartition,
        topic_id: Uuid,
        log: Log,
        leader: Leader,
        flusher: Flusher,
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.log = log
        self.min_insync_replicas = 1
        self.bytes_in = 0
        self.records_in = 0
        self.bytes_out = 0
        self.readers = Readers()
        self.state: PartitionState | None = None
        """What the cluster's image said of it last."""
        self.leader_epoch = leader.leader_epoch
        """The last one in which this broker led."""
        self._leader = leader
        self._watermark = Watermark(partition, log)
        self._flusher = flusher
        self._waiters: dict[Wakeable, None] = {}
        self._told: str | None = None
        """What was told last of a disk that takes nothing."""
        self.lead(leader)

    def lead(self, leader: Leader) -> None:
        """Lead from now on, in the leader's epoch."""
        self._leader, self.leader_epoch = leader, leader.leader_epoch
        self._watermark.begin(leader.leader_epoch)
        self._apply(Appended(self.log.end_offset))
        self.wake_all()

    def change_in_sync(self, in_sync: frozenset[int]) -> None:
        """Other replicas count, in the same leader epoch."""
        if in_sync != self._leader.in_sync:
            self._apply(IsrChanged(in_sync))

    def resign(self, refusal: KafkaError) -> None:
        """Lead no more. Who waits for a commit hears the refusal, and readers ask again."""
        self._watermark.end(refusal)
        self.wake_all()

    @property
    def is_led(self) -> bool:
        """Whether this broker leads it."""
        return self._watermark.epoch is not None

    def check_leads(self, leader_epoch: int) -> None:
        """Raise KafkaError if this broker does not lead in that epoch any more."""
        if self._watermark.epoch != leader_epoch:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"leader epoch {leader_epoch} of {self.partition} is over",
            )

    @property
    def offsets(self) -> Offsets:
        log = self.log
        return Offsets(log.start_offset, log.last_stable_offset, log.high_watermark, log.end_offset)

    def configure(self, config: TopicConfig) -> None:
        """What the topic's configuration asks for, from now on."""
        self.log.config = LogConfig.of(config)
        self.min_insync_replicas = config.min_insync_replicas

    def check_leader_epoch(self, leader_epoch: int) -> None:
        """Raise KafkaError if the client's view of who leads is older or newer than ours."""
        check_leader_epoch(leader_epoch, self.leader_epoch, self.partition)

    def produce(
        self,
        records: Buffer,
        *,
        acks: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        guard: Guard | None = UNGUARDED,
        may_take_long: bool = True,
    ) -> Produced:
        """Append a batch. Raise KafkaError, and TakesLong as `prepare` does."""
        self._check_may_append(acks)
        config = self.log.config
        prepared = prepare(records, config, now_ms, origin, may_take_long=may_take_long)
        return self._append(prepared, now_ms, origin, transaction_version, guard)

    def produce_prepared(
        self,
        prepared: Prepared,
        *,
        acks: int,
        now_ms: int,
        transaction_version: int = 0,
        guard: Guard | None = UNGUARDED,
    ) -> Produced:
        """Append a client's batch that was prepared elsewhere. Raise KafkaError."""
        self._check_may_append(acks)
        return self._append(prepared, now_ms, Origin.CLIENT, transaction_version, guard)

    def _check_may_append(self, acks: int) -> None:
        if self._watermark.epoch is None:
            self.check_leads(self.leader_epoch)
        in_sync, needed = len(self._leader.in_sync), self.min_insync_replicas
        if acks == ACKS_ALL and in_sync < needed:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.partition} has {in_sync} replicas in sync of {needed} needed",
            )

    def _append(
        self,
        prepared: Prepared,
        now_ms: int,
        origin: Origin,
        transaction_version: int,
        guard: Guard | None,
    ) -> Produced:
        log = self.log
        try:
            added = log.append(
                prepared.data,
                leader_epoch=self.leader_epoch,
                now_ms=now_ms,
                origin=origin,
                transaction_version=transaction_version,
                guard=guard,
            )
        except KafkaError as refusal:
            self._tell(refusal)
            raise
        self._told = None
        if not added.is_repeated:
            self.bytes_in += prepared.header.size
            self.records_in += prepared.header.records_count
            self._apply(Appended(added.last_offset + 1))
            self._flusher.note_append(log)
        is_flush_due = log.is_flush_due(now_ms)
        return Produced(added, prepared.append_time, is_flush_due, self.leader_epoch)

    def _tell(self, refusal: KafkaError) -> None:
        """Write into the log that the disk fails: once, until something is appended again."""
        if refusal.code is ErrorCode.KAFKA_STORAGE_ERROR and refusal.message != self._told:
            self._told = refusal.message
            logger.error("nothing is appended: %s", refusal.message)

    def end_transaction(self, marker: Marker, now_ms: int) -> Produced:
        """Append a marker. Raise KafkaError."""
        return self.produce(
            _batch_of(marker, now_ms),
            acks=ACKS_ALL,
            now_ms=now_ms,
            origin=Origin.COORDINATOR,
            transaction_version=marker.transaction_version,
        )

    def has_ended(self, marker: Marker) -> bool:
        """Whether the log shows that the marker was written before: its epoch is known, and nothing
        of it is open. A producer that is not known may have written nothing yet."""
        producer = self.log.producers.get(marker.producer_id)
        return (
            producer is not None
            and producer.epoch == marker.producer_epoch
            and producer.current_txn_first_offset is None
        )

    def is_committed(self, end_offset: int, leader_epoch: int) -> bool:
        """Whether all replicas in sync have what was appended before `end_offset` in that epoch, as
        far as this broker knows while it leads."""
        return self._watermark.is_reached(end_offset, leader_epoch)

    async def wait_committed(
        self, end_offset: int, leader_epoch: int, *, is_flush_due: bool
    ) -> None:
        """Return when all replicas in sync have what was appended before `end_offset` in that
        epoch. Raise KafkaError, also if this broker stops leading before."""
        if is_flush_due:
            await self.wait_durable(end_offset)
        await self._watermark.reach(end_offset, leader_epoch)

    async def wait_durable(self, end_offset: int) -> None:
        """Return when this broker's disk has what is before `end_offset`. Raise KafkaError."""
        await self._flusher.wait_durable(self.log, end_offset)

    def fetch(self, offset: int, bytes_max: int, isolation: Isolation) -> Fetched:
        """What there is from an offset on. Raise KafkaError."""
        return Fetched(*self.read(offset, bytes_max, isolation), self.offsets)

    def read(
        self, offset: int, bytes_max: int, isolation: Isolation
    ) -> tuple[Piece | None, list[AbortedTransaction] | None]:
        """The same, without the offsets of the log."""
        log = self.log
        if isolation is Isolation.READ_UNCOMMITTED:
            return log.read(offset, bytes_max, log.high_watermark), None
        piece = log.read(offset, bytes_max, log.last_stable_offset)
        return piece, [] if piece is None else log.aborted(offset, piece.end_offset)

    def visible_end(self, isolation: Isolation) -> int:
        if isolation is Isolation.READ_COMMITTED:
            return self.log.last_stable_offset
        return self.log.high_watermark

    def find_timestamp(self, timestamp: int, isolation: Isolation) -> TimedOffset | None:
        """The first record at or after that time that the reader may see."""
        found = self.log.find_timestamp(timestamp)
        return None if found is None or found.offset >= self.visible_end(isolation) else found

    def find_newest(self, isolation: Isolation) -> TimedOffset | None:
        """The first record of the largest timestamp, if the reader may see it."""
        found = self.log.find_newest()
        return None if found is None or found.offset >= self.visible_end(isolation) else found

    def epoch_for(self, offset: int) -> int:
        """The leader epoch in which the record there was written, or will be if it is the next one
        of a log without any. Otherwise -1."""
        log = self.log
        epoch = log.epochs.epoch_for(offset)
        if epoch is None:
            return self.leader_epoch if offset == log.start_offset == log.end_offset else NO_EPOCH
        return epoch

    def end_of_epoch(self, leader_epoch: int) -> EpochEnd:
        """Where the largest epoch up to the one asked for ends."""
        if leader_epoch == self.leader_epoch:
            return EpochEnd(leader_epoch, self.log.end_offset)
        return self.log.epochs.end_offset_for(leader_epoch, self.log.end_offset)

    def add_waiter(self, waiter: Wakeable) -> None:
        """Have it woken whenever more is committed."""
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: Wakeable) -> None:
        self._waiters.pop(waiter, None)

    def wake_all(self) -> None:
        """Something has changed that those who wait should know, such as that it is gone."""
        for waiter in self._waiters:
            waiter.wake()

    def _apply(self, event: Event) -> None:
        log = self.log
        for effect in self._leader.step(event, log.high_watermark):
            log.advance_high_watermark(effect.offset)
            self._watermark.on_advance()
            if self._waiters:
                self.wake_all()


@lru_cache(maxsize=1)
def _batch_of(marker: Marker, now_ms: int) -> bytes:
    # One end is told to many partitions in a row. And many a broker has none to tell.
    key, value = encode_end_marker(marker.outcome, marker.coordinator_epoch)
    return build_batch(
        [Record(0, now_ms, key, value)],
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_transactional=True,
        is_control=True,
    )
