"""What is done for logs now and then."""

from __future__ import annotations

import errno
import gc
import os
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from pyk.config.settings import BrokerSettings
from pyk.log.checkpoints import CLEANER_OFFSETS, RECOVERY_POINTS, read_offsets
from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.records import PartitionState
from pyk.offload import Elsewhere, at_once
from pyk.replication.topic_logs import TopicLogs
from pyk.replication.upkeep import Care, Upkeep, _run
from pyk.types import TopicPartition, Uuid
from tests.handlers.turns import counting_turns
from tests.log.test_aborted_segments import abort
from tests.log.test_log import add, batch
from tests.simulated_disk import ROOT, SimulatedDisk, SimulatedFile

T = TypeVar("T")

ID = Uuid(b"the topic's uuid")
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
STATE = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
IMAGE = ClusterImage(topics={"orders": Topic("orders", ID, (STATE, STATE), revision=1)})
CARE = Care(checkpoint_seconds=5, compaction_seconds=15, retention_seconds=60)
SMALL = LogConfig(segment_bytes=600, file_delete_delay_ms=0, retention_ms=100)
OF_TOPIC = {"file.delete.delay.ms": "0", "retention.ms": "100"}
NOW_MS = 1_000


class FailingDisk(SimulatedDisk):
    """Opens and renames of some files fail."""

    failing: Path | None = None

    def open(self, path: Path, *, must_exist: bool = False):  # type: ignore[no-untyped-def]
        self._check_path(path)
        return super().open(path, must_exist=must_exist)

    def rename(self, path: Path, to: Path) -> None:
        self._check_path(path)
        super().rename(path, to)

    unlisted: Path | None = None
    """Its names cannot be had."""

    def names(self, path: Path) -> list[str]:
        if path == self.unlisted:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return super().names(path)

    def _check_path(self, path: Path) -> None:
        if self.failing is not None and self.failing in path.parents:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


@pytest.fixture
def disk() -> FailingDisk:
    return FailingDisk()


def opened(disk: SimulatedDisk) -> DataDirectory:
    return DataDirectory.open(disk, ROOT / "data", lambda _: SMALL, may_be_dormant=True)


def filled(directory: DataDirectory, partition: TopicPartition = ONE) -> Log:
    log = directory.create(partition, ID, SMALL)
    add(log, *(batch(i) for i in range(40)))
    log.advance_high_watermark(40)
    log.flush()
    return log


@asynccontextmanager
async def kept(
    directory: DataDirectory,
    configs: dict[str, str] = OF_TOPIC,
    image: ClusterImage = IMAGE,
    offload: Elsewhere = at_once,
    now_ms: Callable[[], int] = lambda: NOW_MS,
) -> AsyncIterator[Upkeep]:
    settings = BrokerSettings()
    logs = TopicLogs(directory, lambda _: settings.topic_config(configs), image, offload)
    upkeep = Upkeep(logs, now_ms, lambda: CARE, offload)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(upkeep.run)
        yield upkeep
        nursery.cancel_scope.cancel()


async def test_logs_are_retired_compacted_and_checkpointed(
    disk: FailingDisk, autojump_clock: trio.testing.MockClock
) -> None:
    directory = opened(disk)
    async with kept(directory):
        log = filled(directory)
        await trio.sleep(CARE.checkpoint_seconds + 1)
        assert read_offsets(disk, directory.path / RECOVERY_POINTS) == {ONE: 40}

        compacted = frozenset({CleanupPolicy.COMPACT})
        log.config = replace(SMALL, cleanup_policy=compacted)
        size = log.size
        await trio.sleep(CARE.compaction_seconds)
        assert log.size < size
        assert log.cleaned_until > 0
        log.config = SMALL
        await trio.sleep(60)
        assert log.start_offset == 40
        names = disk.names(log.directory)
        assert not [name for name in names if name.endswith(".deleted")]


