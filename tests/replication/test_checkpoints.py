"""One write of the checkpoints serves all who wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
import trio
import trio.testing

from pyk.errors import ErrorCode, KafkaError
from pyk.log.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    read_offsets,
)
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.replication.checkpoints import Checkpoints
from pyk.turns import at_once
from pyk.types import TopicPartition, Uuid
from tests.handlers.turns import counting_turns
from tests.log.test_log import add, batch
from tests.simulated_disk import ROOT, SimulatedDisk

T = TypeVar("T")

ID = Uuid(b"the topic's uuid")


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def directory(disk: SimulatedDisk) -> DataDirectory:
    directory = DataDirectory.open(disk, ROOT, lambda _: LogConfig())
    for number in range(50):
        log = directory.create(TopicPartition("t", number), ID, LogConfig())
        add(log, batch(1), batch(2))
        log.advance_high_watermark(2)
    return directory


async def test_starts_of_many_logs_are_written_together(
    disk: SimulatedDisk, directory: DataDirectory
) -> None:
    checkpoints, runs = Checkpoints(directory, counted := Counted()), 0
    await checkpoints.write()
    runs = counted.runs
    async with trio.open_nursery() as nursery:
        for log in directory.logs.values():
            log.advance_start(1)
            nursery.start_soon(checkpoints.write)
    assert counted.runs - runs <= 4
    starts = read_offsets(disk.synced(), ROOT / LOG_START_OFFSETS)
    assert starts == dict.fromkeys(directory.logs, 1)


async def test_what_happens_while_it_is_written_is_written_again(
    disk: SimulatedDisk, directory: DataDirectory
) -> None:
    log = directory.logs[TopicPartition("t", 0)]

    async def interfered(run: Callable[[], T], /) -> T:
        result = run()
        if log.start_offset < 2:
            log.advance_start(2)
            directory.truncate(TopicPartition("t", 1), 1)
        await trio.lowlevel.checkpoint()
        return result

    log.advance_start(1)
    await Checkpoints(directory, interfered).write()
    assert read_offsets(disk.synced(), ROOT / LOG_START_OFFSETS)[TopicPartition("t", 0)] >= 1
    await Checkpoints(directory, interfered).write()
    assert read_offsets(disk.synced(), ROOT / LOG_START_OFFSETS)[TopicPartition("t", 0)] == 2


async def test_many_logs_are_asked_in_turns(
    directory: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyk.turns.TURN_SECONDS", 0)
    async with counting_turns() as turns:
        await Checkpoints(directory, Counted()).write()
        assert turns.count >= len(directory.logs)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_what_goes_back_while_logs_are_asked_is_not_taken_for_what_was(
    disk: SimulatedDisk, directory: DataDirectory, is_deleted: bool
) -> None:
    partition = TopicPartition("t", 0)
    for log in directory.logs.values():
        log.flush()
    work = directory.begin_checkpoint()
    for _ in range(len(directory.logs) // 2):
        next(work)
    if is_deleted:
        directory.delete(partition)
        directory.create(partition, ID, LogConfig())
    else:
        directory.truncate(partition, 1)
    checkpoint = at_once(work)
    assert checkpoint is not None
    checkpoint.run()
    assert not directory.end_checkpoint(checkpoint)
    await Checkpoints(directory, Counted()).write()
    points = read_offsets(disk.synced(), ROOT / RECOVERY_POINTS)
    assert points == {**dict.fromkeys(directory.logs, 2), partition: 0 if is_deleted else 1}


async def test_a_log_that_is_opened_while_logs_are_asked_is_spoken_of(disk: SimulatedDisk) -> None:
    partition = TopicPartition("t", 0)
    directory = DataDirectory.open(disk, ROOT, lambda _: LogConfig())
    for number in range(3):
        log = directory.create(TopicPartition("t", number), ID, LogConfig())
        add(log, batch(1), batch(2))
        log.advance_high_watermark(2)
    directory.close()
    directory = DataDirectory.open(disk, ROOT, lambda _: LogConfig(), may_be_dormant=True)
    work = directory.begin_checkpoint()
    next(work)
    directory.log(TopicPartition("t", 2))
    directory.log(partition).advance_start(1)
    checkpoint = at_once(work)
    assert checkpoint is not None
    checkpoint.run()
    assert directory.end_checkpoint(checkpoint)
    ends = read_offsets(disk, ROOT / HIGH_WATERMARKS)
    assert ends == {TopicPartition("t", number): 2 for number in range(3)}


async def test_a_full_disk_is_told_and_the_next_write_is_as_good(
    disk: SimulatedDisk, directory: DataDirectory
) -> None:
    checkpoints = Checkpoints(directory, Counted())
    directory.logs[TopicPartition("t", 0)].advance_start(1)
    disk.capacity = disk.used
    with pytest.raises(KafkaError) as refused:
        await checkpoints.write()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.capacity = None
    await checkpoints.write()
    assert read_offsets(disk.synced(), ROOT / LOG_START_OFFSETS) == {TopicPartition("t", 0): 1}


class Counted:
    runs = 0

    async def __call__(self, run: Callable[[], T], /) -> T:
        self.runs += 1
        await trio.lowlevel.checkpoint()
        return run()
