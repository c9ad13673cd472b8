"""What a log knows of its producers: enough to tell what repeats, skips, or is from the fenced.

    data:    check         -> appended to the log -> update
    markers: check_marker  -> appended to the log -> end_transaction

- The checks change nothing, the updates refuse nothing. So the state is what the batches of the log
  make it, the same on every replica, and truncation is `reset` or `load`, then replaying the rest.
- A producer that nobody knows may start at any sequence: its records may have been deleted.
- What an ended transaction wrote stays unstable until its marker is below the high watermark.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple

from msgspec import Struct

from pyk.errors import ErrorCode, KafkaError
from pyk.log.guards import NO_EPOCH, NO_SEQUENCE, UNGUARDED, Guard
from pyk.log.transactions import AbortedTransaction
from pyk.wire.batch import BatchHeader, ControlType

BATCHES_KEPT: Final = 5
"""As many as an idempotent producer may have in flight: any of them may come again."""

EXPIRATION_MS: Final = 24 * 60 * 60 * 1000

NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1

_INT16_MAX: Final = 2**15 - 1
_INT32_MAX: Final = 2**31 - 1


class DamagedSnapshot(Exception):
    """The bytes are not a producer snapshot, or not all of one."""


class Origin(Enum):
    """Who appends, which says how much there is to check."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    """Offsets and markers: they have no sequences."""
    REPLICATION = "replication"
    """The leader has checked it. What is in its log is not for a follower to refuse."""


class AppendedBatch(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & _INT32_MAX

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class Producer(Struct, frozen=True):
    """It does not change, so that a snapshot of many is a list of them, for any thread to write."""

    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    """Of the coordinator that wrote the last marker."""
    last_timestamp: int = NO_TIMESTAMP
    current_txn_first_offset: int | None = None
    batches: tuple[AppendedBatch, ...] = ()
    """The latest of the epoch, oldest first."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def batches_of(self, epoch: int) -> tuple[AppendedBatch, ...]:
        return self.batches if epoch == self.epoch else ()


