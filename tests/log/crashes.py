"""A data directory on a disk that may crash at any moment: `make crash`.

A random workload runs on a simulated disk. Before each operation of the disk the machine is taken
to die there, by kill -9 and by power loss, and a copy of the disk is opened again. What must be so:

- Every log that was made is there, and none is reported as damaged.
- It is a prefix of what was written, without a hole, and everything that was flushed is in it.
- It does not start before what was deleted on request, and is not committed beyond what was.
- What it knows of producers, transactions and epochs is what its batches say.
- All of it is durable now. It can be appended to, closed, and opened again as the same.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.log.producers import Origin
from pyk.types import TopicPartition, Uuid
from pyk.wire.batch import BatchHeader, peek_header, stamp_offset
from pyk.wire.prefixed import ControlType, encode_end_marker
from pyk.wire.records import Record, build_batch
from tests.log.compacted import crash_compaction
from tests.log.history import Batch, check_derived, headers_of
from tests.log.races import crash_races, interrupted
from tests.simulated_disk import ROOT, Crashed, SimulatedDisk

NOBODY = -1
IDEMPOTENT = (11, 12)
TRANSACTIONAL = (21, 22, 23)
SECOND_LIVES = 0.15
"""The share of crashes that are followed by one more during recovery, by one after it, and by logs
that are written to, closed and opened again."""


@dataclass
class Truth:
    """What a workload has done to a log, and what may be found after a crash."""

    topic_id: Uuid
    is_doubtful: bool = True
    """It is being made or deleted: it may be there or not."""
    base: int = 0
    """Where it began when it was made or cleared."""
    written: list[Batch] = field(default_factory=list)
    """All since it was made or cleared, what was deleted from its start included. If the last call
    was interrupted, before it."""
    attempted: list[Batch] = field(default_factory=list)
    """What an append that is under way would add."""
    durable_end: int = 0
    start: int = 0
    """What was deleted on request stays away."""
    start_max: int = 0
    """No record from here on may have been removed."""
    cleared_to: int | None = None
    """Where it would begin again if it is being cleared."""
    high_watermark: int = 0

    def until(self, end: int) -> list[Batch]:
        """All that a log which ends there may have."""
        possible = [*self.written, *self.attempted]
        return [batch for batch in possible if batch.header.next_offset <= end]


class Workload:
    """One life of a data directory after another."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.fate = Random(~seed)
        """What crashes leave, so that it does not change what happens without them."""
        self.config = LogConfig(
            segment_bytes=self.rng.choice((300, 900, 10_000)),
            index_interval_bytes=self.rng.choice((1, 200)),
            retention_bytes=self.rng.choice((-1, 500, 1_500)),
            file_delete_delay_ms=self.rng.choice((0, 60_000)),
        )
        self.partitions = [TopicPartition("t", i) for i in range(self.rng.choice((1, 1, 2)))]
        self.truths: dict[TopicPartition, Truth] = {}
        self.leader_epoch = 0
        self.now_ms = 1_000
        self.points = 0
        self.density = self.rng.choice((1.0, 0.05))
        """The share of operations before which it dies. Fewer of them take a workload further."""
        self.disk = SimulatedDisk()
        self.directory = self._open(self.disk)
        for partition in self.partitions:
            self._create(partition)
        self.disk.watch = self._crash_here

    def step(self) -> None:
        """Do one thing with one partition, and see that its log knows what it should."""
        self.now_ms += self.rng.choice((0, 1, 40_000))
        partition = self.rng.choice(self.partitions)
        if partition in self.truths:
            self.rng.choices(list(STEPS), list(STEPS.values()))[0](self, partition)
        else:
            self._create(partition)
        if partition in self.truths:
            check_derived(self.directory.logs[partition], self.truths[partition].written)

    def append(self, partition: TopicPartition) -> None:
        if self.rng.random() < 0.1:
            self.leader_epoch += self.rng.choice((1, 2))
        log, truth = self.directory.logs[partition], self.truths[partition]
        data, origin, outcome = self._batch(log)
        if self.rng.random() < 0.1:
            # As a follower, whose leader has compacted away what was before.
            stamp_offset(data, 0, log.end_offset + self.rng.choice((0, 3)), self.leader_epoch)
            truth.attempted = [Batch(peek_header(data), *outcome)]
            log.append_replicated(data, self.now_ms)
        else:
            stamp_offset(data, 0, log.end_offset, self.leader_epoch)
            truth.attempted = [Batch(peek_header(data), *outcome)]
            epoch = self.leader_epoch
            log.append(data, leader_epoch=epoch, now_ms=self.now_ms, origin=origin)
        truth.written += truth.attempted
        truth.attempted = []

    def commit(self, partition: TopicPartition) -> None:
        log, truth = self.directory.logs[partition], self.truths[partition]
        ends = [batch.header.next_offset for batch in truth.written]
        between = [end for end in ends if end > log.high_watermark]
        offset = self.rng.choice((log.end_offset, *self.rng.choices(between or [log.end_offset])))
        truth.high_watermark = max(truth.high_watermark, offset)
        log.advance_high_watermark(offset)

    def flush(self, partition: TopicPartition) -> None:
        log = self.directory.logs[partition]
        log.flush()
        assert log.flushed_end == log.end_offset
        self.truths[partition].durable_end = log.flushed_end

    def flush_elsewhere(self, partition: TopicPartition) -> None:
        """Other things happen while a thread syncs."""
        log, truth = self.directory.logs[partition], self.truths[partition]
        flush = log.begin_flush()
        meanwhile = self.rng.choice((Workload.append, Workload.roll, Workload.truncate))
        meanwhile(self, partition)
        flush.run()
        log.end_flush(flush)
        if meanwhile != Workload.truncate:
            assert log.flushed_end == flush.end_offset
            truth.durable_end = flush.end_offset

    def roll(self, partition: TopicPartition) -> None:
        self.directory.logs[partition].roll()

    def checkpoint(self, partition: TopicPartition) -> None:
        self.directory.checkpoint()

    def checkpoint_elsewhere(self, partition: TopicPartition) -> None:
        """Other things happen while it is begun, and before and after a thread writes it."""
        work = self.directory.begin_checkpoint()
        checkpoint = interrupted(work, lambda: self._meanwhile(partition))
        self._meanwhile(partition)
        if checkpoint is not None:
            checkpoint.run()
            self._meanwhile(partition)
            self.directory.end_checkpoint(checkpoint)

    def _meanwhile(self, partition: TopicPartition) -> None:
        for _ in range(self.rng.choice((0, 1, 3))):
            if partition in self.truths:
                self.rng.choice(MEANWHILE)(self, partition)
            else:
                self._create(partition)

    def truncate(self, partition: TopicPartition) -> None:
        log, truth = self.directory.logs[partition], self.truths[partition]
        offset = self._between(log.start_offset, log.end_offset)
        kept = [batch for batch in truth.written if batch.header.last_offset < offset]
        # From here on the records beyond are owed to nobody.
        truth.durable_end = min(truth.durable_end, offset)
        truth.start = min(truth.start, kept[-1].header.next_offset if kept else truth.base)
        self.directory.truncate(partition, offset)
        truth.written = kept
        truth.high_watermark = min(truth.high_watermark, log.end_offset)
        truth.durable_end = min(truth.durable_end, log.end_offset)
        truth.start_max = min(truth.start_max, log.end_offset)

    def clear(self, partition: TopicPartition) -> None:
        log, truth = self.directory.logs[partition], self.truths[partition]
        offset = self.rng.choice((0, log.start_offset, log.end_offset, self.rng.randrange(200)))
        truth.durable_end = 0
        truth.cleared_to = offset
        truth.start_max = max(log.end_offset, offset)
        self.directory.clear(partition, offset)
        truth.written = []
        truth.cleared_to = None
        truth.base = truth.start = truth.start_max = truth.high_watermark = offset

    def delete_records(self, partition: TopicPartition) -> None:
        log, truth = self.directory.logs[partition], self.truths[partition]
        offset = self._between(log.start_offset, log.high_watermark)
        truth.start_max = max(truth.start_max, offset)
        self.directory.delete_records(partition, offset)
        truth.start = max(truth.start, offset)

    def retire(self, partition: TopicPartition) -> None:
        log, truth = self.directory.logs[partition], self.truths[partition]
        for _ in range(2):
            if log.is_dropped:
                return
            truth.start_max = log.end_offset
            retirement = log.begin_retirement(self.now_ms)
            self._meanwhile(partition)
            if retirement is not None:
                retirement.run()
                self._meanwhile(partition)
                log.end_retirement(retirement)
        truth.start_max = log.start_offset
        log.sweep(self.now_ms)
        self.directory.sweep(self.now_ms)

    def delete(self, partition: TopicPartition) -> None:
        self.truths[partition].is_doubtful = True
        self.directory.delete(partition)
        del self.truths[partition]
        if self.rng.random() < 0.5:
            self.directory.sweep(self.now_ms)
        if self.rng.random() < 0.5:
            self._create(partition)

    def restart(self, partition: TopicPartition) -> None:
        """Everything is closed and opened again."""
        self.directory.close()
        self._open_again()
        assert self.directory.was_clean

    def kill(self, partition: TopicPartition) -> None:
        ends = {p: log.end_offset for p, log in self.directory.logs.items()}
        self._open_again()
        assert {p: log.end_offset for p, log in self.directory.logs.items()} == ends

    def lose_power(self, partition: TopicPartition) -> None:
        self.disk = self.disk.power(self.fate)
        self.disk.watch = self._crash_here
        self._open_again()

    def _open_again(self) -> None:
        """Go on with what is left."""
        self.directory = self._open(self.disk)
        for partition, truth in self.truths.items():
            log = self.directory.logs[partition]
            check_recovered(log, truth)
            end = log.end_offset
            truth.written = [b for b in truth.written if b.header.next_offset <= end]
            truth.durable_end, truth.start_max = end, log.start_offset
            truth.high_watermark = log.high_watermark

    def _create(self, partition: TopicPartition) -> None:
        topic_id = Uuid(self.rng.choice((b"\1", b"\2")) * 16)
        self.truths[partition] = Truth(topic_id)
        self.directory.create(partition, topic_id, self.config)
        self.truths[partition].is_doubtful = False

    def _open(self, disk: SimulatedDisk) -> DataDirectory:
        return DataDirectory.open(disk, ROOT, lambda topic: self.config)

    def _batch(self, log: Log) -> tuple[bytearray, Origin, tuple[ControlType, int] | tuple[()]]:
        """A batch of one of the producers, as the log expects it."""
        producer_id = self.rng.choice((NOBODY, *IDEMPOTENT, *TRANSACTIONAL))
        known = log.producers.get(producer_id)
        epoch, sequence = (known.epoch, known.last_sequence + 1) if known else (0, 0)
        if self.rng.random() < 0.1:
            epoch, sequence = epoch + 1, 0
        if producer_id in TRANSACTIONAL and self.rng.random() < 0.4:
            outcome = (self.rng.choice((ControlType.ABORT, ControlType.COMMIT)), self.leader_epoch)
            records = [Record(0, self._timestamp(), *encode_end_marker(*outcome))]
            data = build_batch(
                records,
                producer_id=producer_id,
                producer_epoch=epoch,
                is_transactional=True,
                is_control=True,
            )
            return bytearray(data), Origin.COORDINATOR, outcome
        records = [
            Record(i, self._timestamp(), None, b"v" * self.rng.choice((5, 50)))
            for i in range(self.rng.choice((1, 3)))
        ]
        data = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=NOBODY if producer_id == NOBODY else epoch,
            base_sequence=NOBODY if producer_id == NOBODY else sequence,
            is_transactional=producer_id in TRANSACTIONAL,
        )
        return bytearray(data), Origin.CLIENT, ()

    def _between(self, low: int, high: int) -> int:
        """An offset, more often than by chance one of the two."""
        return self.rng.choice(
            (low, high, self.rng.randint(low, high), self.rng.randint(low, high))
        )

    def _timestamp(self) -> int:
        return self.now_ms + self.rng.randrange(100)

    def _crash_here(self) -> None:
        if self.fate.random() > self.density:
            return
        self.disk.watch = None
        for copy in (self.disk.kill9(), self.disk.power(self.fate)):
            self._check(copy)
            self.points += 1
        self.disk.watch = self._crash_here

    def _check(self, disk: SimulatedDisk) -> None:
        if self.fate.random() < SECOND_LIVES:
            disk = self._interrupted(disk)
        directory = self._recovered(disk)
        if self.fate.random() < SECOND_LIVES:
            again = self._recovered(disk.power(self.fate))
            assert contents(again) == contents(directory), "what was recovered is not durable"
        for partition, log in directory.logs.items():
            log.advance_high_watermark(log.end_offset)
            check_derived(log, self.truths[partition].until(log.end_offset))
        if self.fate.random() < SECOND_LIVES:
            self._live_on(disk, directory)

    def _interrupted(self, disk: SimulatedDisk) -> SimulatedDisk:
        """What is left if it dies again while it recovers."""
        disk.crash_after = self.fate.randint(1, 40)
        with suppress(Crashed):
            self._open(disk)
        return self.fate.choice((disk.kill9, lambda: disk.power(self.fate)))()

    def _recovered(self, disk: SimulatedDisk) -> DataDirectory:
        directory = self._open(disk)
        assert not directory.failed, f"a false alarm: {directory.failed}"
        assert directory.logs.keys() <= self.truths.keys(), "a log is there that was deleted"
        for partition, truth in self.truths.items():
            log = directory.logs.get(partition)
            if log is None:
                assert truth.is_doubtful, f"{partition} is gone"
            else:
                assert directory.topic_ids[partition] == truth.topic_id
                check_recovered(log, truth)
        return directory

    def _live_on(self, disk: SimulatedDisk, directory: DataDirectory) -> None:
        for log in directory.logs.values():
            data = bytearray(build_batch([Record(0, self.now_ms, None, b"more")]))
            log.append(data, leader_epoch=self.leader_epoch + 1, now_ms=self.now_ms)
            log.advance_high_watermark(log.end_offset)
        directory.close()
        again = self._open(disk)
        assert again.was_clean
        assert again.logs.keys() == directory.logs.keys()
        for partition, log in directory.logs.items():
            assert state_of(again.logs[partition]) == state_of(log), f"{partition} has changed"


