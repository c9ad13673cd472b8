"""Logs that nobody has asked for since a clean shutdown."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from pyk.disk import RealDisk
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.types import TopicPartition, Uuid
from tests.log.test_log import add, batch
from tests.simulated_disk import ROOT, SimulatedDisk

TOPIC_ID = Uuid(b"the topic's uuid")


def test_after_a_clean_shutdown_logs_may_stay_dormant_until_they_are_asked_for(
    tmp_path: Path,
) -> None:
    disk = RealDisk()
    directory = DataDirectory.open(disk, tmp_path, lambda _: LogConfig())
    for number in range(3):
        log = directory.create(TopicPartition("t", number), TOPIC_ID, LogConfig())
        add(log, batch(1), batch(2), batch(3))
        log.advance_high_watermark(3)
        directory.delete_records(TopicPartition("t", number), number)
    directory.close()

    again = DataDirectory.open(disk, tmp_path, lambda _: LogConfig(), may_be_dormant=True)
    assert (again.logs, again.failed) == ({}, {})
    assert again.partitions == {TopicPartition("t", n) for n in range(3)}
    log = again.log(TopicPartition("t", 2))
    assert (log.start_offset, log.high_watermark, log.end_offset) == (2, 3, 3)
    again.delete(TopicPartition("t", 0))
    with pytest.raises(KafkaError) as unknown:
        again.log(TopicPartition("t", 0))
    assert unknown.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    again.checkpoint()
    again.close()

    last = DataDirectory.open(disk, tmp_path, lambda _: LogConfig(), may_be_dormant=True)
    assert last.was_clean
    log = last.log(TopicPartition("t", 1))
    assert (log.start_offset, log.high_watermark, log.end_offset) == (1, 3, 3)


def test_a_log_has_the_same_size_dormant_and_awake(tmp_path: Path) -> None:
    disk, partition = RealDisk(), TopicPartition("t", 0)
    config = LogConfig(segment_bytes=200)
    directory = DataDirectory.open(disk, tmp_path, lambda _: config)
    log = directory.create(partition, TOPIC_ID, config)
    for _ in range(4):
        add(log, batch(1), batch(2))
    directory.close()
    assert len(list((tmp_path / "t-0").glob("*.log"))) > 1
    (tmp_path / "u-0").write_text("no directory")

    again = DataDirectory.open(disk, tmp_path, lambda _: config, may_be_dormant=True)
    asleep = again.size(partition)
    assert again.logs == {}
    assert asleep == log.size == again.log(partition).size == again.size(partition)
    assert again.size(TopicPartition("u", 0)) == again.size(TopicPartition("missing", 0)) == 0


def test_a_dormant_log_that_is_damaged_is_found_out_when_it_is_asked_for(tmp_path: Path) -> None:
    disk = RealDisk()
    directory = DataDirectory.open(disk, tmp_path, lambda _: LogConfig())
    log = directory.create(TopicPartition("t", 0), TOPIC_ID, LogConfig())
    add(log, batch(1))
    directory.close()
    with (tmp_path / "t-0" / f"{0:020}.log").open("ab") as file:
        file.write(b"rot")
    again = DataDirectory.open(disk, tmp_path, lambda _: LogConfig(), may_be_dormant=True)
    for _ in range(2):
        with pytest.raises(KafkaError) as damaged:
            again.log(TopicPartition("t", 0))
        assert damaged.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert again.failed.keys() == {TopicPartition("t", 0)}
    assert again.partitions == set()


def test_a_checkpoint_that_says_nothing_new_is_not_written() -> None:
    disk = SimulatedDisk()
    directory = DataDirectory.open(disk, ROOT / "data", lambda _: LogConfig())
    log = directory.create(TopicPartition("t", 0), TOPIC_ID, LogConfig())
    directory.checkpoint()
    operations = disk.operations
    directory.checkpoint()
    assert disk.operations == operations
    add(log, batch(1))
    log.flush()
    directory.checkpoint()
    assert disk.operations > operations


class BusyDisk(RealDisk):
    """No descriptors are left for a while."""

    is_busy = False

    def read(self, path: Path) -> bytes:
        if self.is_busy:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return super().read(path)


def test_a_dormant_log_that_the_disk_keeps_closed_is_tried_again(tmp_path: Path) -> None:
    disk, partition = BusyDisk(), TopicPartition("t", 0)
    directory = DataDirectory.open(disk, tmp_path, lambda _: LogConfig())
    add(directory.create(partition, TOPIC_ID, LogConfig()), batch(1))
    directory.close()
    again = DataDirectory.open(disk, tmp_path, lambda _: LogConfig(), may_be_dormant=True)
    disk.is_busy = True
    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            again.log(partition)
        assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not again.failed
    disk.is_busy = False
    assert again.log(partition).end_offset == 1
    again.close()
    last = DataDirectory.open(disk, tmp_path, lambda _: LogConfig(), may_be_dormant=True)
    assert (last.was_clean, last.to_recover) == (True, [])


def test_a_partition_behind_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere, home = tmp_path / "elsewhere", tmp_path / "data"
    directory = DataDirectory.open(RealDisk(), home, lambda _: LogConfig())
    add(directory.create(TopicPartition("t", 0), TOPIC_ID, LogConfig()), batch(1))
    directory.close()
    del directory
    (home / "t-0").rename(elsewhere)
    (home / "t-0").symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in elsewhere.iterdir()}
    again = DataDirectory.open(RealDisk(), home, lambda _: LogConfig(), may_be_dormant=True)
    with pytest.raises(KafkaError, match="symbolic link"):
        again.log(TopicPartition("t", 0))
    again.delete(TopicPartition("t", 0))
    again.sweep(0)
    again.sweep(10**12)
    assert {path: path.read_bytes() for path in elsewhere.iterdir()} == before


def test_one_log_that_cannot_be_closed_is_recovered_alone(tmp_path: Path) -> None:
    directory = DataDirectory.open(RealDisk(), tmp_path, lambda _: LogConfig())
    for number in range(3):
        add(directory.create(TopicPartition("t", number), TOPIC_ID, LogConfig()), batch(1))
    shutil.rmtree(tmp_path / "t-1")
    directory.close()
    assert directory.not_closed.keys() == {TopicPartition("t", 1)}
    again = DataDirectory.hold(RealDisk(), tmp_path)
    again.begin()
    assert again.was_clean
    assert again.partitions == {TopicPartition("t", 0), TopicPartition("t", 2)}
    assert again.to_recover == []


def test_logs_stay_closed_and_kept_if_the_metadata_cannot_be_read_after_a_crash(
    tmp_path: Path,
) -> None:
    directory = DataDirectory.open(RealDisk(), tmp_path, lambda _: LogConfig())
    add(directory.create(TopicPartition("t", 0), TOPIC_ID, LogConfig()), batch(1))
    directory.let_go()
    again = DataDirectory.hold(RealDisk(), tmp_path)
    again.begin()
    again.keeps_strays = True
    again.reject_all([TopicPartition("t", 0)])
    assert again.to_recover == []
    again.close()
    last = DataDirectory.hold(RealDisk(), tmp_path)
    last.begin()
    assert last.to_recover == [TopicPartition("t", 0)]
