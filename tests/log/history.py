"""What a log says of its producers, transactions and epochs, replayed plainly from its batches.

A judge for `pyk.log` that shares none of its code. A log whose first segments are gone may know
what only these said, or not: it is held between all of the history and the part from its start on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from pyk.log.epochs import EpochStart
from pyk.log.log import Log
from pyk.log.producers import Producer
from pyk.log.transactions import AbortedTransaction
from pyk.wire.batch import BatchHeader, iterate_batches
from pyk.wire.prefixed import ControlType


class Batch(NamedTuple):
    header: BatchHeader
    outcome: ControlType | None = None
    """What a marker decided."""
    coordinator_epoch: int = -1


@dataclass
class Known:
    """What is known of a producer."""

    epoch: int = -1
    coordinator_epoch: int = -1
    last_timestamp: int = -1
    first_offset: int | None = None
    """Of its open transaction."""
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)
    """Last sequence, last offset, offset delta and timestamp of the latest five."""

    @classmethod
    def of(cls, producer: Producer) -> Known:
        return cls(
            producer.epoch,
            producer.coordinator_epoch,
            producer.last_timestamp,
            producer.current_txn_first_offset,
            [tuple(batch) for batch in producer.batches],  # type: ignore[misc]
        )

    def lies_between(self, less: Known | None, more: Known) -> bool:
        """Whether it has nothing that `more` has not, and lacks nothing that `less` has."""
        seen = less.batches if less else []
        first_offset = less.first_offset if less else None
        return (
            (self.epoch, self.last_timestamp) == (more.epoch, more.last_timestamp)
            and more.batches[len(more.batches) - len(self.batches) :] == self.batches
            and self.batches[len(self.batches) - len(seen) :] == seen
            and (self.first_offset is not None or first_offset is None)
            and (self.first_offset or 0) >= (more.first_offset or 0)
        )


class Replayed:
    """What batches say, one after the other."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self.producers: dict[int, Known] = {}
        self.aborted: list[AbortedTransaction] = []
        self._ended: list[tuple[int, int]] = []
        for batch in batches:
            if batch.header.producer_id >= 0:
                self._note(batch)

    def _note(self, batch: Batch) -> None:
        header = batch.header
        known = self.producers.setdefault(header.producer_id, Known())
        if known.epoch != header.producer_epoch:
            known.epoch, known.batches = header.producer_epoch, []
        known.last_timestamp = header.max_timestamp
        if batch.outcome is not None:
            known.coordinator_epoch = batch.coordinator_epoch
            self._end(known, batch)
            return
        last = (header.last_sequence, header.last_offset, header.last_offset_delta)
        known.batches = [*known.batches, (*last, header.max_timestamp)][-5:]
        if header.is_transactional and known.first_offset is None:
            known.first_offset = header.base_offset

    def _end(self, known: Known, batch: Batch) -> None:
        first, known.first_offset = known.first_offset, None
        if first is None:
            return
        marker = batch.header.base_offset
        self._ended.append((first, marker))
        if batch.outcome is ControlType.ABORT:
            stable = min(self._open(), default=marker + 1)
            aborted = AbortedTransaction(batch.header.producer_id, first, marker, stable)
            self.aborted.append(aborted)

    def _open(self) -> list[int]:
        return [k.first_offset for k in self.producers.values() if k.first_offset is not None]

    def last_stable_offset(self, high_watermark: int) -> int:
        """Before it everything is decided, by markers that are committed."""
        undecided = [first for first, marker in self._ended if marker >= high_watermark]
        return min([high_watermark, *undecided, *self._open()])


def epochs_of(batches: Iterable[Batch]) -> list[EpochStart]:
    """Where each epoch begins."""
    starts: list[EpochStart] = []
    for batch in batches:
        epoch = batch.header.partition_leader_epoch
        if not starts or epoch > starts[-1].epoch:
            starts.append(EpochStart(epoch, batch.header.base_offset))
    return starts


def seen_from(offset: int, starts: list[EpochStart]) -> list[EpochStart]:
    """The epoch that is there begins there, and none is before."""
    past = [entry for entry in starts if entry.start_offset <= offset]
    return [EpochStart(entry.epoch, offset) for entry in past[-1:]] + starts[len(past) :]


def headers_of(log: Log) -> list[BatchHeader]:
    """Every batch from the start on, as a reader finds them: whole, and in a row."""
    found: list[BatchHeader] = []
    offset = log.start_offset
    while (piece := log.read(offset, 10**6, log.end_offset)) is not None:
        records = piece.records
        data = records.file.read(records.position, records.size)  # type: ignore[attr-defined]
        found += [header for _, header in iterate_batches(data, torn_tail_allowed=False)]
        offset = piece.end_offset
    assert all(a.next_offset <= b.base_offset for a, b in pairwise(found)), "there is disorder"
    assert log.end_offset == (found[-1].next_offset if found else log.start_offset)
    return found


def check_derived(log: Log, history: Sequence[Batch]) -> None:
    """Hold what a log knows against its batches, those before its start included. Raise
    AssertionError."""
    start = log.start_offset
    whole = seen = Replayed(history)
    if history and history[0].header.base_offset < start:
        seen = Replayed(batch for batch in history if batch.header.last_offset >= start)
    _check_producers(log, seen, whole)
    _check_aborted(log, seen, whole)
    lowest = max(whole.last_stable_offset(log.high_watermark), start)
    highest = max(seen.last_stable_offset(log.high_watermark), start)
    assert lowest <= log.last_stable_offset <= highest, "the last stable offset is wrong"
    _check_epochs(log, history)


def _check_epochs(log: Log, history: Sequence[Batch]) -> None:
    found, start = log.epochs.entries, log.start_offset
    assert all(entry.start_offset >= start for entry in found), "an epoch is before the start"
    if start == log.end_offset:
        assert len(found) <= 1, "an empty log has epochs"
        return
    # An epoch may be known of which no batch is left. Before a gap that is where the log starts.
    bases = [b.header.base_offset for b in history if b.header.last_offset >= start]
    first = max(start, bases[0])
    assert seen_from(first, found) == seen_from(first, epochs_of(history)), "the epochs are wrong"


def _check_producers(log: Log, seen: Replayed, whole: Replayed) -> None:
    found = {producer.producer_id: Known.of(producer) for producer in log.producers}
    assert seen.producers.keys() <= found.keys() <= whole.producers.keys(), "producers are wrong"
    for producer_id, known in found.items():
        less, more = seen.producers.get(producer_id), whole.producers[producer_id]
        assert known == more or known.lies_between(less, more), f"producer {producer_id} is wrong"


def _check_aborted(log: Log, seen: Replayed, whole: Replayed) -> None:
    start, end = log.start_offset, log.end_offset
    third = (end - start) // 3
    for first, last in ((start, end), (start + third, end - third)):
        found = log.aborted(first, last)
        certain = [entry for entry in seen.aborted if entry in whole.aborted]
        ends = [(entry.producer_id, entry.last_offset) for entry in whole.aborted]
        missing = set(_within(certain, first, last)) - set(found)
        assert not missing, f"{missing} are not known to be aborted"
        for entry in found:
            assert (entry.producer_id, entry.last_offset) in ends, f"{entry} was not aborted"
            assert entry.last_offset >= first, f"{entry} was not asked for"
        if seen is whole:
            assert found == _within(certain, first, last), "more was aborted than is so"


def _within(entries: list[AbortedTransaction], start: int, end: int) -> list[AbortedTransaction]:
    return [entry for entry in entries if entry.last_offset >= start and entry.first_offset < end]
