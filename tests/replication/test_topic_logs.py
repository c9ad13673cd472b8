"""The logs of topics: made and opened before they are needed, deleted when topics go."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from pyk.config.settings import BrokerSettings
from pyk.config.topic import TopicConfig
from pyk.errors import ErrorCode, KafkaError
from pyk.log.checkpoints import PARTITION_METADATA
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.offset_checkpoints import Checkpoint
from pyk.log.recovery import Recovery
from pyk.metadata.image import ClusterImage, Configured, Topic
from pyk.metadata.records import PartitionState
from pyk.offload import Elsewhere
from pyk.offload import at_once as at_once_elsewhere
from pyk.replication.flushing import Flusher
from pyk.replication.recovery import recover_logs
from pyk.replication.replicas import Replicas
from pyk.replication.topic_logs import _ENSURED_AT_ONCE, TopicLogs
from pyk.turns import at_once
from pyk.types import TopicPartition, Uuid
from tests.log.test_log import add, batch
from tests.simulated_disk import ROOT, SimulatedDisk

T = TypeVar("T")

ID, OTHER_ID = Uuid(b"the first topic."), Uuid(b"the second topic")
STATE = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=3)


def topic(partitions: int, topic_id: Uuid = ID) -> Topic:
    return Topic("orders", topic_id, (STATE,) * partitions, revision=1)


def image(*topics: Topic) -> ClusterImage:
    return ClusterImage(topics={each.name: each for each in topics})


class CountingDisk(SimulatedDisk):
    data_directory_syncs = 0
    renames_that_fail = 0

    def __init__(self) -> None:
        super().__init__()
        self.files_replaced: list[str] = []

    def replace(self, path: Path, data: bytes) -> None:
        self.files_replaced.append(path.name)
        super().replace(path, data)

    def sync_directory(self, path: Path) -> None:
        self.data_directory_syncs += path == ROOT / "data"
        super().sync_directory(path)

    def rename(self, path: Path, to: Path) -> None:
        if self.renames_that_fail:
            self.renames_that_fail -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        super().rename(path, to)


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


def opened(
    disk: SimulatedDisk,
    of: Topic,
    offload: Elsewhere = at_once_elsewhere,
    newest: Callable[[], ClusterImage] | None = None,
    configs: dict[str, str] | None = None,
) -> TopicLogs:
    directory = DataDirectory.open(disk, ROOT / "data", lambda _: LogConfig(), may_be_dormant=True)
    settings = BrokerSettings()
    configs = configs or {}
    return TopicLogs(
        directory, lambda _: settings.topic_config(configs), image(of), offload, newest
    )


def every(of: Topic) -> list[tuple[Topic, TopicPartition]]:
    return [(of, TopicPartition(of.name, number)) for number in range(len(of.partitions))]


async def test_many_logs_are_made_with_one_sync_of_their_names(disk: CountingDisk) -> None:
    of = topic(100)
    logs = opened(disk, of)
    syncs = disk.data_directory_syncs
    await logs.ensure(every(of))
    assert disk.data_directory_syncs == syncs + 1
    assert len(logs.directory.logs) == 100
    again = opened(disk.synced(), of)
    assert not again.directory.failed
    assert len(again.directory.partitions) == 100
    operations = disk.operations
    for _, partition in every(of):
        logs.get_or_create(of, partition)
    assert disk.operations == operations, "nothing is left to be done when they are needed"


async def test_the_epoch_of_a_log_is_on_the_disk_before_anything_is_appended(
    disk: CountingDisk,
) -> None:
    """As in Kafka. To write it for the first batch would keep everybody waiting for the disk."""
    of = topic(3)
    logs = opened(disk, of)
    await logs.ensure(every(of))
    disk.files_replaced.clear()
    for log in logs.directory.logs.values():
        assert log.epochs.entries == [(STATE.leader_epoch, 0)]
        add(log, batch(1), epoch=STATE.leader_epoch)
        log.flush()
    assert disk.files_replaced == []
    again = opened(disk.synced(), of)
    await again.ensure(every(of))
    for log in again.directory.logs.values():
        assert (log.epochs.entries, log.end_offset) == ([(STATE.leader_epoch, 0)], 1)


async def test_many_logs_are_begun_and_entered_in_turns(
    disk: CountingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyk.turns.TURN_SECONDS", 0)
    of, gate = topic(100), Gate(is_before=True)
    logs = opened(disk, of, gate)
    directory = logs.directory

    def count(is_so: Callable[[TopicPartition], bool]) -> int:
        return sum(is_so(partition) for _, partition in every(of))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.ensure, every(of))
        seen = set()
        while (begun := count(directory.is_being_opened)) < 100:
            seen.add(begun)
            await trio.lowlevel.checkpoint()
        assert len(seen) > 25
        gate.opened.set()
        seen.clear()
        while (entered := count(directory.has)) < 100:
            seen.add(entered)
            await trio.lowlevel.checkpoint()
        assert len(seen) > 25


async def test_logs_that_were_begun_are_free_again_when_nobody_wants_them(
    disk: CountingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyk.turns.TURN_SECONDS", 0)
    of = topic(100)
    logs = opened(disk, of)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(logs.ensure, every(of))
            while not any(logs.directory.is_being_opened(p) for _, p in every(of)):
                await trio.lowlevel.checkpoint()
            scope.cancel()
    assert not any(logs.directory.is_being_opened(p) for _, p in every(of))
    await logs.ensure(every(of))
    assert len(logs.directory.logs) == 100


async def test_those_who_need_some_of_the_same_logs_begin_each_with_others(
    disk: CountingDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyk.turns.TURN_SECONDS", 0)
    of, gate = topic(100), Gate(is_before=True)
    logs, had = opened(disk, of, gate), []

    async def ensure(wanted: list[tuple[Topic, TopicPartition]]) -> None:
        await logs.ensure(wanted)
        had.append(all(partition in logs.directory.logs for _, partition in wanted))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ensure, every(of))
        while not logs.directory.is_being_opened(every(of)[0][1]):
            await trio.lowlevel.checkpoint()
        nursery.start_soon(ensure, every(of)[60:])
        await trio.testing.wait_all_tasks_blocked()
        assert had == []
        gate.opened.set()
    assert had == [True, True]


async def test_those_who_need_the_same_logs_wait_for_each_other(disk: CountingDisk) -> None:
    of = topic(20)
    logs = opened(disk, of)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(logs.ensure, every(of))
    assert len(logs.directory.logs) == 20


async def test_dormant_logs_are_opened_and_new_ones_made(disk: CountingDisk) -> None:
    of = topic(4)
    logs = opened(disk, of)
    await logs.ensure(every(of)[:2])
    add(logs.directory.logs[TopicPartition("orders", 1)], batch(1), batch(2))
    logs.directory.close()
    logs = opened(disk, of)
    assert not logs.directory.logs
    await logs.ensure(every(of))
    assert [logs.directory.logs[p].end_offset for _, p in every(of)] == [0, 2, 0, 0]


async def test_others_have_a_turn_while_many_dormant_logs_are_begun_with(
    disk: CountingDisk,
) -> None:
    of = topic(3 * _ENSURED_AT_ONCE)
    logs = opened(disk, of)
    await logs.ensure(every(of))
    logs.directory.close()
    logs = opened(disk, of)
    begun, most = 0, 0

    async def watch() -> None:
        nonlocal begun, most
        while len(logs.directory.logs) < len(of.partitions):
            now = len(logs.directory.logs) + len(logs.directory._opening)
            begun, most = now, max(most, now - begun)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        nursery.start_soon(logs.ensure, every(of))
    assert 0 < most <= _ENSURED_AT_ONCE


async def test_a_topic_is_asked_once_what_its_many_logs_are_to_do(disk: CountingDisk) -> None:
    of, configs = topic(100), {"retention.ms": "1000"}
    logs = opened(disk, of, configs=configs)
    replicas = Replicas(1, logs, Flusher(), logs._config_of)
    await replicas.ensure_logs((of, number) for number in range(100))
    for number in range(100):
        replicas.leader_of(of, number)
    asked, config_of = 0, logs._config_of

    def counted(name: str) -> TopicConfig:
        nonlocal asked
        asked += 1
        return config_of(name)

    logs._config_of = replicas._config_of = counted
    replicas.on_image(image(of))
    at_once(replicas.configure())
    asked = 0
    replicas.on_image(image(of))
    at_once(replicas.configure())
    assert asked == 1, "these are the defaults"
    configs["retention.ms"] = "2000"
    configs["min.insync.replicas"] = "2"
    asked = 0
    replicas.on_image(image(of))
    at_once(replicas.configure())
    assert asked == 2
    assert {log.config.retention_ms for log in logs.directory.logs.values()} == {2000}
    assert {partition.min_insync_replicas for partition in replicas} == {2}


async def test_what_the_disk_refuses_can_be_had_later(disk: CountingDisk) -> None:
    of = topic(3)
    logs = opened(disk, of)
    disk.capacity = disk.used
    await logs.ensure(every(of))
    assert not logs.directory.logs
    with pytest.raises(KafkaError) as refused:
        logs.get_or_create(of, TopicPartition("orders", 0))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    disk.capacity = None
    await logs.ensure(every(of))
    assert len(logs.directory.logs) == 3


async def test_a_topic_that_goes_while_its_logs_are_made_takes_them_along(
    disk: CountingDisk,
) -> None:
    of = topic(3)
    may_go_on = trio.Event()

    async def held(run: Callable[[], T], /) -> T:
        result = run()
        await may_go_on.wait()
        return result

    logs = opened(disk, of, held)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.ensure, every(of))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(KafkaError):
            logs.get_or_create(of, TopicPartition("orders", 0))
        logs.on_image(image())
        nursery.start_soon(logs.delete_those_due)
        await trio.testing.wait_all_tasks_blocked()
        may_go_on.set()
    assert not logs.directory.partitions
    assert len(disk.directories()) == 1 + 3
    logs.directory.sweep(0)
    logs.directory.sweep(10**12)
    assert len(disk.directories()) == 1


async def test_a_topic_made_anew_in_between_two_images_begins_empty(disk: CountingDisk) -> None:
    of, anew = topic(2), topic(2, OTHER_ID)
    logs = opened(disk, of)
    await logs.ensure(every(of))
    add(logs.directory.logs[TopicPartition("orders", 1)], batch(1))
    logs.on_image(image(anew))
    await logs.ensure(every(anew))
    await logs.delete_those_due()
    assert [logs.directory.logs[p].end_offset for _, p in every(anew)] == [0, 0]
    assert not [path for path in disk.directories() if path.name.endswith("-stray")]


async def test_a_topic_that_came_and_went_in_between_two_images_takes_its_logs_along(
    disk: CountingDisk,
) -> None:
    """Also the partitions that it was given after the last image."""
    seen, short = topic(1), Topic("short", OTHER_ID, (STATE,) * 3, revision=2)
    images = [image(seen)]
    logs = opened(disk, seen, newest=lambda: images[-1])
    wider = Topic("orders", ID, (STATE,) * 3, revision=2)
    images.append(ClusterImage(topics={"orders": wider, "short": short}, revision=2))
    await logs.ensure([*every(wider), *every(short)])
    logs.on_image(ClusterImage(topics={"orders": seen}, revision=1))
    await logs.delete_those_due()
    assert len(logs.directory.logs) == 6, "the image is older than they are"
    images.append(ClusterImage(revision=3))
    logs.on_image(images[-1])
    await logs.delete_those_due()
    assert not logs.directory.partitions
    logs.directory.close()
    assert not [path for path in disk.directories() if path.name.endswith("-stray")]


async def test_a_topic_that_is_seen_after_its_logs_were_made_keeps_them(
    disk: CountingDisk,
) -> None:
    of = Topic("orders", ID, (STATE,) * 3, revision=2)
    logs = opened(disk, topic(1, OTHER_ID), newest=lambda: ClusterImage(topics={"orders": of}))
    await logs.ensure(every(of))
    logs.on_image(ClusterImage(topics={"orders": of}, revision=2))
    logs.on_image(ClusterImage(topics={"orders": of}, revision=3))
    await logs.delete_those_due()
    assert len(logs.directory.logs) == 3


async def test_many_logs_are_deleted_in_turns(disk: CountingDisk) -> None:
    of = topic(100)
    logs = opened(disk, of)
    await logs.ensure(every(of))
    logs.on_image(image())
    left: list[int] = []

    async def look() -> None:
        while logs.directory.partitions:
            left.append(len(logs.directory.partitions))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.delete_those_due)
        nursery.start_soon(look)
    assert len(left) > 3


async def test_that_logs_are_deleted_is_made_durable_elsewhere(disk: CountingDisk) -> None:
    of = topic(3)
    elsewhere: list[int] = []

    async def offload(run: Callable[[], T], /) -> T:
        # The files may not go before: logs without them would come back.
        await trio.lowlevel.checkpoint()
        before = disk.data_directory_syncs
        logs.directory.sweep(0)
        logs.directory.sweep(10**12)
        result = run()
        elsewhere.append(disk.data_directory_syncs - before)
        return result

    logs = opened(disk, of, offload)
    await logs.ensure(every(of))
    logs.on_image(image())
    elsewhere, syncs = [], disk.data_directory_syncs
    kept = [path for path in disk.contents() if path.suffix == ".log"]
    disk.watch = lambda: check_whole(disk.synced(), of)
    await logs.delete_those_due()
    disk.watch = None
    assert sum(elsewhere) == disk.data_directory_syncs - syncs == 1
    assert len([path for path in disk.contents() if path.suffix == ".log"]) == len(kept) == 3
    logs.directory.sweep(0)
    logs.directory.sweep(10**12)
    assert not [path for path in disk.contents() if path.suffix == ".log"]


def check_whole(disk: SimulatedDisk, of: Topic) -> None:
    """All logs are there, or none is."""
    directory = DataDirectory.open(disk, ROOT / "data", lambda _: LogConfig())
    assert not directory.failed
    assert len(directory.logs) in (0, len(of.partitions))


async def test_a_stop_deletes_what_is_being_deleted(disk: CountingDisk) -> None:
    of = topic(100)
    logs = opened(disk, of)
    await logs.ensure(every(of))
    logs.on_image(image())
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(logs.delete_those_due)
    assert logs.directory.partitions == set()
    assert not opened(disk.synced(), of).directory.partitions


async def test_deleting_goes_on_when_the_disk_takes_it_again(
    disk: CountingDisk, autojump_clock: trio.testing.MockClock
) -> None:
    of = topic(3)
    logs = opened(disk, of)
    await logs.ensure(every(of))
    disk.renames_that_fail = 2
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.delete_logs)
        logs.on_image(image())
        await trio.sleep(60)
        nursery.cancel_scope.cancel()
    assert not logs.directory.partitions


class Gate:
    """Threads wait here, before or after they have done their work."""

    def __init__(self, *, is_before: bool) -> None:
        self.opened = trio.Event()
        self._is_before = is_before

    async def __call__(self, run: Callable[[], T], /) -> T:
        if self._is_before:
            await self.opened.wait()
        result = run()
        await self.opened.wait()
        return result


@pytest.mark.parametrize("is_before", [False, True])
async def test_a_topic_that_goes_before_its_log_is_made_takes_it_along(
    disk: CountingDisk, is_before: bool
) -> None:
    of, gate = topic(1), Gate(is_before=is_before)
    logs = opened(disk, of, gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.ensure, every(of))
        await trio.testing.wait_all_tasks_blocked()
        logs.on_image(image())
        nursery.start_soon(logs.delete_those_due)
        await trio.testing.wait_all_tasks_blocked()
        gate.opened.set()
    assert not logs.directory.partitions
    assert len(disk.directories()) == 2
    assert disk.directories()[1].name.endswith("-delete")


@pytest.mark.parametrize("attempt", range(8), ids=str)
async def test_who_has_waited_with_a_topic_of_the_past_leaves_the_new_one_alone(
    disk: CountingDisk, attempt: int
) -> None:
    old, new, gate = topic(1), topic(1, OTHER_ID), Gate(is_before=False)
    newest = image(old)
    logs = opened(disk, old, gate, lambda: newest)
    partition = TopicPartition("orders", 0)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(logs.ensure, every(old))
        await trio.testing.wait_all_tasks_blocked()
        newest = image(new)
        logs.on_image(newest)
        nursery.start_soon(logs.ensure, every(new))
        await trio.testing.wait_all_tasks_blocked()
        gate.opened.set()
    log = logs.get_or_create(new, partition)
    add(log, batch(1))
    with pytest.raises(KafkaError) as refused:
        logs.get_or_create(old, partition)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await logs.ensure(every(old))
    assert logs.get_or_create(new, partition) is log
    assert not log.is_dropped
    assert log.end_offset == 1


async def test_a_log_that_a_thread_has_is_led_here_soon(disk: CountingDisk) -> None:
    """Clients ask again then. Another code would have them give up."""
    of, gate = topic(2), Gate(is_before=False)
    logs = opened(disk, of)
    await logs.ensure(every(of)[:1])
    logs.directory.close()
    logs = opened(disk, of, gate)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.ensure, every(of))
        await trio.testing.wait_all_tasks_blocked()
        for _, partition in every(of):
            with pytest.raises(KafkaError) as refused:
                logs.get_or_create(of, partition)
            assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        gate.opened.set()


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_configuration_that_changes_while_a_thread_has_the_log_holds(
    disk: CountingDisk, is_there: bool
) -> None:
    of, gate, configs = topic(1), Gate(is_before=False), {"retention.ms": "1000"}
    if is_there:
        logs = opened(disk, of)
        await logs.ensure(every(of))
        logs.directory.close()
    logs = opened(disk, of, gate, configs=configs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.ensure, every(of))
        await trio.testing.wait_all_tasks_blocked()
        configs["retention.ms"] = "-1"
        logs.on_image(replace(image(of), configured={"topics": Configured()}))
        gate.opened.set()
    [log] = logs.directory.logs.values()
    assert log.config.retention_ms == -1


async def test_a_bug_in_opening_one_log_is_told_and_the_others_are_opened(
    disk: CountingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    of = topic(3)
    logs = opened(disk, of)
    await logs.ensure(every(of))
    logs.directory.close()
    logs = opened(disk, of)

    def config_of(partition: TopicPartition, topic_id: Uuid) -> LogConfig | None:
        if partition.partition == 1:
            raise ZeroDivisionError("a bug")
        return LogConfig()

    logs.directory.config_of = config_of
    with trio.fail_after(5):
        await logs.ensure(every(of))
        await logs.ensure(every(of))
    assert logs.directory.logs.keys() == {TopicPartition("orders", n) for n in (0, 2)}
    assert "the log of orders-1 cannot be opened: a bug" in caplog.text
    assert "ZeroDivisionError" in caplog.text
    with pytest.raises(KafkaError):
        logs.get_or_create(of, TopicPartition("orders", 1))


async def test_one_topic_whose_logs_cannot_be_deleted_keeps_no_other(disk: CountingDisk) -> None:
    first, second = topic(1), Topic("other", OTHER_ID, (STATE,), revision=1)
    logs = opened(disk, first)
    logs.on_image(image(first, second))
    await logs.ensure([(first, TopicPartition("orders", 0)), (second, TopicPartition("other", 0))])
    logs.on_image(image())
    disk.renames_that_fail = 1
    with pytest.raises(OSError, match="Input/output"):
        await logs.delete_those_due()
    assert len(logs.directory.partitions) == 1
    await logs.delete_those_due()
    assert not logs.directory.partitions


async def test_what_recovery_cuts_off_is_told(
    disk: CountingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    of = topic(2)
    logs = opened(disk, of)
    await logs.ensure(every(of))
    for log in logs.directory.logs.values():
        add(log, batch(1), batch(2))
    killed = disk.kill9()
    path = ROOT / "data" / "orders-1" / f"{0:020}.log"
    killed.flip_bit(path, killed.size(path) - 1, 0)
    again = TopicLogs(DataDirectory.hold(killed, ROOT / "data"), logs._config_of, image(of))
    again.directory.begin()
    await recover_logs(again, 1, at_once_elsewhere, Recovery())
    assert caplog.text.count("bytes were cut off the end of orders-1") == 1
    assert "orders-0" not in caplog.text


async def test_a_log_made_anew_has_nothing_of_the_checkpoints_of_the_one_before(
    disk: CountingDisk,
) -> None:
    """And making it writes none of them where others wait for it."""
    old, new = topic(1), topic(1, OTHER_ID)
    logs = opened(disk, old)
    await logs.ensure(every(old))
    log = logs.directory.logs[TopicPartition("orders", 0)]
    add(log, *(batch(n) for n in range(9)))
    log.advance_high_watermark(9)
    logs.directory.delete_records(TopicPartition("orders", 0), 5)
    logs.on_image(image(new))
    await logs.delete_those_due()
    disk.files_replaced.clear()
    await logs.ensure(every(new))
    made = logs.directory.logs[TopicPartition("orders", 0)]
    assert (made.start_offset, made.end_offset) == (0, 0)
    assert [name for name in disk.files_replaced if name.endswith("offset-checkpoint")] == []
    assert "log-start-offset-checkpoint.draft" in disk.files_replaced, (
        "beside the file, in a thread"
    )
    again = opened(disk.synced(), new)
    await again.ensure(every(new))
    found = again.directory.logs[TopicPartition("orders", 0)]
    assert (found.start_offset, found.end_offset) == (0, 0)


async def test_two_checkpoints_are_never_written_at_the_same_time(disk: CountingDisk) -> None:
    """They have the same drafts: one that was begun before a topic was deleted could take effect in
    the place of the one that its successor waits for."""
    writing = most = 0

    async def watched(run: Callable[[], T], /) -> T:
        nonlocal writing, most
        is_checkpoint = isinstance(getattr(run, "__self__", None), Checkpoint)
        writing += is_checkpoint
        most = max(most, writing)
        for _ in range(9):
            await trio.lowlevel.checkpoint()
        writing -= is_checkpoint
        return run()

    old, new = topic(1), topic(1, OTHER_ID)
    logs = opened(disk, old, watched)
    await logs.ensure(every(old))
    await logs.checkpoints.write()
    add(logs.get_or_create(old, TopicPartition("orders", 0)), batch(1))
    logs.directory.logs[TopicPartition("orders", 0)].flush()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.checkpoints.write)
        await trio.lowlevel.checkpoint()
        logs.on_image(image(new))
        await logs.delete_those_due()
        nursery.start_soon(logs.ensure, every(new))
    assert most == 1
    again = opened(disk.synced(), new)
    await again.ensure(every(new))
    assert again.directory.logs[TopicPartition("orders", 0)].end_offset == 0


async def test_a_log_of_a_damaged_id_is_moved_aside_when_the_topic_of_its_name_goes(
    disk: CountingDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """The next topic of that name needs the place."""
    old, new = topic(2), topic(2, OTHER_ID)
    logs = opened(disk, old)
    await logs.ensure(every(old))
    logs.directory.close()
    for number in range(2):
        disk.flip_bit(ROOT / "data" / f"orders-{number}" / PARTITION_METADATA, 20, 3)
    logs = opened(disk, old)
    await logs.ensure(every(old)[:1])
    assert TopicPartition("orders", 0) in logs.directory.failed
    logs.on_image(image())
    await logs.delete_those_due()
    assert "orders-0" in caplog.text
    logs.on_image(image(new))
    await logs.ensure(every(new))
    assert [logs.get_or_create(*each).end_offset for each in every(new)] == [0, 0]
    assert len([path for path in disk.directories() if path.name.endswith("-stray")]) == 2


async def test_many_strays_are_moved_aside_in_turns_with_one_sync(disk: CountingDisk) -> None:
    of = topic(100)
    logs = opened(disk, of)
    await logs.ensure(every(of))
    logs.directory.close()
    logs = opened(disk, Topic("other", OTHER_ID, (STATE,), revision=1))
    syncs, turns = disk.data_directory_syncs, 0

    async def count() -> None:
        nonlocal turns
        while logs.directory.partitions:
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(logs.move_strays_aside)
        nursery.start_soon(count)
    assert turns > 3
    assert disk.data_directory_syncs == syncs + 1
    assert len([path for path in disk.directories() if path.name.endswith("-stray")]) == 100