STEPS: dict[Callable[[Workload, TopicPartition], None], int] = {
    Workload.append: 30,
    Workload.commit: 8,
    Workload.flush: 4,
    Workload.flush_elsewhere: 2,
    Workload.roll: 4,
    Workload.checkpoint: 1,
    Workload.checkpoint_elsewhere: 3,
    Workload.truncate: 4,
    Workload.clear: 1,
    Workload.delete_records: 5,
    Workload.retire: 6,
    Workload.delete: 1,
    Workload.restart: 1,
    Workload.kill: 1,
    Workload.lose_power: 2,
}
"""What a workload does, and how often."""

MEANWHILE = (
    Workload.append,
    Workload.commit,
    Workload.flush,
    Workload.roll,
    Workload.checkpoint,
    Workload.truncate,
    Workload.clear,
    Workload.delete_records,
    Workload.retire,
    Workload.delete,
)
"""What may happen while a checkpoint is written."""


def check_recovered(log: Log, truth: Truth) -> None:
    """Raise AssertionError unless it is a log that a crash may leave."""
    found = headers_of(log)
    start, end = log.start_offset, log.end_offset
    history = truth.until(end)
    expected = [batch.header for batch in history if batch.header.last_offset >= start]
    assert found == expected, "it is not a prefix of what was written"
    owed = [b.header for b in truth.written if b.header.next_offset <= truth.durable_end]
    missing = [header for header in owed if header.last_offset >= start][len(found) :]
    assert not missing, f"durable batches {missing} are gone"
    lowest = truth.start
    if truth.cleared_to is not None and not found:
        lowest = min(lowest, truth.cleared_to)
    assert lowest <= start <= truth.start_max, f"it starts at {start}"
    assert log.high_watermark <= max(truth.high_watermark, start), "it is committed too far"
    check_derived(log, history)


