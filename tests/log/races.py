"""Maintenance of logs that race with everything else, on a disk that may crash at any moment.

Compaction, retention, flushes, checkpoints, opening, making and removing logs are begun, run in a
thread and ended. Between these, and within a compaction, other things happen: appends, truncation,
other configurations, and the partition is deleted and comes back. What must be so, also after a
crash anywhere:

- A log has nothing but records of its own topic id, each where it was written.
- Of each key that was not deleted it has the newest value, and all others too if it never was
  compacted. What was flushed is there.
- A partition that was deleted is gone, one that was made is there, under its own id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.types import TopicPartition, Uuid
from pyk.wire.batch import iterate_batches
from pyk.wire.records import Record, build_batch, read_records
from tests.simulated_disk import ROOT, SimulatedDisk

if TYPE_CHECKING:
    from pyk.disk import File
    from pyk.turns import Work

T = TypeVar("T")

KEYS = 4
NESTED_MAX = 2
"""How deep one thing may happen while another does."""
COMPACT = frozenset({CleanupPolicy.COMPACT})
DELETE = frozenset({CleanupPolicy.DELETE})

Written = tuple[bytes, bytes]
"""A key and its value."""


@dataclass
class Topic:
    """One incarnation of a partition, and what may be found of it."""

    topic_id: Uuid
    config: LogConfig
    written: dict[int, Written] = field(default_factory=dict)
    """By offset. What is truncated is not in it any more."""
    doubtful: dict[int, Written] = field(default_factory=dict)
    """What may be there or not: it is being written or truncated."""
    durable_end: int = 0
    start: int = 0
    """Where it begins at least."""
    start_max: int = 0
    """No record from here on may have been removed."""
    is_compacted: bool = False
    """Whether it ever was."""
    is_doubtful: bool = True
    """It is being made or deleted."""

    def check(self, log: Log) -> None:
        found = records_of(log)
        start, end = log.start_offset, log.end_offset
        assert self.start <= start <= self.start_max, f"it starts at {start}: {self}"
        known = {**self.doubtful, **self.written}
        for offset, record in found.items():
            assert known.get(offset) == record, f"{record} is at {offset} of {self}"
        lost = [offset for offset in self.written if end <= offset < self.durable_end]
        assert not lost, f"{lost} were flushed, and it ends at {end}"
        newest: dict[bytes, int] = {}
        for offset in sorted(self.written):
            if start <= offset < end:
                newest[self.written[offset][0]] = offset
        owed = newest.values() if self.is_compacted else self.written
        missing = [o for o in owed if start <= o < end and o not in found]
        # A value that was being written when it crashed may have taken the place of another.
        missing = [o for o in missing if not self._is_superseded(o, end)]
        assert not missing, f"{missing} are gone of {self}"

    def _is_superseded(self, offset: int, end: int) -> bool:
        key = self.written[offset][0]
        later = (o for o, record in self.doubtful.items() if offset < o < end and record[0] == key)
        return self.is_compacted and any(later)


Step: TypeAlias = "Callable[[Races, TopicPartition], None]"


class Races:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.fate = Random(~seed)
        self.now_ms = 1_000_000
        self.points = 0
        self.density = self.rng.choice((0.3, 0.03))
        self.partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
        self.topics: dict[TopicPartition, Topic] = {}
        self._nested = 0
        self._alone: set[Step] = set()
        self._count = 0
        self.disk = SimulatedDisk()
        self.directory = self._open(self.disk)
        self.disk.watch = self._crash_here

    def step(self) -> None:
        self.now_ms += self.rng.choice((0, 1, 5_000))
        partition = self.rng.choice(self.partitions)
        if partition in self.topics:
            if not self.directory.is_being_opened(partition):
                self.rng.choices(list(STEPS), list(STEPS.values()))[0](self, partition)
        else:
            self.create(partition)
        self._check_all(self.directory)

    # What happens

    def append(self, partition: TopicPartition) -> None:
        topic, log = self.topics[partition], self._log(partition)
        for _ in range(self.rng.choice((1, 1, 4))):
            self._count += 1
            key = b"k%d" % self.rng.randrange(KEYS)
            value = b"%d of %s" % (self._count, topic.topic_id.hex()[:8].encode())
            topic.doubtful = {log.end_offset: (key, value)}
            record = Record(0, self.now_ms, key, value + b"." * self.rng.choice((0, 90)))
            data = bytearray(build_batch([record]))
            added = log.append(data, leader_epoch=0, now_ms=self.now_ms)
            topic.written[added.base_offset] = key, value
            topic.doubtful = {}
            log.advance_high_watermark(added.base_offset + self.rng.choice((0, 1)))

    def flush(self, partition: TopicPartition) -> None:
        topic, log = self.topics[partition], self._log(partition)
        flush = log.begin_flush()
        self._meanwhile()
        with _unless_dropped(log):
            flush.run()
            log.end_flush(flush)
        if not log.is_dropped:
            topic.durable_end = max(topic.durable_end, log.flushed_end)

    def roll(self, partition: TopicPartition) -> None:
        self._log(partition).roll()

    def configure(self, partition: TopicPartition) -> None:
        topic = self.topics[partition]
        topic.config = self._log(partition).config = self._config()
        topic.is_compacted = topic.is_compacted or topic.config.is_compacted

    def truncate(self, partition: TopicPartition) -> None:
        topic, log = self.topics[partition], self._log(partition)
        offset = self.rng.randint(max(log.high_watermark, log.start_offset), log.end_offset)
        topic.durable_end = min(topic.durable_end, offset)
        topic.doubtful = {o: each for o, each in topic.written.items() if o >= offset}
        topic.written = {o: each for o, each in topic.written.items() if o < offset}
        self.directory.truncate(partition, offset)
        topic.doubtful = {}

    def clear(self, partition: TopicPartition) -> None:
        topic, log = self.topics[partition], self._log(partition)
        offset = log.end_offset + self.rng.choice((0, 10))
        topic.durable_end, topic.start_max = 0, offset
        topic.doubtful, topic.written = topic.written, {}
        self.directory.clear(partition, offset)
        topic.doubtful, topic.start = {}, offset

    def delete_records(self, partition: TopicPartition) -> None:
        topic, log = self.topics[partition], self._log(partition)
        offset = self.rng.randint(log.start_offset, max(log.high_watermark, log.start_offset))
        topic.start_max = max(topic.start_max, offset)
        self.directory.delete_records(partition, offset)
        topic.start = max(topic.start, offset)

    def retire(self, partition: TopicPartition) -> None:
        topic, log = self.topics[partition], self._log(partition)
        for _ in range(self.rng.choice((1, 2, 3))):
            if log.is_dropped:
                return
            if not topic.config.is_compacted:
                topic.start_max = max(topic.start_max, log.end_offset)
            retirement = log.begin_retirement(self.now_ms, at_most=self.rng.choice((None, 1)))
            self._meanwhile()
            if retirement is not None:
                retirement.run()
                self._meanwhile()
                log.end_retirement(retirement)
        self._meanwhile()
        with _unless_dropped(log):
            sweep = log.begin_sweep(self.now_ms)
            self._meanwhile()
            if sweep is not None:
                gone = sweep.run()
                self._meanwhile()
                log.end_sweep(gone)

    def compact(self, partition: TopicPartition) -> None:
        """As maintenance does it, which may hear too late that nobody wants it any more."""
        log = self._log(partition)
        compaction = log.begin_compaction(self.now_ms)
        if compaction is None:
            return
        result = None
        try:
            self._meanwhile()
            result = compaction.run(self._meanwhile)
            for each in result.rewritten:
                self._meanwhile()
                swap = log.begin_swap(compaction, each)
                self._meanwhile()
                if swap is not None:
                    swap.run()
                    self._meanwhile()
                    log.end_swap(compaction, swap)
                    self._meanwhile()
                    swap.run()
            result = result._replace(rewritten=[])
        except OSError:
            assert log.is_dropped or not log.is_worth(compaction), "a segment is gone"
            result = None
        finally:
            log.end_compaction(compaction, result)

    def checkpoint(self, partition: TopicPartition) -> None:
        if Races.checkpoint not in self._alone:
            with self._is_alone(Races.checkpoint):
                self._checkpoint()

    def _checkpoint(self) -> None:
        checkpoint = interrupted(self.directory.begin_checkpoint(), self._meanwhile)
        self._meanwhile()
        if checkpoint is not None:
            checkpoint.run()
            self._meanwhile()
            if self.directory.end_checkpoint(checkpoint):
                self._meanwhile()
                self.directory.sync_names()

    def create(self, partition: TopicPartition) -> None:
        if self.directory.is_being_opened(partition):
            return
        config = self._config()
        topic_id = Uuid(bytes(self.rng.randrange(256) for _ in range(16)))
        topic = Topic(topic_id, config, is_compacted=config.is_compacted)
        self.topics[partition] = topic
        creation = self.directory.begin_creation(partition, topic_id, config)
        self._meanwhile()
        outcome = creation.attempt()
        self._meanwhile()
        self.directory.sync_names()
        self.directory.end_creation(creation, outcome)
        topic.is_doubtful = False

    def delete(self, partition: TopicPartition) -> None:
        self._log(partition)
        self.topics[partition].is_doubtful = True
        self.directory.delete(partition)
        del self.topics[partition]
        if self.rng.random() < 0.7:
            self.create(partition)

    def remove(self, partition: TopicPartition) -> None:
        """The files of what was deleted."""
        if Races.remove not in self._alone:
            with self._is_alone(Races.remove):
                self._remove()

    def _remove(self) -> None:
        removal = self.directory.begin_removal(self.now_ms)
        self._meanwhile()
        if removal is not None:
            outcomes = removal.run()
            self._meanwhile()
            assert not self.directory.end_removal(outcomes)

    def restart(self, partition: TopicPartition) -> None:
        if self._nested:
            return
        self.directory.close()
        self.directory = self._open(self.disk)
        for each in self.topics.values():
            each.durable_end = max([*each.written, -1]) + 1

    @contextmanager
    def _is_alone(self, step: Step) -> Iterator[None]:
        """There is one task that does it."""
        self._alone.add(step)
        yield
        self._alone.discard(step)

    def _log(self, partition: TopicPartition) -> Log:
        """Opened, if it is dormant, while other things happen."""
        directory = self.directory
        if directory.may_open(partition):
            opening = directory.begin_opening(partition)
            self._meanwhile()
            outcome = opening.attempt(lambda _: self._meanwhile())
            directory.end_opening(opening, outcome)
        return directory.log(partition)

    def _meanwhile(self) -> None:
        if self._nested >= NESTED_MAX:
            return
        self._nested += 1
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            partition = self.rng.choice(self.partitions)
            if partition not in self.topics:
                self.create(partition)
            elif not self.directory.is_being_opened(partition):
                self.rng.choices(list(STEPS), list(STEPS.values()))[0](self, partition)
        self._nested -= 1

    # What must be so

    def _crash_here(self) -> None:
        if self.fate.random() > self.density:
            return
        self.disk.watch = None
        for copy in (self.disk.kill9(), self.disk.power(self.fate)):
            directory = self._open(copy)
            for partition in sorted(directory.partitions):
                if directory.may_open(partition):
                    directory.log(partition)
            self._check_all(directory)
            self.points += 1
        self.disk.watch = self._crash_here

    def _check_all(self, directory: DataDirectory) -> None:
        assert not directory.failed, f"a false alarm: {directory.failed}"
        there = {p for p in directory.logs if not directory.is_being_opened(p)}
        assert there <= self.topics.keys() | self._may_be_there(), "a log is there that was deleted"
        for partition, topic in self.topics.items():
            log = directory.logs.get(partition)
            if log is None:
                may_wake = directory.has(partition) or directory.is_being_opened(partition)
                assert topic.is_doubtful or may_wake, f"{partition} is gone"
            elif directory.topic_ids[partition] == topic.topic_id:
                topic.check(log)
            else:
                assert topic.is_doubtful, f"{partition} is another topic's"

    def _may_be_there(self) -> set[TopicPartition]:
        return {partition for partition, topic in self.topics.items() if topic.is_doubtful}

    def _open(self, disk: SimulatedDisk) -> DataDirectory:
        directory = DataDirectory.hold(disk, ROOT)
        directory.config_of = self._config_of
        directory.begin()
        for partition in directory.to_recover:
            opening = directory.begin_opening(partition)
            directory.end_opening(opening, opening.attempt())
        directory.end_recovery()
        return directory

    def _config_of(self, partition: TopicPartition, topic_id: Uuid) -> LogConfig:
        topic = self.topics.get(partition)
        return LogConfig() if topic is None else topic.config

    def _config(self) -> LogConfig:
        return LogConfig(
            segment_bytes=self.rng.choice((200, 500)),
            index_interval_bytes=1,
            cleanup_policy=self.rng.choice((COMPACT, COMPACT, DELETE)),
            retention_bytes=self.rng.choice((-1, 400)),
            retention_ms=-1,
            min_cleanable_dirty_ratio=0.0,
            delete_retention_ms=0,
            file_delete_delay_ms=self.rng.choice((0, 1_000)),
        )


STEPS: dict[Step, int] = {
    Races.append: 30,
    Races.compact: 10,
    Races.flush: 8,
    Races.retire: 6,
    Races.roll: 4,
    Races.checkpoint: 3,
    Races.delete: 3,
    Races.remove: 3,
    Races.configure: 2,
    Races.truncate: 2,
    Races.delete_records: 2,
    Races.clear: 1,
    Races.restart: 1,
}
"""What happens, and how often."""


@contextmanager
def _unless_dropped(log: Log) -> Iterator[None]:
    """It may fail if the partition was deleted meanwhile, and its directory removed."""
    try:
        yield
    except OSError:
        assert log.is_dropped


def interrupted(work: Work[T], meanwhile: Callable[[], None]) -> T:
    """What comes of work in turns, with other things happening between."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found
        meanwhile()


def records_of(log: Log) -> dict[int, Written]:
    """What readers are shown, by its offset."""
    found: dict[int, Written] = {}
    offset = log.start_offset
    while (piece := log.read(offset, 10**6, log.end_offset)) is not None:
        data = cast("File", piece.records.file).read(piece.records.position, piece.records.size)
        for position, header in iterate_batches(data, torn_tail_allowed=False):
            for record in read_records(data, position, header):
                assert record.key is not None
                assert record.value is not None
                found[record.offset] = record.key, record.value.rstrip(b".")
        offset = piece.end_offset
    return {each: found[each] for each in sorted(found) if each >= log.start_offset}


def crash_races(seed: int, steps: int = 60) -> int:
    """One workload with its crashes. How many there were. Raise AssertionError."""
    races = Races(seed)
    for _ in range(steps if races.density > 0.1 else 4 * steps):
        races.step()
    return races.points
