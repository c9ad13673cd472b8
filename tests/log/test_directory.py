"""A data directory: logs come, go and are found again, and checkpoints never say too much."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pyk.disk import DirectoryInUse, RealDisk
from pyk.errors import ErrorCode, KafkaError
from pyk.log.checkpoints import DamagedCheckpoint
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.log.segments import CorruptLog
from pyk.types import TopicPartition, Uuid
from pyk.wire.prefixed import ControlType
from tests.log.history import headers_of
from tests.log.test_log import ANN, add, batch, marker
from tests.simulated_disk import ROOT, Crashed, SimulatedDisk

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)
ID, OTHER_ID = Uuid(b"\1" * 16), Uuid(b"\2" * 16)
SMALL = LogConfig(segment_bytes=200, file_delete_delay_ms=10)
"""Two batches of one record to a segment."""
RECOVERY_POINTS = ROOT / "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = ROOT / "replication-offset-checkpoint"
START_OFFSETS = ROOT / "log-start-offset-checkpoint"


def opened(disk: SimulatedDisk) -> DataDirectory:
    return DataDirectory.open(disk, ROOT, lambda topic: SMALL)


def in_a_real_one(path: Path) -> DataDirectory:
    return DataDirectory.open(RealDisk(), path, lambda topic: SMALL)


def fill(log: Log, count: int = 10) -> None:
    """Records in batches of one, all of them durable and committed."""
    for _ in range(count):
        add(log, batch())
    log.flush()
    log.advance_high_watermark(log.end_offset)


def at_every_point(
    prepare: Callable[[], SimulatedDisk],
    act: Callable[[SimulatedDisk], object],
    check: Callable[[DataDirectory], None],
) -> None:
    """Let the machine die in each operation of `act`, and open what kill -9 or power loss left."""
    number, has_ended = 0, False
    while not has_ended:
        disk = prepare()
        number += 1
        disk.crash_after = disk.operations + number
        try:
            act(disk)
            has_ended = True
        except Crashed:
            pass
        for left in (disk.kill9(), disk.power(Random(number)), disk.synced()):
            check(opened(left))
    assert number > 1


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def directory(disk: SimulatedDisk) -> DataDirectory:
    return opened(disk)


@pytest.fixture
def log(directory: DataDirectory) -> Log:
    return directory.create(ONE, ID, SMALL)


def test_what_was_created_is_there_after_a_power_loss(
    disk: SimulatedDisk, directory: DataDirectory
) -> None:
    directory.create(ONE, ID, SMALL)
    directory.create(TWO, ID, SMALL)
    again = opened(disk.synced())
    assert again.logs.keys() == {ONE, TWO}
    assert again.topic_ids == {ONE: ID, TWO: ID}
    assert not again.failed


def test_what_is_there_cannot_be_created(directory: DataDirectory, log: Log) -> None:
    fill(log)
    with pytest.raises(KafkaError) as refusal:
        directory.create(ONE, OTHER_ID, SMALL)
    assert refusal.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert (log.end_offset, directory.topic_ids[ONE]) == (10, ID)


def test_a_creation_that_was_interrupted_does_no_harm() -> None:
    def check(found: DataDirectory) -> None:
        assert not found.failed
        if ONE not in found.logs:
            found.create(ONE, OTHER_ID, SMALL)
        add(found.logs[ONE], batch())

    at_every_point(SimulatedDisk, lambda disk: opened(disk).create(ONE, ID, SMALL), check)


def test_a_full_disk_refuses_a_creation_and_later_takes_it(
    disk: SimulatedDisk, directory: DataDirectory
) -> None:
    disk.capacity = disk.used + 20
    with pytest.raises(KafkaError) as refusal:
        directory.create(ONE, ID, SMALL)
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert ONE not in directory.logs
    disk.capacity = None
    assert not opened(disk.kill9()).failed
    fill(directory.create(ONE, ID, SMALL))


def test_a_clean_stop_is_told_from_a_crash(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    assert not directory.was_clean
    fill(log)
    directory.close()
    assert opened(disk).was_clean
    assert not opened(disk).was_clean


def test_a_damaged_mark_of_a_clean_stop_is_none(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log)
    directory.close()
    disk.replace(ROOT / ".kafka_cleanshutdown", b"{")
    again = opened(disk)
    assert not again.was_clean
    assert again.logs[ONE].end_offset == 10


def test_a_deleted_partition_is_gone_at_once_and_its_files_later(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log)
    directory.delete(ONE)
    assert not directory.logs
    [away] = disk.directories()
    assert away.name == f"orders-0.{ID.hex()}-delete"
    directory.sweep(1_000)
    directory.sweep(1_009)
    assert disk.directories() == [away]
    directory.sweep(1_010)
    assert disk.directories() == []


def test_a_deleted_partition_does_not_come_back(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log)
    directory.delete(ONE)
    left = disk.synced()
    again = opened(left)
    assert not again.logs
    again.sweep(0)
    assert left.directories() == []


def test_an_interrupted_deletion_leaves_all_or_nothing() -> None:
    def prepare() -> SimulatedDisk:
        disk = SimulatedDisk()
        fill(opened(disk).create(ONE, ID, SMALL))
        return disk

    def delete(disk: SimulatedDisk) -> None:
        directory = opened(disk)
        directory.delete(ONE)
        directory.sweep(0)
        directory.sweep(10)

    def check(found: DataDirectory) -> None:
        assert not found.failed
        assert [log.end_offset for log in found.logs.values()] in ([], [10])

    at_every_point(prepare, delete, check)


def test_a_deletion_that_is_interrupted_twice_leaves_all_or_nothing() -> None:
    def prepare() -> SimulatedDisk:
        disk = SimulatedDisk()
        directory = opened(disk)
        fill(directory.create(ONE, ID, SMALL))
        disk.crash_after = disk.operations + 2
        with pytest.raises(Crashed):
            directory.delete(ONE)
        return disk.kill9()

    def check(found: DataDirectory) -> None:
        assert not found.failed
        assert [headers_of(log)[0].base_offset for log in found.logs.values()] in ([], [0])
        assert [log.end_offset for log in found.logs.values()] in ([], [10])

    at_every_point(prepare, opened, check)


def test_one_that_is_made_again_has_nothing_of_the_one_before(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log)
    directory.delete_records(ONE, 5)
    directory.checkpoint()
    directory.delete(ONE)
    add(directory.create(ONE, OTHER_ID, SMALL), batch())
    again = opened(disk.kill9())
    assert not again.failed
    found = again.logs[ONE]
    assert (found.start_offset, found.high_watermark, found.end_offset) == (0, 0, 1)


def test_a_partition_may_go_and_come_back_before_its_files_are_removed(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    directory.delete(ONE)
    directory.create(ONE, ID, SMALL)
    directory.delete(ONE)
    assert len(disk.directories()) == 2
    directory.sweep(0)
    directory.sweep(10)
    assert disk.directories() == []


def test_partitions_with_the_longest_names_can_be_deleted(tmp_path: Path) -> None:
    directory = in_a_real_one(tmp_path)
    long = [TopicPartition("t" * 249, number) for number in (0, 1, 99_999)]
    for partition in long:
        directory.create(partition, ID, SMALL)
    for partition in long:
        directory.delete(partition)
    names = [path.name for path in tmp_path.iterdir() if path.is_dir()]
    assert [len(name) for name in names] == [255] * 3
    directory.close()
    again = in_a_real_one(tmp_path)
    assert not again.logs
    again.sweep(0)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_a_directory_is_for_one_at_a_time(tmp_path: Path) -> None:
    first = in_a_real_one(tmp_path)
    with pytest.raises(DirectoryInUse):
        in_a_real_one(tmp_path)
    first.close()
    second = in_a_real_one(tmp_path)
    assert second.was_clean


def test_a_directory_is_for_one_process_at_a_time(tmp_path: Path) -> None:
    directory = in_a_real_one(tmp_path)
    script = (
        "from pathlib import Path\n"
        "from pyk.log.config import LogConfig\n"
        "from pyk.log.directory import DataDirectory\n"
        "from pyk.disk import RealDisk\n"
        f"DataDirectory.open(RealDisk(), Path({str(tmp_path)!r}), lambda topic: LogConfig())\n"
    )
    command = [sys.executable, "-c", script]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "DirectoryInUse" in refused.stderr
    directory.close()
    subprocess.run(command, check=True)


def test_checkpoints_are_in_kafkas_format(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log)
    fill(directory.create(TWO, ID, SMALL), 3)
    add(log, batch())
    directory.delete_records(ONE, 5)
    directory.checkpoint()
    assert disk.read(RECOVERY_POINTS) == b"0\n2\norders 0 10\norders 1 3\n"
    assert disk.read(HIGH_WATERMARKS) == b"0\n2\norders 0 10\norders 1 3\n"
    assert disk.read(START_OFFSETS) == b"0\n1\norders 0 5\n"
    assert disk.read(ROOT / "cleaner-offset-checkpoint") == b"0\n0\n"
    metadata = b"version: 0\ntopic_id: AQEBAQEBAQEBAQEBAQEBAQ\nchecksum: 36c995c9"
    assert disk.read(ROOT / "orders-0" / "partition.metadata") == metadata


def test_other_directories_and_files_are_left_alone(disk: SimulatedDisk, log: Log) -> None:
    for name in ("lost+found", "orders", "orders-00", "orders-x", "-1"):
        disk.make_directory(ROOT / name)
        disk.open(ROOT / name / "00000000000000000000.log")
    disk.replace(ROOT / "meta.properties", b"version=1\n")
    before = disk.contents()
    directory = opened(disk)
    assert directory.logs.keys() == {ONE}
    assert not directory.failed
    assert before.keys() <= disk.contents().keys()


def test_a_damaged_partition_is_left_as_it_is_and_what_is_known_of_it_kept(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log)
    fill(directory.create(TWO, ID, SMALL))
    directory.delete_records(ONE, 5)
    directory.checkpoint()
    disk.flip_bit(ROOT / "orders-0" / "00000000000000000008.log", 100, 3)
    log_files = {path: data for path, data in disk.contents().items() if path.suffix == ".log"}
    again = opened(disk)
    assert isinstance(again.failed[ONE], CorruptLog)
    assert again.logs.keys() == {TWO}
    with pytest.raises(KafkaError):
        again.create(ONE, ID, SMALL)
    again.close()
    assert log_files.items() <= disk.contents().items()
    for path in (RECOVERY_POINTS, HIGH_WATERMARKS):
        assert disk.read(path) == b"0\n2\norders 0 10\norders 1 10\n"
    assert disk.read(START_OFFSETS) == b"0\n1\norders 0 5\n"
    last = opened(disk)
    assert last.was_clean
    assert isinstance(last.failed[ONE], CorruptLog), "it is recovered again, and it alone"
    assert last.logs.keys() == {TWO}


def test_no_file_of_a_damaged_log_is_held(tmp_path: Path) -> None:
    directory = in_a_real_one(tmp_path)
    fill(directory.create(ONE, ID, SMALL))
    directory.checkpoint()
    directory.let_go()
    del directory
    path = max((tmp_path / "orders-0").glob("*.log"), key=lambda each: each.stat().st_size)
    path.write_bytes(bytes(path.stat().st_size))
    again = in_a_real_one(tmp_path)
    assert isinstance(again.failed[ONE], CorruptLog)
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    held = [os.readlink(link) for link in links if os.path.exists(link)]
    assert not [each for each in held if f"{tmp_path}/orders-0" in each]


def test_a_damaged_partition_can_be_deleted_and_made_again(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log)
    directory.checkpoint()
    disk.flip_bit(ROOT / "orders-0" / "00000000000000000008.log", 100, 3)
    again = opened(disk)
    again.delete(ONE)
    fill(again.create(ONE, OTHER_ID, SMALL), 2)
    again.close()
    assert opened(disk).logs[ONE].end_offset == 2


def test_a_partition_that_does_not_say_whose_it_is_is_not_opened(
    disk: SimulatedDisk, log: Log
) -> None:
    disk.remove(ROOT / "orders-0" / "partition.metadata")
    assert isinstance(opened(disk).failed[ONE], DamagedCheckpoint)


def test_without_a_recovery_point_everything_is_recovered(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log)
    directory.checkpoint()
    disk.replace(RECOVERY_POINTS, b"0\n1\norders 0 1")
    disk.flip_bit(ROOT / "orders-0" / "00000000000000000008.log", 100, 3)
    again = opened(disk)
    assert not again.failed
    assert again.logs[ONE].end_offset == 9


@pytest.mark.parametrize("path", [HIGH_WATERMARKS, START_OFFSETS])
def test_a_damaged_checkpoint_is_reported_and_says_nothing(
    disk: SimulatedDisk, directory: DataDirectory, log: Log, path: Path
) -> None:
    fill(log)
    directory.close()
    disk.replace(path, b"0\n1\norders 0 1")
    again = opened(disk)
    assert [str(damage) for damage in again.damaged_checkpoints] == [f"{path.name} is cut off"]
    assert again.logs[ONE].end_offset == 10
    assert again.logs[ONE].start_offset == 0


def test_a_start_that_is_beyond_the_end_of_a_closed_log_is_damage(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log)
    directory.close()
    disk.replace(START_OFFSETS, b"0\n1\norders 0 42\n")
    before = disk.contents()
    again = opened(disk)
    assert START_OFFSETS.name in str(again.failed[ONE])
    assert (
        disk.contents().items()
        >= {path: data for path, data in before.items() if path.suffix == ".log"}.items()
    )


def test_deleted_records_stay_away(disk: SimulatedDisk, directory: DataDirectory, log: Log) -> None:
    fill(log)
    directory.delete_records(ONE, 5)
    for left in (disk.kill9(), disk.synced()):
        assert opened(left).logs[ONE].start_offset == 5


def test_deleted_records_stay_away_when_their_files_are_retired(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log)
    directory.delete_records(ONE, 6)
    assert log.retire(0) == 3
    directory.checkpoint()
    assert disk.read(START_OFFSETS) == b"0\n0\n"
    assert opened(disk.synced()).logs[ONE].start_offset == 6


def test_records_cannot_be_deleted_that_are_not_committed(
    directory: DataDirectory, log: Log
) -> None:
    add(log, batch(), batch())
    with pytest.raises(KafkaError) as refusal:
        directory.delete_records(ONE, 1)
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.start_offset == 0


def test_a_log_that_ends_before_its_start_begins_again_there_whatever_interrupts_that() -> None:
    """Records were deleted that had not become durable, and then the power went."""

    def prepare() -> SimulatedDisk:
        disk = SimulatedDisk()
        directory = opened(disk)
        log = directory.create(ONE, ID, SMALL)
        fill(log)
        directory.checkpoint()
        add(log, *(batch() for _ in range(6)))
        log.advance_high_watermark(16)
        directory.delete_records(ONE, 15)
        return disk.synced()

    def check(found: DataDirectory) -> None:
        assert not found.failed
        assert (found.logs[ONE].start_offset, found.logs[ONE].end_offset) == (15, 15)

    at_every_point(prepare, opened, check)


def test_an_interrupted_truncation_below_the_recovery_point_is_not_taken_for_damage() -> None:
    def prepare() -> SimulatedDisk:
        disk = SimulatedDisk()
        directory = opened(disk)
        fill(directory.create(ONE, ID, SMALL))
        directory.close()
        return disk

    def check(found: DataDirectory) -> None:
        assert not found.failed
        assert 3 <= found.logs[ONE].end_offset <= 10

    at_every_point(prepare, lambda disk: opened(disk).truncate(ONE, 3), check)


def test_an_interrupted_truncation_of_all_leaves_the_log_where_it_starts() -> None:
    def prepare() -> SimulatedDisk:
        disk = SimulatedDisk()
        directory = opened(disk)
        log = directory.create(ONE, ID, SMALL)
        directory.clear(ONE, 100)
        fill(log)
        directory.close()
        return disk

    def check(found: DataDirectory) -> None:
        assert not found.failed
        assert found.logs[ONE].start_offset == 100

    at_every_point(prepare, lambda disk: opened(disk).truncate(ONE, 100), check)


@pytest.mark.parametrize("offset", [0, 5, 10, 100])
def test_an_interrupted_clearing_leaves_the_old_or_the_new(offset: int) -> None:
    def prepare() -> SimulatedDisk:
        disk = SimulatedDisk()
        directory = opened(disk)
        log = directory.create(ONE, ID, SMALL)
        fill(log)
        directory.delete_records(ONE, 3)
        directory.close()
        return disk

    def check(found: DataDirectory) -> None:
        assert not found.failed
        log = found.logs[ONE]
        if log.end_offset == log.start_offset:
            assert log.start_offset in (max(3, offset), offset)
        else:
            assert log.start_offset >= 3
            assert log.end_offset == 10

    at_every_point(prepare, lambda disk: opened(disk).clear(ONE, offset), check)


def test_what_was_truncated_is_not_committed_when_it_is_written_anew(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log)
    directory.checkpoint()
    directory.truncate(ONE, 5)
    add(log, *(batch() for _ in range(10)), epoch=1)
    assert opened(disk.kill9()).logs[ONE].high_watermark <= 5


def test_a_high_watermark_inside_of_a_truncated_batch_is_lowered_for_good(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    add(log, batch(1, 2, 3))
    log.advance_high_watermark(3)
    directory.delete_records(ONE, 1)
    left = disk.kill9()
    left.replace(HIGH_WATERMARKS, b"0\n1\norders 0 1\n")
    again = opened(left)
    assert again.logs[ONE].high_watermark == 1
    again.truncate(ONE, 1)
    add(again.logs[ONE], batch(4, 5, 6), epoch=1)
    assert opened(left.kill9()).logs[ONE].high_watermark == 0


def test_what_power_loss_took_is_not_committed_when_it_is_written_anew(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    fill(log, 5)
    add(log, *(batch() for _ in range(5)))
    log.advance_high_watermark(10)
    directory.checkpoint()
    left = disk.synced()
    found = opened(left).logs[ONE]
    assert found.high_watermark == 5
    add(found, *(batch() for _ in range(5)), epoch=1)
    assert opened(left.kill9()).logs[ONE].high_watermark == 5


def test_a_start_inside_of_a_truncated_batch_hides_nothing_that_comes_later(
    disk: SimulatedDisk, directory: DataDirectory, log: Log
) -> None:
    add(log, batch(), batch(1, 2, 3))
    log.flush()
    log.advance_high_watermark(4)
    directory.delete_records(ONE, 3)
    directory.truncate(ONE, 3)
    add(log, *(batch() for _ in range(4)), epoch=1)
    log.flush()
    assert headers_of(opened(disk.synced()).logs[ONE]) == headers_of(log)
    assert [header.base_offset for header in headers_of(log)] == [1, 2, 3, 4]


def test_what_was_known_of_truncated_producers_does_not_come_back(disk: SimulatedDisk) -> None:
    """Nothing but the truncation itself syncs the directory from which a snapshot goes."""
    directory = opened(disk)
    log = directory.create(ONE, ID, LogConfig())
    add(log, batch(), batch(), batch(producer_id=ANN, sequence=0))
    log.advance_high_watermark(3)
    directory.close()
    log.truncate(1)
    add(log, *(batch() for _ in range(4)))
    log.advance_high_watermark(5)
    log.flush()
    again = opened(disk.synced()).logs[ONE]
    again.advance_high_watermark(5)
    again.truncate(4)
    assert list(again.producers) == []


def test_what_was_aborted_is_known_after_a_crash_and_a_clean_stop(
    disk: SimulatedDisk, log: Log
) -> None:
    add(log, batch(producer_id=ANN, sequence=0, is_transactional=True))
    add(log, marker(ANN, ControlType.ABORT))
    add(log, *(batch() for _ in range(6)))
    known = log.aborted(0, 8)
    assert len(known) == 1
    left = disk.kill9()
    opened(left).close()
    assert opened(left).logs[ONE].aborted(0, 8) == known


def test_a_plain_file_with_a_partitions_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes-1").write_text("mine")
    directory = DataDirectory.open(RealDisk(), tmp_path, lambda _: LogConfig())
    assert (directory.logs, directory.failed) == ({}, {})
    directory.close()
    assert (tmp_path / "notes-1").read_text() == "mine"


def test_an_interrupted_truncation_into_a_batch_that_is_partly_deleted_is_no_damage() -> None:
    def prepare() -> SimulatedDisk:
        disk = SimulatedDisk()
        directory = opened(disk)
        log = directory.create(ONE, ID, SMALL)
        fill(log, 5)
        add(log, batch(1, 2, 3))
        log.flush()
        log.advance_high_watermark(8)
        directory.delete_records(ONE, 7)
        return disk.kill9()

    def check(found: DataDirectory) -> None:
        assert not found.failed
        assert found.logs[ONE].end_offset in (5, 7, 8)

    at_every_point(prepare, lambda disk: opened(disk).truncate(ONE, 7), check)
