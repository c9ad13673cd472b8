"""A disk that is full, or fails: what was answered stays, and what was refused left no trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyk.disk import SyncFailed
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.log.snapshots import encode_snapshot
from pyk.types import TopicPartition, Uuid
from tests.faults.failing_disk import FailingDisk, Fault, Operation
from tests.log.history import Batch, check_derived, headers_of
from tests.log.test_log import ANN, add, batch
from tests.simulated_disk import ROOT, SimulatedDisk

ONE = TopicPartition("orders", 0)
SMALL = LogConfig(segment_bytes=200, index_interval_bytes=1)
"""Two batches to a segment, and an index entry for the second of them."""
STEPS = ("append", "append", "append", "new epoch", "flush", "checkpoint", "roll")


def opened(disk: SimulatedDisk) -> DataDirectory:
    return DataDirectory.open(disk, ROOT, lambda topic: SMALL)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def directory(disk: SimulatedDisk) -> DataDirectory:
    directory = opened(disk)
    directory.create(ONE, Uuid(b"\1" * 16), SMALL)
    return directory


@pytest.fixture
def log(directory: DataDirectory) -> Log:
    return directory.logs[ONE]


def refused(log: Log, data: bytearray, epoch: int = 0) -> bool:
    """Whether the disk could not take it. Then the log is as it was."""
    known, found, end = encode_snapshot(log.producers), headers_of(log), log.end_offset
    try:
        log.append(data, leader_epoch=epoch, now_ms=0)
    except KafkaError as refusal:
        code = refusal.code
    else:
        return False
    assert code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (encode_snapshot(log.producers), headers_of(log), log.end_offset) == (known, found, end)
    return True


def test_a_full_disk_refuses_a_batch_and_later_takes_the_same(
    disk: SimulatedDisk, log: Log
) -> None:
    add(log, batch(producer_id=ANN, sequence=0))
    disk.capacity = disk.used + 30
    assert refused(log, batch(producer_id=ANN, sequence=1))
    disk.capacity = None
    assert not refused(log, batch(producer_id=ANN, sequence=1))
    assert add(log, batch(producer_id=ANN, sequence=1)).is_repeated
    assert headers_of(opened(disk.kill9()).logs[ONE]) == headers_of(log)


def test_a_full_disk_refuses_a_new_epoch(disk: SimulatedDisk, log: Log) -> None:
    add(log, batch())
    disk.capacity = disk.used + 3
    assert refused(log, batch(), epoch=1)
    assert [entry.epoch for entry in log.epochs.entries] == [0]
    disk.capacity = None
    assert not refused(log, batch(), epoch=1)
    assert [entry.start_offset for entry in log.epochs.entries] == [0, 1]


def test_a_full_disk_costs_a_snapshot_and_nothing_else(disk: SimulatedDisk, log: Log) -> None:
    add(log, batch(producer_id=ANN, sequence=0))
    disk.capacity = disk.used
    log.roll()
    disk.capacity = None
    add(log, batch(producer_id=ANN, sequence=1))
    again = opened(disk.kill9()).logs[ONE]
    assert list(again.producers) == list(log.producers)


def test_a_flush_that_the_disk_had_no_room_for_promises_nothing(
    disk: SimulatedDisk, log: Log
) -> None:
    add(log, *(batch() for _ in range(9)))
    disk.capacity = disk.used + 30
    with pytest.raises(OSError, match="No space left"):
        log.flush()
    assert log.flushed_end == 0
    disk.capacity = None
    log.flush()
    assert log.flushed_end == 9
    assert headers_of(opened(disk.synced()).logs[ONE]) == headers_of(log)


def test_a_checkpoint_that_the_disk_had_no_room_for_leaves_the_old_one(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    add(log, batch())
    log.flush()
    before = disk.contents()
    disk.capacity = disk.used + 3
    with pytest.raises(OSError, match="No space left"):
        directory.checkpoint()
    assert disk.contents() == before


def test_deleting_records_again_after_a_full_disk_is_durable(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    add(log, batch(), batch())
    log.advance_high_watermark(2)
    disk.capacity = disk.used
    with pytest.raises(KafkaError) as refusal:
        directory.delete_records(ONE, 1)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.capacity = None
    directory.delete_records(ONE, 1)
    assert opened(disk.kill9()).logs[ONE].start_offset == 1


def test_a_full_disk_is_not_closed_cleanly(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    add(log, batch())
    disk.capacity = disk.used
    with pytest.raises(OSError, match="No space left"):
        directory.close()
    disk.capacity = None
    again = opened(disk)
    assert not again.was_clean
    assert again.logs[ONE].end_offset == 1


def test_a_failed_sync_is_the_end(disk: SimulatedDisk, log: Log) -> None:
    add(log, batch())
    log.flush()
    add(log, batch())
    disk.fail_syncs = True
    with pytest.raises(SyncFailed) as failure:
        log.flush()
    assert not isinstance(failure.value, Exception)
    assert log.flushed_end == 1


@dataclass
class Writer:
    """Goes on whatever the disk says: what is refused comes again when there is room."""

    disk: SimulatedDisk = field(default_factory=SimulatedDisk)
    epoch: int = 0
    sequence: int = 0
    durable_end: int = 0
    answered: list[Batch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.directory = opened(self.disk)
        self.log = self.directory.create(ONE, Uuid(b"\1" * 16), SMALL)

    def step(self, what: str, room: int) -> None:
        self.disk.capacity = self.disk.used + room
        match what:
            case "append" | "new epoch":
                self.epoch += what == "new epoch"
                self.append()
            case "flush":
                self.flush()
            case "checkpoint":
                self.checkpoint()
            case "roll":
                self.log.roll()
        self.disk.capacity = None

    def append(self) -> None:
        data = batch(producer_id=ANN, sequence=self.sequence)
        if refused(self.log, data, self.epoch):
            self.disk.capacity = None
            assert not refused(self.log, data, self.epoch)
        self.sequence += 1
        self.answered.append(Batch(headers_of(self.log)[-1]))

    def flush(self) -> None:
        try:
            self.log.flush()
            self.durable_end = self.log.end_offset
        except OSError:
            assert self.log.flushed_end in (self.durable_end, self.log.end_offset)
            self.durable_end = self.log.flushed_end

    def checkpoint(self) -> None:
        try:
            self.directory.checkpoint()
        except OSError:
            assert not [path for path in self.disk.contents() if path.suffix == ".tmp"]


steps = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 400)), max_size=25)


@given(steps=steps, seed=st.integers(0, 2**32))
@example([*[("append", 400)] * 5, ("flush", 25), ("flush", 400)], 0)
def test_what_was_answered_on_a_full_disk_survives_a_crash(
    steps: list[tuple[str, int]], seed: int
) -> None:
    writer = Writer()
    for what, room in steps:
        writer.step(what, room)
    headers = [written.header for written in writer.answered]
    assert headers_of(writer.log) == headers
    check_derived(writer.log, writer.answered)
    killed = opened(writer.disk.kill9())
    assert not killed.failed
    assert headers_of(killed.logs[ONE]) == headers
    check_derived(killed.logs[ONE], writer.answered)
    for left in (writer.disk.synced(), writer.disk.power(Random(seed))):
        directory = opened(left)
        assert not directory.failed
        found = headers_of(directory.logs[ONE])
        assert found == headers[: len(found)]
        assert len(found) >= writer.durable_end
        check_derived(directory.logs[ONE], writer.answered[: len(found)])


class Untaken:
    """Half of a batch is written, and cannot be taken back for a while."""

    fails_to_truncate = False

    def __call__(self, operation: Operation) -> Fault | None:
        if not operation.path.name.endswith(".log"):
            return None
        if operation.kind == "append" and not self.fails_to_truncate:
            self.fails_to_truncate = True
            return Fault.SHORT
        return Fault.EIO if operation.kind == "truncate" and self.fails_to_truncate else None


@pytest.mark.parametrize("then", ["roll", "append", "close"])
def test_half_a_batch_that_could_not_be_taken_back_goes_before_anything_else(then: str) -> None:
    disk = FailingDisk()
    log = Log.open(disk, ROOT / "t-0", LogConfig())
    add(log, batch(1))
    disk.plan = Untaken()
    assert refused(log, batch(2))
    with pytest.raises((KafkaError, OSError)):
        _go_on(log, then)
    disk.plan = None
    _go_on(log, then)
    end = log.end_offset
    log.close()
    assert Log.open(disk, ROOT / "t-0", LogConfig()).end_offset == end
    log = Log.open(disk, ROOT / "t-0", LogConfig(), recovery_point=0)
    assert (log.end_offset, log.dropped_bytes) == (end, 0)


def _go_on(log: Log, then: str) -> None:
    if then == "roll":
        log.roll()
    elif then == "append":
        add(log, batch(3))
    else:
        log.close()


def test_a_snapshot_that_cannot_be_written_is_to_be_told_once() -> None:
    disk = FailingDisk()
    log = Log.open(disk, ROOT / "t-0", LogConfig())
    add(log, batch(producer_id=ANN, sequence=0))
    disk.plan = lambda each: Fault.EIO if each.path.suffix == ".snapshot" else None
    log.roll()
    assert isinstance(log.untold_failure(), OSError)
    assert log.untold_failure() is None
    assert not refused(log, batch(producer_id=ANN, sequence=1))
