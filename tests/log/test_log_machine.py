"""A log through everything that can happen to it, against a plain list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.index import TimedOffset
from pyk.log.log import Appended, Log
from pyk.log.markers import read_marker
from pyk.log.producers import Origin
from pyk.wire.batch import BatchHeader, iterate_batches, read_header
from pyk.wire.compression import Compression
from pyk.wire.prefixed import ControlType
from pyk.wire.records import Record, read_records
from tests.log.readers import is_aborted
from tests.log.test_log import ANN, BOB, HOME, batch, marker, names, records_of
from tests.log.test_segment import taken
from tests.simulated_disk import SimulatedDisk

NEVER = LogConfig().retention_ms
Drawn = TypeVar("Drawn")


@dataclass
class Stored:
    """A batch that is in the log."""

    header: BatchHeader
    records: list[Record]
    outcome: ControlType | None = None
    """For a marker."""


@dataclass
class Model:
    """What a log should be: a list."""

    batches: list[Stored] = field(default_factory=list)
    """Those before the start included, as long as their segment is there."""
    retired: list[Stored] = field(default_factory=list)
    """Those that were there before them, and markers that compaction has removed."""
    compacted: list[Stored] = field(default_factory=list)
    """Data that was there before compactions, as far as it is not truncated."""
    end: int = 0
    start: int = 0
    high_watermark: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    aborted_by: dict[int, set[int]] = field(default_factory=dict)
    """The offsets that each marker has aborted."""
    cleaned_until: int = 0

    def put(self, stored: Stored) -> None:
        header = stored.header
        if stored.outcome is ControlType.ABORT:
            first = self.undecided(self.end).get(header.producer_id, self.end)
            self.aborted_by[header.base_offset] = {
                record.offset
                for other in self.ever()
                if other.header.producer_id == header.producer_id
                for record in other.records
                if record.offset >= first
            }
        self.batches.append(stored)
        self.end = header.next_offset

    def ever(self) -> list[Stored]:
        """What is there, and what was there before."""
        return sorted([*self.retired, *self.batches], key=lambda stored: stored.header.base_offset)

    def advance_start(self, offset: int) -> None:
        self.start = offset
        before = [epoch for epoch, start in self.epochs if start <= offset]
        after = [entry for entry in self.epochs if entry[1] > offset]
        self.epochs = [(before[-1], offset), *after] if before else after

    def truncate(self, offset: int, base: int) -> list[Stored]:
        """What goes. With nothing left the log ends at its first base."""
        kept = [s for s in self.batches if s.header.last_offset < offset]
        gone = self.batches[len(kept) :]
        self.batches = kept
        self.compacted = [s for s in self.compacted if s.header.last_offset < offset]
        self.end = kept[-1].header.next_offset if kept else base
        self.start = min(self.start, self.end)
        self.high_watermark = min(self.high_watermark, self.end)
        self.epochs = [entry for entry in self.epochs if entry[1] < self.end]
        self.aborted_by = {at: what for at, what in self.aborted_by.items() if at < self.end}
        self.cleaned_until = min(self.cleaned_until, self.end)
        return gone

    def is_aborted(self, offset: int) -> bool:
        return any(offset in aborted for aborted in self.aborted_by.values())

    def undecided(self, before: int, also: Iterable[Stored] = ()) -> dict[int, int]:
        """Where transactions begin that have no marker before an offset."""
        open_at: dict[int, int] = {}
        for stored in sorted([*self.ever(), *also], key=lambda each: each.header.base_offset):
            header = stored.header
            if header.base_offset >= before:
                break
            if stored.outcome is not None:
                open_at.pop(header.producer_id, None)
            elif header.is_transactional and not header.is_control:
                open_at.setdefault(header.producer_id, header.base_offset)
        return open_at

    def last_stable_offsets(self) -> range:
        """What it may be. If a marker is truncated after compaction has removed what it decided,
        the transaction may still be known to begin where it did."""
        known = self._last_stable_offset(self.compacted)
        return range(known, self._last_stable_offset() + 1)

    def _last_stable_offset(self, also: Iterable[Stored] = ()) -> int:
        first = min(self.undecided(self.high_watermark, also).values(), default=self.high_watermark)
        return max(first, self.start) if first < self.high_watermark else self.high_watermark

    def aborted(self) -> Iterator[tuple[int, int, int]]:
        """Producer, first offset and marker, of those that are there."""
        open_at: dict[int, int] = {}
        for stored in self.ever():
            header = stored.header
            if stored.outcome is not None:
                first = open_at.pop(header.producer_id, None)
                is_aborted = stored.outcome is ControlType.ABORT
                if is_aborted and first is not None and stored not in self.retired:
                    yield header.producer_id, first, header.base_offset
            elif header.is_transactional and not header.is_control:
                open_at.setdefault(header.producer_id, header.base_offset)

    def records(self) -> list[Record]:
        return [r for stored in self.batches for r in stored.records]


class LogMachine(RuleBasedStateMachine):
    """One partition through everything that can happen to it."""

    @initialize(
        segment_bytes=st.sampled_from((300, 600, 2000)), interval=st.sampled_from((1, 150, 4096))
    )
    def open(self, segment_bytes: int, interval: int) -> None:
        self.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval)
        self.disk = SimulatedDisk()
        self.log = Log.open(self.disk, HOME, self.config)
        self.model = Model()
        self.sequences: dict[int, int] = {}
        self.epoch = 0
        self.now = 0

    def put(self, data: bytearray, outcome: ControlType | None = None) -> None:
        origin = Origin.CLIENT if outcome is None else Origin.COORDINATOR
        appended = self.log.append(data, leader_epoch=self.epoch, now_ms=self.now, origin=origin)
        header = read_header(data)
        assert appended == Appended(self.model.end, header.last_offset, header.max_timestamp)
        records = list(read_records(data, 0, header))
        self.model.put(Stored(header, records, outcome))
        if self.epoch not in dict(self.model.epochs):
            before = [entry for entry in self.model.epochs if entry[1] < header.base_offset]
            self.model.epochs = [*before, (self.epoch, header.base_offset)]

    @rule(
        timestamps=st.lists(st.integers(0, 500), min_size=1, max_size=4),
        codec=st.sampled_from(list(Compression)),
    )
    def append(self, timestamps: list[int], codec: Compression) -> None:
        self.put(batch(*timestamps, compression=codec))

    @rule(
        producer_id=st.sampled_from((ANN, BOB)),
        count=st.integers(1, 3),
        timestamp=st.integers(0, 500),
        is_transactional=st.booleans(),
    )
    def append_idempotent(
        self, producer_id: int, count: int, timestamp: int, is_transactional: bool
    ) -> None:
        sequence = self.sequences.get(producer_id, 0)
        is_open = producer_id in self.model.undecided(self.model.end)
        timestamps = [timestamp + i for i in range(count)]
        self.put(
            batch(
                *timestamps,
                producer_id=producer_id,
                sequence=sequence,
                is_transactional=is_transactional or is_open,
            )
        )
        self.sequences[producer_id] = sequence + count

    @rule(producer_id=st.sampled_from((ANN, BOB)), outcome=st.sampled_from(list(ControlType)))
    def end_transaction(self, producer_id: int, outcome: ControlType) -> None:
        self.put(marker(producer_id, outcome, timestamp=self.now), outcome)

    @precondition(lambda self: any(s.header.base_sequence >= 0 for s in self.model.batches))
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        known = [
            stored
            for stored in self.model.batches
            if stored.header.base_sequence >= 0
            and stored.header.base_offset >= self.model.cleaned_until
        ]
        if not known:
            return
        stored = data.draw(st.sampled_from(known))
        header = stored.header
        later = [s for s in known if s.header.producer_id == header.producer_id]
        if stored not in later[-5:]:
            return
        repeated = batch(
            *(r.timestamp for r in stored.records),
            producer_id=header.producer_id,
            sequence=header.base_sequence,
            is_transactional=header.is_transactional,
        )
        found = self.log.append(repeated, leader_epoch=self.epoch, now_ms=self.now)
        assert found.is_repeated
        assert (found.base_offset, found.last_offset) == (header.base_offset, header.last_offset)

    @rule(timestamps=st.lists(st.integers(0, 500), min_size=3, max_size=12))
    def append_many_and_commit(self, timestamps: list[int]) -> None:
        for number, timestamp in enumerate(timestamps):
            if number % 3:
                self.append_idempotent(ANN, 1, timestamp, is_transactional=False)
            else:
                self.put(batch(timestamp, timestamp + 1))
        self.model.high_watermark = self.model.end
        self.log.advance_high_watermark(self.model.end)

    @rule()
    def begin_an_epoch(self) -> None:
        self.epoch += 1

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.model.high_watermark, self.model.end))
        self.log.advance_high_watermark(offset)
        self.model.high_watermark = offset

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.model.start, self.model.high_watermark))
        self.log.advance_start(offset)
        self.model.advance_start(offset)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.flushed_end == self.model.end

    @rule()
    def release(self) -> None:
        self.log.release()

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        first = max(self.model.start, self.model.cleaned_until)
        offset = data.draw(st.integers(first, self.model.end))
        self.log.truncate(offset)
        if offset == self.model.end:
            return
        base = names(self.disk, ".log")[0]
        for stored in reversed(self.model.truncate(offset, base)):
            if stored.header.base_sequence >= 0:
                self.sequences[stored.header.producer_id] = stored.header.base_sequence

    @rule(
        elapsed=st.integers(0, 300),
        retention_ms=st.sampled_from((-1, 0, 200, NEVER)),
        retention_bytes=st.sampled_from((-1, 0, 500, 1500)),
        policy=st.sampled_from([frozenset({p}) for p in CleanupPolicy] + [frozenset()]),
    )
    def retire(
        self,
        elapsed: int,
        retention_ms: int,
        retention_bytes: int,
        policy: frozenset[CleanupPolicy],
    ) -> None:
        self.now += elapsed
        self.config = self.log.config = replace(
            self.config,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
            cleanup_policy=policy,
        )
        kept = self.first_kept_offset()
        self.log.retire(self.now)
        if kept > self.model.start:
            self.model.advance_start(kept)
        kept = max(kept, names(self.disk, ".log")[0])
        going = [s for s in self.model.batches if s.header.last_offset < kept]
        self.model.retired += going
        del self.model.batches[: len(going)]

    def first_kept_offset(self) -> int:
        """By Kafka's rules, segment after segment from the first."""
        model, config = self.model, self.config
        bases = names(self.disk, ".log")
        excess = sum(s.header.size for s in model.batches) - config.retention_bytes
        by_time = by_size = config.is_deleted
        kept = bases[0]
        for base, end in zip(bases, [*bases[1:], model.end], strict=True):
            inside = [s.header for s in model.batches if base <= s.header.base_offset < end]
            newest = max((h.max_timestamp for h in inside), default=0)
            excess -= sum(h.size for h in inside)
            by_time &= config.retention_ms >= 0 and bool(inside)
            by_time &= self.now - newest > config.retention_ms
            by_size &= config.retention_bytes >= 0 and excess >= 0
            is_before_start = end <= model.start and base != bases[-1]
            if not (by_time or by_size or is_before_start) or end > model.high_watermark:
                break
            kept = end
        return kept

    @rule(elapsed=st.integers(0, 300), delete_retention_ms=st.sampled_from((0, 400)))
    def compact(self, elapsed: int, delete_retention_ms: int) -> None:
        self.now += elapsed
        self.config = self.log.config = replace(
            self.config,
            cleanup_policy=frozenset({CleanupPolicy.COMPACT}),
            delete_retention_ms=delete_retention_ms,
            min_cleanable_dirty_ratio=0,
        )
        self.log.flush()
        compaction = self.log.begin_compaction(self.now)
        if compaction is None:
            return
        self.log.end_compaction(compaction, compaction.run())
        end = self.model.cleaned_until = self.log.cleaned_until
        assert end > 0
        before, self.model.batches = self.model.batches, list(self.stored())
        self.model.compacted += [s for s in before if s.outcome is None]
        markers = {s.header.base_offset for s in self.model.batches if s.outcome is not None}
        self.model.retired += [
            s for s in before if s.outcome is not None and s.header.base_offset not in markers
        ]
        found = {record.offset: record for record in self.model.records()}
        known = {r.offset: r for stored in before for r in stored.records}
        assert found.items() <= known.items(), "what stays is as it was"
        data = [s for s in before if s.outcome is None]
        live = [r for s in data for r in s.records if not self.model.is_aborted(r.offset)]
        latest = {record.key: record for record in live if record.offset < end}
        for record in known.values():
            if record.offset >= end or (record in latest.values() and record.value is not None):
                assert record.offset in found
        dead = {r.offset for s in data for r in s.records if r.offset < end}
        dead -= {record.offset for record in latest.values()}
        assert not dead & found.keys(), "older records and aborted ones go"

    def stored(self) -> Iterator[Stored]:
        """What is in the files."""
        for base in names(self.disk, ".log"):
            content = self.disk.read(HOME / f"{base:020}.log")
            for position, header in iterate_batches(content, torn_tail_allowed=False):
                data = content[position : position + header.size]
                marker = read_marker(data, header) if header.is_control else None
                records = list(read_records(data, 0, header))
                yield Stored(header, records, marker.outcome if marker else None)

    @rule()
    def close_and_open(self) -> None:
        self.log.close()
        self.reopen(None)

    @rule()
    def kill_and_open(self) -> None:
        self.disk = self.disk.kill9()
        self.reopen(self.log.flushed_end)

    def reopen(self, recovery_point: int | None) -> None:
        before = self.log
        self.log = Log.open(
            self.disk,
            HOME,
            self.config,
            recovery_point=recovery_point,
            start_offset=self.model.start,
            high_watermark=self.model.high_watermark,
            cleaned_until=self.model.cleaned_until,
        )
        if not self.model.cleaned_until:
            assert self.log.producers == before.producers
        for producer in before.producers:
            again = self.log.producers.get(producer.producer_id)
            if producer.batches:
                assert again is not None
                found, known_batch = again.batches[-1], producer.batches[-1]
                assert found[:3] == known_batch[:3]
                # Of a batch that compaction has made smaller, the latest record may be gone.
                assert found.timestamp <= known_batch.timestamp
                first, known = again.current_txn_first_offset, producer.current_txn_first_offset
                assert first == known or (first and known and first in self.compacted_from(known))

    def compacted_from(self, first: int) -> range:
        """Where a transaction may begin of which compaction has removed the first batches."""
        return range(first, self.model.cleaned_until)

    @invariant()
    def bounds_are_right(self) -> None:
        log, model = self.log, self.model
        assert (log.start_offset, log.end_offset) == (model.start, model.end)
        assert log.high_watermark == model.high_watermark
        assert log.last_stable_offset in model.last_stable_offsets()
        assert log.epochs.entries == model.epochs

    @invariant()
    def everything_is_there(self) -> None:
        found: list[Record] = []
        offset = self.model.start
        while (piece := self.log.read(offset, 250, self.model.end)) is not None:
            records = records_of(piece)
            assert piece.end_offset > offset
            found += records
            offset = piece.end_offset
        wanted = [
            record
            for stored in self.model.batches
            if stored.header.last_offset >= self.model.start
            for record in stored.records
        ]
        assert found == wanted

    @rule(timestamp=st.integers(0, 510))
    def find_by_time(self, timestamp: int) -> None:
        shown = [r for r in self.model.records() if r.offset >= self.model.start]
        later = [r for r in shown if r.timestamp >= timestamp]
        first = TimedOffset(later[0].timestamp, later[0].offset) if later else None
        assert self.log.find_timestamp(timestamp) == first

    @invariant()
    def committed_readers_see_what_was_committed(self) -> None:
        start, end = self.model.start, self.log.last_stable_offset
        aborted = self.log.aborted(start, end)
        seen: list[Record] = []
        offset = start
        while (piece := self.log.read(offset, 250, end)) is not None:
            records = iter(records_of(piece))
            for header in taken(piece):
                mine = list(islice(records, header.records_count))
                if not header.is_control and not is_aborted(header, aborted):
                    seen += mine
            offset = piece.end_offset
        wanted = [
            record
            for stored in self.model.batches
            if stored.outcome is None and start <= stored.header.last_offset < end
            for record in stored.records
            if not self.model.is_aborted(record.offset)
        ]
        assert seen == wanted

    @rule(data=st.data())
    def find_aborted(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.model.start, self.model.end))
        end = data.draw(st.integers(start, self.model.end))
        found = self.log.aborted(start, end)
        if self.model.cleaned_until:
            return
        wanted = [t for t in self.model.aborted() if t[1] < end and t[2] >= start]
        assert [t[:3] for t in found] == wanted


