"""Flushes that serve many, and a disk that begins early."""

from __future__ import annotations

import errno
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from time import sleep

import pytest
import trio
import trio.testing

from pyk.disk import RealDisk, RealFile, SyncFailed
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.log.segment import WRITEBACK_BYTES
from pyk.offload import at_once
from pyk.replication.flushing import Flusher
from pyk.wire.records import Record, build_batch
from tests.faults.failing_disk import FailingDisk, Fault
from tests.handlers.turns import counting_turns
from tests.simulated_disk import ROOT, SimulatedDisk, SimulatedFile


def append(log: Log, size: int = 10) -> int:
    """Where the log ends then."""
    records = [Record(offset=0, timestamp=0, key=None, value=bytes(size))]
    return log.append(bytearray(build_batch(records)), leader_epoch=0, now_ms=0).last_offset + 1


class Gate:
    """Lets what is offloaded through when it is told to."""

    def __init__(self) -> None:
        self.runs = 0
        self.limit = trio.Semaphore(0)

    async def offload(self, run: Callable[[], None]) -> None:
        self.runs += 1
        await self.limit.acquire()
        run()


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return Log.open(disk, ROOT / "topic-0", LogConfig(flush_messages=1))


async def test_one_flush_serves_all_who_wait_when_it_begins(log: Log, disk: SimulatedDisk) -> None:
    gate = Gate()
    flusher = Flusher(gate.offload)
    answered: list[int] = []

    async def produce() -> None:
        end = append(log)
        await flusher.wait_durable(log, end)
        answered.append(end)

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(produce)
        await trio.testing.wait_all_tasks_blocked()
        late = append(log)
        assert (gate.runs, answered) == (1, [])
        gate.limit.release()
        await trio.testing.wait_all_tasks_blocked()
        # Whoever came first flushed for itself alone, and the others go together.
        assert (gate.runs, answered) == (2, [1])
        gate.limit.release()
    assert sorted(answered) == [1, 2, 3]
    assert gate.runs == 2
    assert log.flushed_end == late
    crashed = disk.synced()
    assert Log.open(crashed, log.directory, log.config, recovery_point=late).end_offset == late


async def test_what_is_durable_is_not_flushed_again(log: Log) -> None:
    gate = Gate()
    end = append(log)
    log.flush()
    await Flusher(gate.offload).wait_durable(log, end)
    assert gate.runs == 0


async def test_nobody_waits_for_what_was_truncated(log: Log) -> None:
    gate = Gate()
    flusher = Flusher(gate.offload)
    end = append(log)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.wait_durable, log, end)
        await trio.testing.wait_all_tasks_blocked()
        log.truncate(0)
        gate.limit.release()
        await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks
        nursery.cancel_scope.cancel()
    assert gate.runs == 1


async def test_one_who_gives_up_does_not_take_the_flush_along(log: Log) -> None:
    gate = Gate()
    flusher = Flusher(gate.offload)
    end = append(log)
    with trio.CancelScope() as impatient:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flusher.wait_durable, log, end)
            await trio.testing.wait_all_tasks_blocked()
            impatient.cancel()
    gate.limit.release()
    await flusher.wait_durable(log, end)
    assert log.flushed_end == end


async def test_a_full_disk_is_an_error_for_the_partition_and_passes(
    log: Log, disk: SimulatedDisk
) -> None:
    gate = Gate()
    flusher = Flusher(gate.offload)
    log.roll()
    end = append(log)
    append(log, size=5000)
    end = append(log)
    disk.capacity = 0
    gate.limit.release()
    with pytest.raises(KafkaError) as refused:
        await flusher.wait_durable(log, end)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    disk.capacity = None
    await flusher.wait_durable(log, end)
    assert log.flushed_end == end


async def test_a_failed_sync_is_the_end_for_all_who_wait(log: Log, disk: SimulatedDisk) -> None:
    gate = Gate()
    flusher = Flusher(gate.offload)
    end = append(log)
    ended: list[str] = []

    async def produce() -> None:
        with pytest.raises(SyncFailed):
            await flusher.wait_durable(log, end)
        ended.append("failed")

    disk.fail_syncs = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        nursery.start_soon(produce)
        await trio.testing.wait_all_tasks_blocked()
        gate.limit.release()
    assert ended == ["failed"] * 2
    assert gate.runs == 1, "a second sync would succeed without what the first one lost"
    assert log.flushed_end == 0