class Producers:
    """The state of one log. Two are equal if they know the same."""

    def __init__(self, expiration_ms: int = EXPIRATION_MS) -> None:
        self.expiration_ms = expiration_ms
        self._producers: dict[int, Producer] = {}
        self._open: dict[int, int] = {}
        """First offsets of open transactions, in order, and whose they are."""
        self._unreplicated: list[tuple[int, int]] = []
        """First offsets, in order, and markers of transactions that ended above the high
        watermark."""
        self._guards: dict[int, Guard] = {}
        """Of producers whose transactions are being verified."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Producers):
            return NotImplemented
        return (
            self._producers == other._producers
            and self._open == other._open
            and self._unreplicated == other._unreplicated
        )

    def __len__(self) -> int:
        return len(self._producers)

    def __iter__(self) -> Iterator[Producer]:
        """The producers, to be read only."""
        return iter(self._producers.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._producers.get(producer_id)

    def guard_for(self, producer_id: int, epoch: int, sequence: int = NO_SEQUENCE) -> Guard | None:
        """What the first batch of a transaction has to show, or None if there was one."""
        if self._has_open(producer_id, epoch):
            return None
        guard = self._guards.setdefault(producer_id, Guard())
        guard.note(epoch, sequence)
        return guard

    def drop_guard(self, producer_id: int) -> None:
        """The coordinator knows of no transaction, and what asked for it does not come again."""
        self._guards.pop(producer_id, None)

    def check(
        self,
        header: BatchHeader,
        origin: Origin,
        transaction_version: int = 0,
        guard: Guard | None = UNGUARDED,
    ) -> AppendedBatch | None:
        """The batch that this one repeats, or None if it is to be appended. Raise KafkaError."""
        if header.producer_id < 0 or origin is Origin.REPLICATION:
            return None
        producer = self._producers.get(header.producer_id)
        if producer is None:
            producer = Producer(header.producer_id)
        if origin is Origin.CLIENT and (repeated := _repeated(producer, header)) is not None:
            return repeated
        _check_epoch(producer, header)
        if origin is Origin.CLIENT:
            _check_sequence(producer, header, transaction_version)
        if producer.current_txn_first_offset is not None and not header.is_transactional:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction and wrote outside of it",
            )
        if header.is_transactional and guard is not UNGUARDED:
            self._check_guard(header, origin, guard)
        return None

    def _check_guard(self, header: BatchHeader, origin: Origin, guard: Guard | None) -> None:
        if self._has_open(header.producer_id, header.producer_epoch):
            return
        if guard is None or self._guards.get(header.producer_id) is not guard:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of producer {header.producer_id} has ended meanwhile",
            )
        if origin is Origin.CLIENT and guard.is_passed_over_by(header):
            raise _out_of_order(header, guard.lowest_sequence)

    def _has_open(self, producer_id: int, epoch: int) -> bool:
        producer = self._producers.get(producer_id)
        return (
            producer is not None
            and producer.current_txn_first_offset is not None
            and producer.epoch == epoch
        )

    def check_marker(
        self,
        header: BatchHeader,
        coordinator_epoch: int,
        origin: Origin,
        transaction_version: int,
    ) -> None:
        """Raise KafkaError if the marker is from a coordinator or for an epoch of the past."""
        producer = self._producers.get(header.producer_id)
        if producer is None or origin is Origin.REPLICATION:
            return
        _check_marker_epoch(producer, header, transaction_version)
        if coordinator_epoch < producer.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} for producer {header.producer_id} is "
                f"older than {producer.coordinator_epoch}",
            )

    def update(self, header: BatchHeader) -> None:
        """A batch of data is in the log. A control batch that was emptied by compaction, too."""
        if header.producer_id < 0:
            return
        if header.is_control:
            assert header.records_count == 0, "markers are for end_transaction"
            return
        producer_id, epoch = header.producer_id, header.producer_epoch
        known = self._producers.get(producer_id) or Producer(producer_id)
        first_offset = known.current_txn_first_offset
        if first_offset is None and header.is_transactional:
            self._guards.pop(producer_id, None)
            first_offset = header.base_offset
            self._open[first_offset] = producer_id
        timestamp, delta = header.max_timestamp, header.last_offset_delta
        batch = AppendedBatch(header.last_sequence, header.last_offset, delta, timestamp)
        batches = (*known.batches_of(epoch)[1 - BATCHES_KEPT :], batch)
        self._producers[producer_id] = Producer(
            producer_id, epoch, known.coordinator_epoch, timestamp, first_offset, batches
        )

    def end_transaction(
        self, header: BatchHeader, outcome: ControlType, coordinator_epoch: int
    ) -> AbortedTransaction | None:
        """A marker is in the log. What it aborted, if it did, is for the transaction index."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        known = self._producers.get(producer_id) or Producer(producer_id)
        self._producers[producer_id] = Producer(
            producer_id,
            epoch,
            coordinator_epoch,
            header.max_timestamp,
            batches=known.batches_of(epoch),
        )
        self._guards.pop(producer_id, None)
        first_offset = known.current_txn_first_offset
        if first_offset is None:
            return None
        del self._open[first_offset]
        marker_offset = header.base_offset
        insort(self._unreplicated, (first_offset, marker_offset))
        if outcome is not ControlType.ABORT:
            return None
        stable = next(iter(self._open), marker_offset + 1)
        return AbortedTransaction(header.producer_id, first_offset, marker_offset, stable)

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the earliest open transaction begins."""
        return next(iter(self._open), None)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest transaction begins that is open, or whose marker may yet be lost."""
        undecided = self.first_undecided_offset
        if not self._unreplicated:
            return undecided
        unreplicated = self._unreplicated[0][0]
        return unreplicated if undecided is None else min(unreplicated, undecided)

    def on_high_watermark(self, offset: int) -> None:
        """Everything before `offset` is committed, ends of transactions included."""
        if self._unreplicated:
            self._unreplicated = [ended for ended in self._unreplicated if ended[1] >= offset]

    def expire(self, now_ms: int) -> list[int]:
        """Forget, and return, the producers that wrote nothing for long and have nothing open."""
        expired = [
            producer.producer_id
            for producer in self
            if producer.current_txn_first_offset is None
            and now_ms - producer.last_timestamp >= self.expiration_ms
        ]
        for producer_id in expired:
            del self._producers[producer_id]
        self._expire_guards()
        return expired

    def _expire_guards(self) -> None:
        """Forget those that were there the last time: nobody came again for them."""
        self._guards = {whose: guard for whose, guard in self._guards.items() if not guard.is_old}
        for guard in self._guards.values():
            guard.is_old = True

    def reset(self) -> None:
        """Forget everything."""
        self._producers = {}
        self._open = {}
        self._unreplicated = []
        self._guards = {}

    def restore(self, known: Iterable[Producer]) -> None:
        """Know these and nothing else, nothing of ended transactions either. Raise DamagedSnapshot,
        changing nothing."""
        producers: dict[int, Producer] = {}
        transactions: dict[int, int] = {}
        for producer in known:
            first_offset = producer.current_txn_first_offset
            if producer.producer_id in producers or first_offset in transactions:
                raise DamagedSnapshot(f"{producer} contradicts another entry")
            producers[producer.producer_id] = producer
            if first_offset is not None:
                transactions[first_offset] = producer.producer_id
        self._producers = producers
        self._open = dict(sorted(transactions.items()))
        self._unreplicated = []
        self._guards = {}