async def test_one_bad_log_keeps_no_other_from_retention(
    disk: FailingDisk, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    directory = opened(disk)
    bad, good = filled(directory), filled(directory, TWO)
    bad.release()
    disk.failing = bad.directory
    async with kept(directory) as upkeep:
        await trio.sleep(200)
        assert (bad.start_offset, good.start_offset) == (0, 40)
        assert upkeep.failures >= 3
        assert caplog.text.count("retention of orders-0 failed") == 1, "it is told once"
        disk.failing = None
        await trio.sleep(120)
        assert bad.start_offset == 40


async def test_damage_in_one_log_keeps_no_other_from_compaction(
    disk: FailingDisk, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    directory = opened(disk)
    bad, good = filled(directory), filled(directory, TWO)
    disk.flip_bit(bad.directory / f"{0:020}.log", 16, 3)
    for log in (bad, good):
        log.config = replace(SMALL, cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
    size = good.size
    async with kept(directory):
        await trio.sleep(40)
        assert good.size < size
    assert caplog.text.count("compaction of orders-0 failed: ") == 1
    assert "Traceback" not in caplog.text, "damage is no bug"


async def test_a_damaged_log_is_not_read_again_for_compaction_until_the_damage_may_be_gone(
    disk: FailingDisk, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    directory, runs = opened(disk), 0
    bad = filled(directory)
    disk.flip_bit(bad.directory / f"{0:020}.log", 16, 3)
    bad.config = replace(SMALL, cleanup_policy=frozenset({CleanupPolicy.COMPACT}))

    async def counted(run: Callable[[], T], /) -> T:
        nonlocal runs
        runs += isinstance(run, partial) and run.func is _run
        return await at_once(run)

    async with kept(directory, offload=counted) as upkeep:
        await trio.sleep(400)
        assert (runs, caplog.text.count("compaction of orders-0 failed")) == (1, 1)
        assert upkeep.failures > 20, "it is still counted"
        bad.advance_start(20)
        size = bad.size
        await trio.sleep(200)
        assert runs == 2
        assert bad.size < size
        assert bad.cleaned_until > 20


async def test_a_damaged_log_is_read_again_after_an_hour_and_goes_when_it_is_deleted(
    disk: FailingDisk, autojump_clock: trio.testing.MockClock
) -> None:
    """It may have been the disk, for a moment. And its files would stay open."""
    directory = opened(disk)
    bad = filled(directory)
    disk.flip_bit(bad.directory / f"{0:020}.log", 16, 3)
    bad.config = replace(SMALL, cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
    size, start = bad.size, trio.current_time()
    hours = lambda: NOW_MS + int((trio.current_time() - start) * 1000)  # noqa: E731
    async with kept(directory, now_ms=hours) as upkeep:
        await trio.sleep(60)
        assert upkeep.failures > 2
        disk.flip_bit(bad.directory / f"{0:020}.log", 16, 3)
        await trio.sleep(600)
        assert bad.size == size
        await trio.sleep(3600)
        assert bad.size < size
        disk.flip_bit(bad.directory / f"{0:020}.log", 16, 3)
        other = filled(directory, TWO)
        disk.flip_bit(other.directory / f"{0:020}.log", 16, 3)
        other.config = bad.config
        await trio.sleep(60)
        gone = weakref.ref(other)
        del other
        directory.delete(TWO)
        await trio.sleep(60)
        gc.collect()
        assert gone() is None


async def test_a_log_that_nobody_uses_is_retired(
    disk: FailingDisk, autojump_clock: trio.testing.MockClock
) -> None:
    directory = opened(disk)
    filled(directory)
    directory.create(TWO, ID, SMALL)
    directory.close()
    again = opened(disk)
    assert not again.logs
    async with kept(again):
        await trio.sleep(61)
        assert again.logs.keys() == {ONE}, "the other one has nothing to retire, and stays closed"
        assert again.logs[ONE].start_offset == 40


async def test_a_log_that_nobody_uses_is_compacted(
    disk: FailingDisk, autojump_clock: trio.testing.MockClock
) -> None:
    directory = opened(disk)
    size = filled(directory).size
    clean = directory.create(TWO, ID, SMALL)
    add(clean, batch(1))
    directory.close()
    again = opened(disk)
    configs = {**OF_TOPIC, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    async with kept(again, configs):
        await trio.sleep(16)
        assert again.logs.keys() == {ONE}
        assert again.logs[ONE].size < size
        await trio.sleep(6)
    assert read_offsets(disk, again.path / CLEANER_OFFSETS)[ONE] > 0


async def test_a_dormant_log_of_a_topic_that_nobody_knows_is_not_touched(
    disk: FailingDisk, autojump_clock: trio.testing.MockClock
) -> None:
    directory = opened(disk)
    filled(directory)
    directory.close()
    logs = {p: data for p, data in disk.contents().items() if p.suffix == ".log"}
    again = opened(disk)
    async with kept(again, image=ClusterImage()):
        await trio.sleep(200)
    assert disk.contents().items() >= logs.items()


async def test_a_compaction_ends_when_nobody_wants_it_any_more(disk: FailingDisk) -> None:
    asked: list[BaseException | None] = []

    async def until_interrupted(run: Callable[[], T], /) -> T:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            try:
                run()
            except BaseException as raised:
                asked.append(raised)

    directory = opened(disk)
    log = filled(directory)
    log.config = replace(SMALL, cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
    settings = BrokerSettings()
    logs = TopicLogs(directory, lambda _: settings.topic_config(OF_TOPIC), IMAGE, until_interrupted)
    upkeep = Upkeep(logs, lambda: NOW_MS, lambda: CARE, until_interrupted)
    with trio.move_on_after(0.05):
        await upkeep._compact(log)
    assert [type(each).__name__ for each in asked] == ["Interrupted"]
    assert not [name for name in disk.names(log.directory) if "cleaned" in name]
    assert log.begin_compaction(NOW_MS) is not None, "it can be done again"


async def test_a_stop_leaves_the_rest_of_a_compaction_to_the_next_one(disk: FailingDisk) -> None:
    left, operations = 2, 0

    async def until_stopped(run: Callable[[], T], /) -> T:
        nonlocal left, operations
        result = run()
        left -= 1
        if left == 0:
            operations = disk.operations
            scope.cancel()
        await trio.lowlevel.checkpoint()
        return result

    directory = opened(disk)
    log = filled(directory)
    config = replace(SMALL, min_cleanable_dirty_ratio=0)
    log.config = replace(config, cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
    settings = BrokerSettings()
    logs = TopicLogs(directory, lambda _: settings.topic_config(OF_TOPIC), IMAGE, until_stopped)
    upkeep = Upkeep(logs, lambda: NOW_MS, lambda: CARE, until_stopped)
    before = log.size
    with trio.CancelScope() as scope:
        await upkeep._compact(log)
    assert scope.cancelled_caught
    assert disk.operations == operations, "nothing more is done here"
    await upkeep._compact(log)
    assert log.size < before
    names = disk.names(log.directory)
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]


async def test_a_log_that_cannot_be_looked_at_keeps_no_other_from_compaction(
    disk: FailingDisk, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    directory = opened(disk)
    for partition in (ONE, TWO):
        filled(directory, partition)
    directory.close()
    again = opened(disk)
    disk.unlisted = again.path / "orders-0"
    configs = {**OF_TOPIC, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    async with kept(again, configs):
        await trio.sleep(40)
        assert again.logs[TWO].cleaned_until > 0
    assert "the log of orders-0 cannot be opened" in caplog.text


async def test_a_log_that_is_opened_while_others_are_looked_at_ends_no_pass(
    disk: FailingDisk,
) -> None:
    directory = opened(disk)
    numbers = range(150)
    image = ClusterImage(topics={"orders": Topic("orders", ID, (STATE,) * 150, revision=1)})
    for number in numbers:
        directory.create(TopicPartition("orders", number), ID, SMALL)
    directory.close()
    again = opened(disk)
    last = TopicPartition("orders", 149)

    async def interfered(run: Callable[[], T], /) -> T:
        await trio.lowlevel.checkpoint()
        if again.may_open(last):
            again.log(last)
        return run()

    async with kept(again, image=image, offload=interfered) as upkeep:
        await upkeep._retire_all()
        assert upkeep.failures == 0


@pytest.mark.parametrize("policy", ["delete", "compact"])
async def test_what_maintenance_does_is_made_durable_elsewhere(
    disk: FailingDisk, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    directory, elsewhere, here = opened(disk), False, 0

    async def offload(run: Callable[[], T], /) -> T:
        nonlocal elsewhere
        await trio.lowlevel.checkpoint()
        elsewhere = True
        try:
            return run()
        finally:
            elsewhere = False

    def sync_directory(path: Path) -> None:
        nonlocal here
        here += not elsewhere
        SimulatedDisk.sync_directory(disk, path)

    log = filled(directory)
    count = len(disk.names(log.directory))
    async with kept(directory, offload=offload) as upkeep:
        monkeypatch.setattr(disk, "sync_directory", sync_directory)
        if policy == "delete":
            await upkeep._retire_all()
        else:
            config = replace(SMALL, min_cleanable_dirty_ratio=0)
            log.config = replace(config, cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
            await upkeep._compact(log)
    assert upkeep.failures == 0
    names = disk.synced().names(log.directory)
    if policy == "delete":
        assert log.start_offset > 0
        assert len(names) < count
    else:
        assert log.cleaned_until > 0
        assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    assert here == 0


async def test_a_log_says_where_it_starts_until_its_old_segments_are_gone_for_good(
    disk: FailingDisk,
) -> None:
    directory = opened(disk)
    log = filled(directory)
    log.advance_start(log.segment_offset(20))
    assert log.starts_inside_a_segment
    retirement = log.begin_retirement(0)
    assert retirement is not None
    directory.checkpoint()
    for crashed in (disk.synced(), disk.kill9()):
        assert opened(crashed).log(ONE).start_offset == log.start_offset
    retirement.run()
    log.end_retirement(retirement)
    assert not log.starts_inside_a_segment
    directory.checkpoint()
    assert opened(disk.synced()).log(ONE).start_offset == log.start_offset


async def test_segments_that_stay_for_lack_of_a_snapshot_are_told(
    disk: FailingDisk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = opened(disk)
    filled(directory)
    directory.close()
    directory = opened(disk)
    log = directory.log(ONE)
    log.advance_start(log.segment_offset(20))
    open_file: Callable[..., SimulatedFile] = disk.open

    def refuse(path: Path, *, must_exist: bool = False) -> SimulatedFile:
        if path.suffix == ".snapshot":
            raise OSError(errno.EMFILE, "too many open files")
        return open_file(path, must_exist=must_exist)

    async with kept(directory) as upkeep:
        with monkeypatch.context() as patch:
            patch.setattr(disk, "open", refuse)
            await upkeep._retire_all()
            await upkeep._retire_all()
        assert log.starts_inside_a_segment
        assert upkeep.failures == 2
        assert caplog.text.count("too many open files") == 1
        await upkeep._retire_all()
    assert not log.starts_inside_a_segment


async def test_what_was_aborted_is_read_in_turns_before_a_compaction(
    disk: FailingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = opened(disk)
    log = directory.create(ONE, ID, SMALL)
    for sequence in range(9):
        abort(log, sequence)
        log.roll()
    log.advance_high_watermark(log.end_offset)
    directory.close()
    directory = opened(disk)
    log = directory.log(ONE)
    config = replace(SMALL, min_cleanable_dirty_ratio=0)
    log.config = replace(config, cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
    read: list[int] = []
    async with counting_turns() as turns:

        def note_turn(path: Path) -> bytes:
            if path.suffix == ".txnindex":
                read.append(turns.count)
            return SimulatedDisk.read(disk, path)

        monkeypatch.setattr("pyk.turns.TURN_SECONDS", 0)
        monkeypatch.setattr(disk, "read", note_turn)
        async with kept(directory) as upkeep:
            await upkeep._compact(log)
    assert len(read) == 9
    assert len(set(read)) > 4
