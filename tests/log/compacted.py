"""Logs to be compacted: how producers fill them, what a plain list says of them, and crashes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pyk.disk import Disk
from pyk.log.batch_survival import LastOfProducer
from pyk.log.compaction import (
    MEMORY_BYTES,
    Plan,
    Result,
    Rewritten,
    plan,
    rewrite,
    rewrite_groups,
)
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.log.producers import Producers
from pyk.log.replay import note, replay
from pyk.log.segments import Segments
from pyk.log.transactions import AbortedTransaction
from pyk.wire.batch import BatchHeader, read_header
from pyk.wire.compression import Compression
from pyk.wire.prefixed import ControlType, encode_end_marker
from pyk.wire.records import Record, build_batch, read_records
from tests.log.readers import is_aborted
from tests.simulated_disk import ROOT, SimulatedDisk

HOME = ROOT / "topic-0"
NOW = 1_700_000_000_000
RETENTION_MS = 1_000
CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=RETENTION_MS,
)


@dataclass
class Sent:
    record: Record
    batch: int
    """The base offset of its batch."""
    transaction: int | None
    """The offset at which it began."""


@dataclass
class Filled:
    """A log, what its producers know, and all that was sent, in a plain list."""

    disk: Disk
    config: LogConfig = CONFIG
    home: Path = HOME
    producers: Producers = field(default_factory=Producers)
    sent: list[Sent] = field(default_factory=list)
    outcomes: dict[int, ControlType] = field(default_factory=dict)
    """Of the transactions that have ended, by where they began."""
    epochs: dict[int, int] = field(default_factory=dict)
    horizons: dict[int, int] = field(default_factory=dict)
    """Of batches with tombstones, once they have been compacted."""

    def __post_init__(self) -> None:
        self.log = Segments.open(self.disk, self.home, self.config)

    def put(
        self,
        *pairs: tuple[bytes | None, bytes | None],
        producer: int = -1,
        in_transaction: bool = False,
        codec: Compression = Compression.NONE,
        gap: int = 0,
    ) -> None:
        """A batch of records with these keys and values."""
        base = self.log.end_offset + gap
        records = [
            Record(base + n, NOW - 10**6 + 7 * base - n, key, value, (("h", b"%d" % base),))
            for n, (key, value) in enumerate(pairs)
        ]
        known = self.producers.get(producer)
        epoch = self.epochs.get(producer, 0)
        follows = known is not None and known.epoch == epoch
        data = build_batch(
            records,
            base_offset=base,
            compression=codec,
            producer_id=producer,
            producer_epoch=epoch if producer >= 0 else -1,
            base_sequence=(known.last_sequence + 1 if known and follows else 0)
            if producer >= 0
            else -1,
            partition_leader_epoch=base // 10,
            is_transactional=in_transaction,
        )
        self._append(data)
        began = self.producers.get(producer) if in_transaction else None
        transaction = None if began is None else began.current_txn_first_offset
        self.sent += [Sent(record, base, transaction) for record in records]

    def end(self, producer: int, outcome: ControlType, *, new_epoch: bool = False) -> None:
        """A marker, if there is anything to end."""
        known = self.producers.get(producer)
        if known is None or known.current_txn_first_offset is None:
            return
        self.outcomes[known.current_txn_first_offset] = outcome
        self.epochs[producer] = self.epochs.get(producer, 0) + new_epoch
        key, value = encode_end_marker(outcome, 1)
        base = self.log.end_offset
        data = build_batch(
            [Record(base, NOW - 10**6 + 7 * base, key, value)],
            base_offset=base,
            producer_id=producer,
            producer_epoch=self.epochs[producer],
            is_transactional=True,
            is_control=True,
        )
        self._append(data)

    def _append(self, data: bytes) -> None:
        header = read_header(data)
        self.log.append(data, header, NOW)
        aborted = note(self.producers, header, lambda: data)
        if aborted is not None:
            self.log.active.note_aborted(aborted)

    def plan(self, now_ms: int = NOW) -> Plan | None:
        undecided = self.producers.first_undecided_offset
        return plan(
            self.log,
            cleaned_until=0,
            log_start_offset=0,
            last_stable_offset=self.log.end_offset if undecided is None else undecided,
            now_ms=now_ms,
        )

    def rewrite(self, planned: Plan, memory_bytes: int = MEMORY_BYTES) -> Result:
        aborted = aborted_before(self.log, planned.end_offset)
        lasts = lasts_of(self.producers)
        return rewrite(self.disk, self.home, planned, aborted, lasts, memory_bytes=memory_bytes)

    def compact(self, now_ms: int = NOW, *, one_by_one: bool = False) -> Result:
        """All that can be."""
        planned = self.plan(now_ms)
        if planned is None:
            return Result([], 0)
        aborted = aborted_before(self.log, planned.end_offset)
        lasts = lasts_of(self.producers)
        groups: Iterable[Rewritten] = rewrite_groups(self.disk, self.home, planned, aborted, lasts)
        rewritten = []
        for each in groups if one_by_one else list(groups):
            self.log.swap_in(each.bases)
            rewritten.append(each)
        return Result(rewritten, planned.end_offset)

    def expected(self, end_offset: int, now_ms: int) -> list[Record]:
        """What is left of all that was sent after compaction up to there."""
        counted = [each for each in self.sent if each.record.offset < end_offset]
        committed = [
            each
            for each in counted
            if each.record.key is not None
            and (each.transaction is None or self.outcomes[each.transaction] is ControlType.COMMIT)
        ]
        latest = {each.record.key: each for each in committed}
        left = []
        for each in committed:
            if latest[each.record.key] is each:
                if each.record.value is None:
                    horizon = self.horizons.setdefault(each.batch, now_ms + RETENTION_MS)
                    if horizon <= now_ms:
                        continue
                left.append(each.record)
        return left + [each.record for each in self.sent if each.record.offset >= end_offset]


def aborted_before(log: Segments, end_offset: int) -> list[AbortedTransaction]:
    entries = [entry for base in log.bases for entry in log.at(base).aborted.entries]
    return [entry for entry in entries if entry.first_offset < end_offset]


def lasts_of(producers: Producers) -> dict[int, LastOfProducer]:
    return {
        each.producer_id: LastOfProducer(
            each.last_data_offset if each.batches else None, each.epoch
        )
        for each in producers
    }


def batches(log: Segments) -> list[tuple[BatchHeader, bytes]]:
    """Everything in the log."""
    return [
        (placed.header, segment.load(placed))
        for segment in map(log.at, log.bases)
        for placed in segment.batches()
    ]


def data_records(log: Segments) -> list[Record]:
    return [
        record
        for header, data in batches(log)
        if not header.is_control
        for record in read_records(data)
    ]


def markers(log: Segments) -> list[int]:
    """Offsets of the control records."""
    return [
        record.offset
        for header, data in batches(log)
        if header.is_control
        for record in read_records(data)
    ]


def replayed(log: Segments) -> Producers:
    producers = Producers()
    for base in log.bases:
        for _ in replay(producers, log.at(base), 0, log.end_offset):
            pass
    return producers


def randomly_filled(rng: Random, disk: SimulatedDisk, steps: int = 30) -> Filled:
    """Few keys, transactions that overlap, every codec."""
    config = LogConfig(
        segment_bytes=rng.choice((400, 900)),
        index_interval_bytes=rng.choice((1, 200)),
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=rng.choice((0, RETENTION_MS)),
    )
    filled = Filled(disk, config)
    for _ in range(steps):
        producer = rng.choice((-1, 1, 2))
        if rng.random() < 0.2:
            filled.end(abs(producer), rng.choice(list(ControlType)), new_epoch=rng.random() < 0.3)
            continue
        pairs = [
            (rng.choice((None, b"a", b"b", b"c", b"d")), rng.choice((None, b"v" * 30)))
            for _ in range(rng.choice((1, 3)))
        ]
        codec = rng.choice(list(Compression))
        filled.put(*pairs, producer=producer, in_transaction=producer > 0, codec=codec)
    for producer in (1, 2):
        filled.end(producer, ControlType.COMMIT)
    filled.log.roll()
    return filled


def crash_compaction(seed: int) -> int:
    """Compact a random log with a crash before every operation. How many there were. Raise
    AssertionError if what is then found of any group is neither old nor new."""
    rng = Random(seed)
    filled = randomly_filled(rng, SimulatedDisk())
    filled.log.flush()
    return sum(crash_at_every_point(filled, now, rng) for now in (NOW, NOW + RETENTION_MS))


def crash_at_every_point(filled: Filled, now_ms: int, rng: Random) -> int:
    disk, recovery_point, points = filled.disk, filled.log.end_offset, 0
    assert isinstance(disk, SimulatedDisk)
    planned = filled.plan(now_ms)
    assert planned is not None
    edges = [*(group[0] for group in planned.groups), planned.end_offset]
    old = by_range(filled.log, edges)
    after = Filled(disk.kill9(), filled.config, producers=filled.producers)
    after.compact(now_ms)
    new = by_range(after.log, edges)
    latest = latest_values(disk.kill9(), filled.config, recovery_point)

    def crash_here() -> None:
        nonlocal points
        disk.watch = None
        for copy in (disk.kill9(), disk.power(rng)):
            log = Segments.open(copy, HOME, filled.config, recovery_point)
            assert log.dropped_bytes == 0
            check_old_or_new(by_range(log, edges), old, new)
            assert latest_values(copy, filled.config, recovery_point) == latest
            points += 1
        disk.watch = crash_here

    disk.watch = crash_here
    filled.compact(now_ms, one_by_one=rng.random() < 0.5)
    disk.watch = None
    assert by_range(filled.log, edges) == new
    return points


def latest_values(
    disk: SimulatedDisk, config: LogConfig, recovery_point: int
) -> dict[bytes | None, bytes]:
    """What a reader of committed records makes of a whole log that was opened after a crash."""
    log = Log.open(disk, HOME, config, recovery_point=recovery_point, high_watermark=recovery_point)
    aborted = log.aborted(0, log.end_offset)
    found: dict[bytes | None, bytes | None] = {}
    for header, data in batches(Segments.open(disk, HOME, config)):
        if not header.is_control and not is_aborted(header, aborted):
            records = read_records(data, 0, header)
            found |= {record.key: record.value for record in records if record.key is not None}
    return {key: value for key, value in found.items() if value is not None}


def check_old_or_new(
    found: list[list[bytes]], old: list[list[bytes]], new: list[list[bytes]]
) -> None:
    is_done = True
    for number, each in enumerate(found):
        assert each in (old[number], new[number]), f"group {number} is neither old nor new"
        assert is_done or each == old[number], f"group {number} is new, and one before it is not"
        is_done = is_done and each == new[number]


def by_range(log: Segments, edges: list[int]) -> list[list[bytes]]:
    """The batches between each two of these offsets."""
    found: list[list[bytes]] = [[] for _ in edges]
    for header, data in batches(log):
        found[sum(header.base_offset >= edge for edge in edges) - 1].append(data)
    return found