class Choices(st.DataObject):
    """What a search has drawn, to be played again."""

    def __init__(self, *values: Any) -> None:
        self._values = iter(values)

    def draw(self, strategy: st.SearchStrategy[Drawn], label: Any = None) -> Drawn:
        drawn: Drawn = next(self._values)
        return drawn


def test_producers_are_known_after_compaction_and_truncation_and_a_kill() -> None:
    machine = LogMachine()
    machine.open(segment_bytes=300, interval=1)
    machine.append_many_and_commit(timestamps=[0] * 5)
    machine.compact(elapsed=0, delete_retention_ms=0)
    machine.truncate(Choices(6))
    machine.kill_and_open()
    assert machine.log.producers.get(ANN) is not None


def test_a_transaction_stays_open_if_its_marker_is_truncated_after_compaction() -> None:
    machine = LogMachine()
    machine.open(segment_bytes=300, interval=1)
    machine.end_transaction(producer_id=ANN, outcome=ControlType.ABORT)
    for count in (2, 2, 3):
        machine.append_idempotent(ANN, count, timestamp=0, is_transactional=True)
    machine.end_transaction(producer_id=ANN, outcome=ControlType.ABORT)
    machine.commit(Choices(9))
    machine.compact(elapsed=0, delete_retention_ms=0)
    machine.truncate(Choices(5))
    machine.bounds_are_right()
    machine.kill_and_open()
    machine.bounds_are_right()
    assert machine.log.last_stable_offset < machine.log.end_offset


LogMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestLogMachine = LogMachine.TestCase
