"""What of each batch of a log survives its compaction.

    survey: all batches, in order -> which keys are latest, which batches have tombstones
    Survival.kept: all batches, in order again -> each as it was, shrunken, emptied, or gone

Transactions have to be followed both times, and from the first batch on: what was aborted does not
count, and a marker stays as long as a batch of its transaction does.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import NamedTuple, TypeAlias

from pyk.log.key_survival import Bits, KeySurvival
from pyk.log.markers import read_marker
from pyk.log.transactions import AbortedTransaction
from pyk.wire.batch import BatchHeader, check_crc
from pyk.wire.compression import CorruptBatch
from pyk.wire.outline import outline_records
from pyk.wire.prefixed import ControlType
from pyk.wire.records import Record, build_batch, read_records

Batch: TypeAlias = tuple[BatchHeader, bytes]


class LastOfProducer(NamedTuple):
    """What a log knows of an active producer. The batch that says so stays."""

    data_offset: int | None
    """The last offset of its last batch of the epoch, or None if that began with a marker."""
    epoch: int


class Transactions:
    """What becomes of each producer's transaction while the batches of a log go by."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self.retained: list[AbortedTransaction] = []
        """Those that were aborted, and whose markers have to stay for now."""
        self._coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._seen: set[int] = set()
        """Producers whose transaction, aborted or not, still has a batch."""

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether the records of the next batch count for nothing."""
        self._advance(header)
        if not header.is_transactional:
            return False
        self._seen.add(header.producer_id)
        return header.producer_id in self._aborted

    def end(self, header: BatchHeader, data: bytes) -> bool:
        """Whether the control batch that comes next ends nothing of which there is a batch."""
        self._advance(header)
        if not header.records_count:
            return True
        marker = read_marker(data, header)
        if marker is None:
            return False
        producer_id = header.producer_id
        is_over = producer_id not in self._seen
        self._seen.discard(producer_id)
        if marker.outcome is ControlType.ABORT:
            aborted = self._aborted.pop(producer_id, None)
            if aborted is not None and not is_over:
                self.retained.append(aborted)
        return is_over

    def _advance(self, header: BatchHeader) -> None:
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            begun = self._coming.pop()
            self._aborted.setdefault(begun.producer_id, begun)


class Surveyed(NamedTuple):
    tombstoned: Bits
    """Which of the batches of data have tombstones."""
    unreadable: Bits
    """Which of them nobody can make out the keys of, though their CRC is right: they were accepted
    unread, and are kept as they are. Their records have no numbers."""
    producers: dict[int, LastOfProducer]
    """What the log would know of active producers if it ended where the surveyed batches do."""

    def note(self, header: BatchHeader) -> None:
        """A batch of an active producer."""
        producer_id, epoch = header.producer_id, header.producer_epoch
        if not header.is_control:
            self.producers[producer_id] = LastOfProducer(header.last_offset, epoch)
        elif (known := self.producers.get(producer_id)) is None or known.epoch != epoch:
            self.producers[producer_id] = LastOfProducer(None, epoch)


def survey(
    batches: Iterator[Batch],
    aborted: Iterable[AbortedTransaction],
    keys: KeySurvival,
    active: Container[int],
    inflated_bytes_max: int,
) -> Surveyed:
    """Tell `keys` of all records. `active` are the producers that the log knows. Raise CorruptBatch
    for a wrong CRC."""
    transactions, surveyed = Transactions(aborted), Surveyed(Bits(), Bits(), {})
    number, next_offset = 0, 0
    for header, data in batches:
        check_crc(data, 0, header)
        if header.base_offset < next_offset:
            raise CorruptBatch(f"after {next_offset} comes a batch at {header.base_offset}")
        next_offset = header.next_offset
        if header.producer_id in active:
            surveyed.note(header)
        if header.is_control:
            transactions.end(header, data)
            continue
        if transactions.is_aborted(header):
            keys.skip(header.records_count)
        else:
            try:
                outline = outline_records(data, 0, header, bytes_max=inflated_bytes_max)
            except CorruptBatch:
                surveyed.unreadable.add(number)
            else:
                keys.add(outline.keys)
                if outline.tombstones:
                    surveyed.tombstoned.add(number)
        number += 1
    return surveyed


class Survival:
    """What stays of each batch. They are asked in order, from the first of the log on."""

    def __init__(
        self,
        keys: KeySurvival,
        surveyed: Surveyed,
        aborted: Iterable[AbortedTransaction],
        producers: Mapping[int, LastOfProducer],
        now_ms: int,
        horizon_ms: int,
        inflated_bytes_max: int,
    ) -> None:
        self._inflated_bytes_max = inflated_bytes_max
        self.transactions = Transactions(aborted)
        self._now_ms = now_ms
        self._horizon_ms = horizon_ms
        self._producers = producers
        self._keys = keys
        self._tombstoned = surveyed.tombstoned
        self._unreadable = surveyed.unreadable
        self._surveyed_producers = surveyed.producers
        self._batches = 0
        self._records = 0

    def kept(self, header: BatchHeader, data: bytes, is_last: bool) -> bytes | None:
        """The batch as it will be: the same object if it does not change, None if it goes.
        The last one of a segment never goes."""
        if header.is_control:
            kept = self._kept_marker(header, data)
        else:
            kept = self._kept_data(header, data)
        if kept is not None or not (is_last or self._is_last_of_producer(header)):
            return kept
        return _emptied(header) if header.records_count else data

    def _kept_marker(self, header: BatchHeader, data: bytes) -> bytes | None:
        is_over = self.transactions.end(header, data)
        if not header.records_count or (is_over and self._has_passed(header)):
            return None
        if is_over and not header.has_delete_horizon:
            return self._with_horizon(header, list(read_records(data, 0, header)))
        return data

    def _kept_data(self, header: BatchHeader, data: bytes) -> bytes | None:
        number, first, count = self._batches, self._records, header.records_count
        self._batches += 1
        self.transactions.is_aborted(header)
        if number in self._unreadable:
            return data
        self._records += count
        survivors = self._keys.survivors(first, count)
        if not survivors:
            return None
        if survivors == (1 << count) - 1 and number not in self._tombstoned:
            return data
        try:
            return self._shrunk(header, data, survivors)
        except CorruptBatch:
            # What is wrong is behind the keys. With what should go it can be kept as it is.
            return data

    def _shrunk(self, header: BatchHeader, data: bytes, survivors: int) -> bytes | None:
        bytes_max = self._inflated_bytes_max
        outline = outline_records(data, 0, header, bytes_max=bytes_max)
        count, tombstones = header.records_count, set(outline.tombstones)
        kept = list(compress(range(count), map("1".__eq__, reversed(f"{survivors:0{count}b}"))))
        if self._has_passed(header):
            kept = [number for number in kept if number not in tombstones]
        elif not header.has_delete_horizon and not tombstones.isdisjoint(kept):
            records = list(read_records(data, 0, header, bytes_max=bytes_max))
            return self._with_horizon(header, [records[number] for number in kept])
        if not kept:
            return None
        return outline.shrunk(kept) if len(kept) < count else data

    def _has_passed(self, header: BatchHeader) -> bool:
        """Whether the batch has a delete horizon, and it is here."""
        return header.has_delete_horizon and header.base_timestamp <= self._now_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        # Of the log, and of what is compacted: what comes after that may yet be truncated, or lost
        # with the power. Kafka looks at the former only, and trusts its snapshots with the rest.
        return any(
            _is_last(header, producers.get(header.producer_id))
            for producers in (self._producers, self._surveyed_producers)
        )

    def _with_horizon(self, header: BatchHeader, records: Sequence[Record]) -> bytes:
        return _rebuilt(header, records, self._horizon_ms)


def _is_last(header: BatchHeader, last: LastOfProducer | None) -> bool:
    if last is None:
        return False
    if last.data_offset is not None:
        return header.last_offset == last.data_offset
    # Only its marker tells the epoch, which fences older ones.
    return header.is_control and header.producer_epoch == last.epoch


def _emptied(header: BatchHeader) -> bytes:
    return _rebuilt(header, [], None)


def _rebuilt(header: BatchHeader, records: Sequence[Record], horizon: int | None) -> bytes:
    return build_batch(
        records,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        compression=header.compression,
        timestamp_type=header.timestamp_type,
        max_timestamp=None if records else header.max_timestamp,
        delete_horizon=horizon,
        partition_leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
    )