async def test_the_disk_begins_early_with_what_gathers(tmp_path: Path) -> None:
    log = Log.open(RealDisk(), tmp_path / "topic-0", LogConfig())
    gate = Gate()
    flusher = Flusher(gate.offload)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        append(log, size=WRITEBACK_BYTES // 2)
        flusher.note_append(log)
        await trio.testing.wait_all_tasks_blocked()
        assert gate.runs == 0
        append(log, size=WRITEBACK_BYTES // 2)
        flusher.note_append(log)
        flusher.note_append(log)
        await trio.testing.wait_all_tasks_blocked()
        assert gate.runs == 1
        gate.limit.release()
        await trio.testing.wait_all_tasks_blocked()
        flusher.note_append(log)
        await trio.testing.wait_all_tasks_blocked()
        assert gate.runs == 1
        nursery.cancel_scope.cancel()


async def test_a_log_is_flushed_by_time_and_again_if_the_disk_was_full(
    log: Log, disk: SimulatedDisk, autojump_clock: trio.testing.MockClock
) -> None:
    gate = Gate()
    gate.limit = trio.Semaphore(1000)
    flusher = Flusher(gate.offload)
    log.config = LogConfig(flush_ms=2000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        append(log)
        flusher.note_append(log)
        await trio.sleep(1.9)
        append(log)
        flusher.note_append(log)
        assert log.flushed_end == 0
        await trio.sleep(0.2)
        assert log.flushed_end == 2
        await trio.sleep(100)
        assert gate.runs == 1, "there is nothing to flush"
        log.roll()
        append(log)
        disk.capacity = 0
        flusher.note_append(log)
        await trio.sleep(3)
        assert log.flushed_end == 2
        disk.capacity = None
        await trio.sleep(2)
        assert log.flushed_end == 3
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("flush_ms", [0, 10])
async def test_a_disk_that_refuses_is_asked_now_and_then_and_that_is_told_once(
    log: Log,
    disk: SimulatedDisk,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    flush_ms: int,
) -> None:
    gate = Gate()
    gate.limit = trio.Semaphore(1000)
    flusher = Flusher(gate.offload)
    append(log)
    log.roll()
    append(log)
    disk.capacity, operations = 0, disk.operations
    log.config = LogConfig(flush_ms=flush_ms)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        flusher.note_append(log)
        await trio.sleep(20)
        assert caplog.text.count("cannot be flushed") == 1
        assert disk.operations - operations < 200
        disk.capacity = None
        await trio.sleep(2)
        assert log.flushed_end == 2
        log.roll()
        append(log)
        disk.capacity = 0
        flusher.note_append(log)
        await trio.sleep(2)
        assert caplog.text.count("cannot be flushed") == 2, "it had gone well meanwhile"
        nursery.cancel_scope.cancel()


async def test_in_threads_a_real_disk_is_flushed(tmp_path: Path) -> None:
    log = Log.open(RealDisk(), tmp_path / "topic-0", LogConfig())
    flusher = Flusher()
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(flusher.wait_durable, log, append(log))
    assert log.flushed_end == 20


async def test_a_full_segment_is_flushed_when_the_next_begins(disk: SimulatedDisk) -> None:
    log = Log.open(disk, ROOT / "topic-0", LogConfig(segment_bytes=300))
    flusher = Flusher(at_once)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        append(log, 200)
        flusher.note_append(log)
        await trio.testing.wait_all_tasks_blocked()
        assert log.flushed_end == 0, "nobody asked for it, and it is not full"
        append(log, 200)
        flusher.note_append(log)
        await trio.testing.wait_all_tasks_blocked()
        assert log.flushed_end >= log.rolled_end == 1
        append(log, 200)
        flusher.note_append(log)
        await trio.testing.wait_all_tasks_blocked()
        assert log.flushed_end >= log.rolled_end == 2
        nursery.cancel_scope.cancel()


async def test_the_flusher_keeps_no_log_that_is_gone(
    disk: SimulatedDisk, autojump_clock: trio.testing.MockClock
) -> None:
    """Its files would stay open, and the space on a full disk would not be free."""
    flusher = Flusher(at_once)

    async def fill(name: str, capacity: int | None) -> weakref.ref[Log]:
        log = Log.open(disk, ROOT / name, LogConfig(segment_bytes=300))
        for _ in range(3):
            append(log, 200)
        disk.capacity = capacity
        log.config = LogConfig(flush_ms=10)
        flusher.note_append(log)
        await trio.sleep(2)
        disk.capacity = None
        log.drop(log.directory)
        await trio.sleep(2)
        return weakref.ref(log)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        gone = [await fill("well-0", None), await fill("full-0", 0)]
        gc.collect()
        assert [each() for each in gone] == [None, None]
        nursery.cancel_scope.cancel()


async def test_a_full_segment_that_cannot_be_flushed_is_tried_again(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    log = Log.open(disk, ROOT / "topic-0", LogConfig(segment_bytes=300))
    is_full = True

    async def offload(run: Callable[[], None]) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, "no space left")
        run()

    flusher = Flusher(offload)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        for _ in range(3):
            append(log, 200)
            flusher.note_append(log)
            await trio.testing.wait_all_tasks_blocked()
        assert log.flushed_end == 0
        assert "topic-0 cannot be flushed for now" in caplog.text
        is_full = False
        append(log, 200)
        flusher.note_append(log)
        await trio.testing.wait_all_tasks_blocked()
        assert log.flushed_end >= log.rolled_end == 3
        nursery.cancel_scope.cancel()


async def test_segments_that_fill_while_one_is_flushed_are_flushed_too(disk: SimulatedDisk) -> None:
    log = Log.open(disk, ROOT / "topic-0", LogConfig(segment_bytes=200))
    gate = Gate()
    flusher = Flusher(gate.offload)

    def fill() -> None:
        for _ in range(5):
            append(log)
        flusher.note_append(log)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        fill()
        await trio.testing.wait_all_tasks_blocked()
        fill()
        for _ in range(5):
            gate.limit.release()
            await trio.testing.wait_all_tasks_blocked()
        assert not log.has_unflushed_segments
        nursery.cancel_scope.cancel()


class SlowDisk(RealDisk):
    """One that takes a while to open a file."""

    def open(self, path: Path, *, must_exist: bool = False) -> RealFile:
        sleep(0.001)
        return super().open(path, must_exist=must_exist)


async def test_others_have_their_turn_before_a_flush_of_many_segments(tmp_path: Path) -> None:
    log = Log.open(SlowDisk(), tmp_path / "topic-0", LogConfig(segment_bytes=200))
    for _ in range(50):
        append(log, 100)
    flusher = Flusher(at_once)
    async with counting_turns() as turns:
        await flusher.wait_durable(log, log.rolled_end)
        # Each of 50 segments has three files, so it is 30 turns at least.
        assert turns.count > 10
    assert not log.has_unflushed_segments


class CountingDisk(SimulatedDisk):
    """Counts what is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0

    def open(self, path: Path, *, must_exist: bool = False) -> SimulatedFile:
        self.opened += 1
        return super().open(path, must_exist=must_exist)


def test_a_flush_opens_no_index_that_was_written_in_turns_before() -> None:
    disk = CountingDisk()
    log = Log.open(disk, ROOT / "topic-0", LogConfig(segment_bytes=200))
    for _ in range(20):
        append(log, 100)
    for count, _ in enumerate(log.write_indexes()):
        if count < 5:
            append(log, 100)
    opened = disk.opened
    log.end_flush(log.begin_flush())
    assert disk.opened == opened


async def test_a_segment_that_is_removed_before_its_flush_stays_removed(
    disk: SimulatedDisk,
) -> None:
    log = Log.open(disk, ROOT / "topic-0", LogConfig(segment_bytes=200))
    for _ in range(4):
        append(log, 100)
    work = log.write_indexes()
    next(work)
    log.advance_high_watermark(4)
    log.advance_start(3)
    assert log.retire(now_ms=0)
    names = disk.names(log.directory)
    assert list(work) == [None] * 3
    left = {"00000000000000000003.index", "00000000000000000003.timeindex"}
    assert set(disk.names(log.directory)) - set(names) <= left


async def test_a_snapshot_that_a_roll_could_not_write_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FailingDisk()
    log = Log.open(disk, ROOT / "topic-0", LogConfig(segment_bytes=300))
    disk.plan = lambda each: Fault.EIO if each.path.suffix == ".snapshot" else None
    flusher = Flusher(at_once)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(flusher.run)
        for _ in range(2):
            append(log, 200)
            flusher.note_append(log)
            await trio.testing.wait_all_tasks_blocked()
        assert caplog.text.count("topic-0 lacks a snapshot of its producers: ") == 1
        nursery.cancel_scope.cancel()
