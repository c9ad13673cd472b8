"""The share partitions of one shard of `__share_group_state` (KIP-932).

    initialise -> snapshot -> update -> update ... -> snapshot -> update ... -> tombstone
                  all of it   what has changed        all of it                 deleted

- A write with a state epoch or a leader epoch below the highest that was seen is fenced. A state
  epoch comes with initialising, a leader epoch with the first read of that leader.
- What is known of an offset only ever goes up, see `batches`, until the partition begins anew.
- Of the log everything is needed that comes after the oldest of all last snapshots. A partition
  that is at rest gets a snapshot now and then, so that it does not hold on to what others wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pyk.coordinator.machine import Decision, Record, Reply, Ticket, TransactionEnd
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.coordinator.share_state.state import (
    NOT_GIVEN,
    UNINITIALISED,
    Progress,
    SharePartition,
    from_snapshot,
    from_update,
    initialised,
)
from pyk.coordinator.timers import Timers
from pyk.coordinator.topic_changes import TopicChanges
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage
from pyk.types import Uuid
from pyk.wire.payloads.share_state_records import ShareSnapshotKey, ShareUpdateKey

if TYPE_CHECKING:
    from pyk.config.broker import BrokerConfig

COLD: Final = "cold"
DELETED: Final = "deleted"
DELETED_AT_ONCE: Final = 1000
"""Tombstones in one batch."""
COPIED_AT_ONCE: Final = 5000
"""State batches in one batch of snapshots, of which each has at least one for this count."""
RETRY_AFTER: Final = 1.0
"""Seconds until what nobody asked for is tried again, if the log has refused it."""


class Surroundings(Struct, frozen=True, kw_only=True):
    config: Callable[[], BrokerConfig]
    now_ms: Callable[[], int]
    image: Callable[[], ClusterImage]


class ShareStates:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._partitions: dict[SharePartitionKey, SharePartition] = {}
        self._by_topic: dict[Uuid, set[SharePartitionKey]] = {}
        self._last_snapshot = 0
        self._timers: Timers[str] = Timers()

    def __iter__(self) -> Iterator[SharePartitionKey]:
        return iter(self._partitions)

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, key: SharePartitionKey) -> SharePartition | None:
        return self._partitions.get(key)

    @property
    def needed_from(self) -> int:
        """The offset of the log before which everything is said again later."""
        needed = (partition.needed_from for partition in self._partitions.values())
        return min(needed, default=self._last_snapshot)

    # The machine

    def apply(self, record: Record) -> None:
        key, value = record.key, record.value
        if isinstance(key, TransactionEnd):
            # WriteTxnMarkers takes any partition. Nothing is written here in a transaction.
            return
        share_key = SharePartitionKey(key.group_id, key.topic_id, key.partition)
        before = self._partitions.get(share_key)
        if isinstance(key, ShareSnapshotKey):
            self._last_snapshot = record.offset
            if value is None:
                self._forget(share_key)
                return
            taken = from_snapshot(value, before, record.offset)
            if taken.updates >= self._updates_per_snapshot:
                taken.updates = 0
            self._keep(share_key, taken)
        elif isinstance(key, ShareUpdateKey) and value is not None:
            if before is None:
                self._keep(share_key, from_update(value, record.offset))
            else:
                before.take_update(value)

    def check_topics(self, image: ClusterImage) -> Iterator[None]:
        """What has no topic is looked for when it is loaded."""
        return iter(())

    def on_loaded(self, now: float) -> None:
        self._look_for_cold_ones_later(now)
        self._timers.set(DELETED, now)

    def on_image(self, image: ClusterImage, changes: TopicChanges, now: float) -> None:
        if not changes.deleted.keys().isdisjoint(self._by_topic.keys()):
            self._timers.set(DELETED, now)

    def deadline(self) -> float | None:
        return self._timers.deadline()

    def expire(self, now: float) -> Decision:
        due = self._timers.take_due(now)
        if due == COLD:
            return self._copy_cold_ones(now)
        if due == DELETED:
            return self._delete_what_has_no_topic(now)
        return Decision()

    # What is asked of one share partition

    def initialize(
        self,
        key: SharePartitionKey,
        state_epoch: int,
        start_offset: int,
        ticket: Ticket,
        now: float,
    ) -> Decision:
        _check_partition(key)
        current = self._partitions.get(key)
        if current is not None:
            _check_state_epoch(current, state_epoch)
        self._check_topic(key)
        epoch = 0 if current is None else current.snapshot_epoch + 1
        record = initialised(key, epoch, state_epoch, start_offset, self._surroundings.now_ms())
        return Decision([record], [Reply(ticket, None)])

    def read(
        self, key: SharePartitionKey, leader_epoch: int, ticket: Ticket, now: float
    ) -> Decision:
        """The answer is a `ShareState`. A leader that is new here fences those before it."""
        _check_partition(key)
        current = self._partitions.get(key)
        if current is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Read operation on uninitialized share partition not allowed.",
            )
        _check_leader_epoch(current, leader_epoch)
        self._check_topic(key)
        replies = [Reply(ticket, current.state)]
        if leader_epoch in (NOT_GIVEN, current.leader_epoch_seen):
            return Decision(replies=replies)
        unchanged = Progress(
            state_epoch=current.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=current.start_offset,
            delivery_complete_count=current.delivery_complete_count,
        )
        return Decision([self._record(key, current, unchanged, leader_epoch)], replies)

    def write(
        self, key: SharePartitionKey, progress: Progress, ticket: Ticket, now: float
    ) -> Decision:
        _check_partition(key)
        current = self._partitions.get(key)
        if current is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                "Write operation on uninitialized share partition not allowed.",
            )
        _check_leader_epoch(current, progress.leader_epoch)
        _check_state_epoch(current, progress.state_epoch)
        self._check_topic(key)
        record = self._record(key, current, progress, current.leader_epoch)
        return Decision([record], [Reply(ticket, None)])

    def summary(self, key: SharePartitionKey, ticket: Ticket, now: float) -> Decision:
        """The answer is a `Summary`, also of what was never initialised."""
        _check_partition(key)
        self._check_topic(key)
        current = self._partitions.get(key)
        found = UNINITIALISED if current is None else current.summary
        return Decision(replies=[Reply(ticket, found)])

    def delete(self, key: SharePartitionKey, ticket: Ticket, now: float) -> Decision:
        _check_partition(key)
        self._check_topic(key)
        records = [Record(key.of_snapshots, None)] if key in self._partitions else []
        return Decision(records, [Reply(ticket, None)])

    def _record(
        self,
        key: SharePartitionKey,
        current: SharePartition,
        progress: Progress,
        leader_epoch: int,
    ) -> Record:
        if current.updates < self._updates_per_snapshot:
            return current.updated(key, progress, leader_epoch)
        return current.advanced(key, progress, leader_epoch, self._surroundings.now_ms())

    @property
    def _updates_per_snapshot(self) -> int:
        return self._surroundings.config().share_coordinator_snapshot_update_records_per_snapshot

    def _check_topic(self, key: SharePartitionKey) -> None:
        """Raise KafkaError."""
        topic = self._surroundings.image().topic_by_id(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _keep(self, key: SharePartitionKey, partition: SharePartition) -> None:
        self._partitions[key] = partition
        self._by_topic.setdefault(key.topic_id, set()).add(key)

    def _forget(self, key: SharePartitionKey) -> None:
        if self._partitions.pop(key, None) is None:
            return
        of_topic = self._by_topic[key.topic_id]
        of_topic.discard(key)
        if not of_topic:
            del self._by_topic[key.topic_id]

    # What follows from elsewhere, and from time

    def _delete_what_has_no_topic(self, now: float) -> Decision:
        """The image that is newest counts: a partition may be of a topic that has just come."""
        names = self._surroundings.image().names
        gone = (key for topic in self._by_topic if topic not in names for key in self._of(topic))
        records = [Record(key.of_snapshots, None) for key in islice(gone, DELETED_AT_ONCE)]
        if len(records) == DELETED_AT_ONCE:
            self._timers.set(DELETED, now)

        def try_later(_: KafkaError) -> Decision:
            self._timers.set(DELETED, now + RETRY_AFTER)
            return Decision()

        return Decision(records, otherwise=try_later)

    def _of(self, topic: Uuid) -> list[SharePartitionKey]:
        return sorted(self._by_topic[topic])

    def _copied(self, keys: Iterable[SharePartitionKey]) -> list[Record]:
        """Snapshots of as many of them as fit a batch."""
        records, copied, now_ms = list[Record](), 0, self._surroundings.now_ms()
        for key in keys:
            partition = self._partitions[key]
            copied += len(partition.batches) + 1
            if records and copied > COPIED_AT_ONCE:
                break
            records.append(partition.repeated(key, now_ms))
        return records

    @property
    def _cold_interval_ms(self) -> int:
        return self._surroundings.config().share_coordinator_cold_partition_snapshot_interval_ms

    def _look_for_cold_ones_later(self, now: float) -> None:
        self._timers.set(COLD, now + self._cold_interval_ms / 1000)

    def _copy_cold_ones(self, now: float) -> Decision:
        """Snapshots of some that nobody has written to, and others at once after them. If all are
        at rest there is nobody whose records are held back."""
        self._look_for_cold_ones_later(now)
        if all(partition.is_cold for partition in self._partitions.values()):
            return Decision()
        latest = self._surroundings.now_ms() - self._cold_interval_ms
        cold = [key for key, each in self._partitions.items() if each.written_ms <= latest]
        records = self._copied(cold)
        if len(records) < len(cold):
            self._timers.set(COLD, now)

        def try_later(_: KafkaError) -> Decision:
            self._look_for_cold_ones_later(now)
            return Decision()

        return Decision(records, otherwise=try_later)


def _check_partition(key: SharePartitionKey) -> None:
    """Raise KafkaError."""
    if key.partition < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number.")


def _check_leader_epoch(current: SharePartition, leader_epoch: int) -> None:
    """Raise KafkaError."""
    if leader_epoch != NOT_GIVEN and leader_epoch < current.leader_epoch_seen:
        raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)


def _check_state_epoch(current: SharePartition, state_epoch: int) -> None:
    """Raise KafkaError."""
    if state_epoch != NOT_GIVEN and state_epoch < current.state_epoch_seen:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