def _repeated(producer: Producer, header: BatchHeader) -> AppendedBatch | None:
    if header.producer_epoch != producer.epoch:
        return None
    sequences = (header.base_sequence, header.last_sequence)
    for batch in producer.batches:
        if (batch.base_sequence, batch.last_sequence) == sequences:
            return batch
    return None


def _check_epoch(producer: Producer, header: BatchHeader) -> None:
    # Not PRODUCER_FENCED: since Kafka 2.7 a producer may abort and go on (KIP-588).
    if header.producer_epoch < producer.epoch:
        raise _stale_epoch(producer, header)


def _check_sequence(producer: Producer, header: BatchHeader, transaction_version: int) -> None:
    if producer.epoch == NO_EPOCH:
        if header.base_sequence != 0 and must_start_at_zero(header, transaction_version):
            raise _out_of_order(header, 0)
        return
    expected = 0
    if header.producer_epoch == producer.epoch:
        expected = (producer.last_sequence + 1) & _INT32_MAX
    if header.base_sequence != expected:
        raise _out_of_order(header, expected)


def _check_marker_epoch(producer: Producer, header: BatchHeader, transaction_version: int) -> None:
    _check_epoch(producer, header)
    if header.producer_epoch == producer.epoch and ends_with_a_new_epoch(transaction_version):
        # With nothing left to end it is the same marker again, which does no harm (KAFKA-19999).
        # And the last epoch has no greater one.
        ends_something = producer.current_txn_first_offset is not None
        if ends_something and header.producer_epoch != _INT16_MAX:
            raise _stale_epoch(producer, header)


def must_start_at_zero(header: BatchHeader, transaction_version: int) -> bool:
    """KIP-890: since transactions v2 a producer whose state was lost begins a new epoch, so that
    any other sequence of an unknown producer shows that records before it are missing."""
    return transaction_version >= 2 and header.is_transactional


def ends_with_a_new_epoch(transaction_version: int) -> bool:
    """KIP-890: since transactions v2 a marker has a greater epoch than what it ends, so that one
    that comes late cannot end the next transaction."""
    return transaction_version >= 2


def _stale_epoch(producer: Producer, header: BatchHeader) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {header.producer_id} came with epoch {header.producer_epoch} after "
        f"{producer.epoch}",
    )


def _out_of_order(header: BatchHeader, expected: int) -> KafkaError:
    return KafkaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        f"producer {header.producer_id} of epoch {header.producer_epoch} came with sequence "
        f"{header.base_sequence} instead of {expected}",
    )