def contents(directory: DataDirectory) -> dict[TopicPartition, list[BatchHeader]]:
    return {partition: headers_of(log) for partition, log in directory.logs.items()}


def state_of(log: Log) -> tuple[list[BatchHeader], object, object, object, int, int]:
    """What must be the same after a restart."""
    return (
        headers_of(log),
        {producer.producer_id: producer for producer in log.producers},
        log.epochs.entries,
        log.aborted(log.start_offset, log.end_offset),
        log.last_stable_offset,
        log.high_watermark,
    )


def run(seed: int, steps: int = 40) -> int:
    """One workload with its crashes. How many there were. Raise AssertionError."""
    workload = Workload(seed)
    for _ in range(steps if workload.density == 1 else 5 * steps):
        workload.step()
    return workload.points


def main() -> None:
    parser = argparse.ArgumentParser(description="Crash a data directory at every point.")
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    try_all(run, options.seed, options.points, "every log was whole, and knew what its batches say")
    found = "whatever maintenance raced with, every log had its own records and no others"
    try_all(crash_races, options.seed, options.points // 4, found)
    found = "of each key a compacted log had the latest value"
    try_all(crash_compaction, options.seed, options.points // 4, found)


def try_all(crash: Callable[[int], int], seed: int, points_wanted: int, found: str) -> None:
    """Run workloads, each from the next seed, until so many crashes were survived."""
    began, points, first_seed = time.perf_counter(), 0, seed
    while points < points_wanted:
        try:
            points += crash(seed)
        except BaseException as failed:
            failed.add_note(f"seed {seed}")
            raise
        seed += 1
    took = time.perf_counter() - began
    print(
        f"{points:,} crash points in {seed - first_seed:,} workloads from seed {first_seed}:"
        f" {found} ({points / took:,.0f} a second)"
    )


if __name__ == "__main__":
    main()
