"""Logs are recovered in threads after a crash, and the start can be interrupted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio

from pyk.config.settings import BrokerSettings
from pyk.disk import RealDisk
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.recovery import Recovery
from pyk.log.segments import CorruptLog
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.records import PartitionState
from pyk.offload import in_thread
from pyk.replication.recovery import recover_logs
from pyk.replication.topic_logs import TopicLogs
from pyk.types import TopicPartition, Uuid
from tests.log.test_log import add, batch

T = TypeVar("T")

ID = Uuid(b"the topic's uuid")
STATE = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
IMAGE = ClusterImage(topics={"t": Topic("t", ID, (STATE,) * 10, revision=1)})
PARTITIONS = [TopicPartition("t", number) for number in range(10)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A directory that was not closed."""
    directory = DataDirectory.open(RealDisk(), tmp_path, lambda _: LogConfig())
    for partition in PARTITIONS:
        add(directory.create(partition, ID, LogConfig()), *(batch(n) for n in range(20)))
    return tmp_path


def begun(path: Path) -> DataDirectory:
    directory = DataDirectory.hold(RealDisk(), path)
    directory.begin()
    return directory


def logs_of(directory: DataDirectory) -> TopicLogs:
    settings = BrokerSettings()
    return TopicLogs(directory, lambda _: settings.topic_config({}), IMAGE)


async def test_all_logs_are_recovered_and_counted(path: Path) -> None:
    crashed = begun(path)
    assert crashed.to_recover == PARTITIONS
    size = sum(crashed.size(partition) for partition in PARTITIONS)
    recovery = Recovery()
    await recover_logs(logs_of(crashed), 3, in_thread, recovery)
    assert crashed.to_recover == []
    assert [crashed.logs[partition].end_offset for partition in PARTITIONS] == [20] * 10
    assert recovery == Recovery(10, 10, size, size)


async def test_several_are_recovered_at_a_time(path: Path) -> None:
    at_a_time, most = 0, 0

    async def counted(run: Callable[[], T], /) -> T:
        nonlocal at_a_time, most
        at_a_time += 1
        most = max(most, at_a_time)
        try:
            await trio.lowlevel.checkpoint()
            return await in_thread(run)
        finally:
            at_a_time -= 1

    await recover_logs(logs_of(begun(path)), 3, counted, Recovery())
    assert most == 3


async def test_a_damaged_log_keeps_no_other_from_being_recovered(path: Path) -> None:
    crashed = begun(path)
    await recover_logs(logs_of(crashed), 2, in_thread, Recovery())
    crashed.checkpoint()
    crashed.let_go()
    with (path / "t-3" / f"{0:020}.log").open("r+b") as file:
        file.seek(100)
        file.write(b"rot")
    again = begun(path)
    await recover_logs(logs_of(again), 2, in_thread, Recovery())
    assert again.failed.keys() == {TopicPartition("t", 3)}
    assert isinstance(again.failed[TopicPartition("t", 3)], CorruptLog)
    assert len(again.logs) == 9
    again.close()
    last = begun(path)
    assert last.to_recover == [TopicPartition("t", 3)], "all others were closed"


async def test_a_start_that_is_interrupted_leaves_the_rest_to_the_next_one(
    path: Path,
) -> None:
    started, may_go_on = threading.Event(), threading.Event()
    count = 0

    def waits() -> None:
        nonlocal count
        count += 1
        if count == 5:
            started.set()
            may_go_on.wait(10)

    async def held(run: Callable[[], T], /) -> T:
        def held_run() -> T:
            waits()
            return run()

        return await in_thread(held_run)

    crashed = begun(path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(recover_logs, logs_of(crashed), 1, held, Recovery())
        await trio.to_thread.run_sync(started.wait, 10)
        nursery.cancel_scope.cancel()
        may_go_on.set()
    left = crashed.to_recover
    assert 0 < len(left) < 10
    crashed.let_go()
    again = begun(path)
    assert again.to_recover == PARTITIONS, "nothing says that it was closed"
    await recover_logs(logs_of(again), 1, in_thread, Recovery())
    assert [again.logs[partition].end_offset for partition in PARTITIONS] == [20] * 10
