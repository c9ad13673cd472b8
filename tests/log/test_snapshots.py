"""Snapshots of producers: written with the next flush, in its thread, and known before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyk.disk import RealDisk
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.log.producers import Producers
from pyk.log.segment import file_name
from pyk.log.snapshots import Snapshots
from tests.log.test_log import ANN, BOB, HOME, add, batch, names
from tests.simulated_disk import SimulatedDisk

CONFIG = LogConfig()


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return Log.open(disk, HOME, CONFIG)


def content(disk: SimulatedDisk, offset: int) -> bytes:
    return disk.read(HOME / file_name(offset, ".snapshot"))


def test_rolling_writes_nothing_of_producers(disk: SimulatedDisk, log: Log) -> None:
    """The loop would be held in proportion to how many there are."""
    add(log, *(batch(producer_id=number, sequence=0) for number in range(100)))
    log.roll()
    assert content(disk, 100) == b""
    log.flush()
    assert content(disk, 100) == log.producers.snapshot()


def test_what_comes_after_a_snapshot_is_not_in_it(disk: SimulatedDisk, log: Log) -> None:
    add(log, batch(producer_id=ANN, sequence=0))
    log.roll()
    known = log.producers.snapshot()
    flush = log.begin_flush()
    add(log, batch(producer_id=ANN, sequence=1), batch(producer_id=BOB, sequence=0))
    flush.run()
    log.end_flush(flush)
    assert content(disk, 1) == known


def test_truncating_goes_back_to_a_snapshot_that_is_not_written_yet(
    disk: SimulatedDisk, log: Log
) -> None:
    add(log, batch(producer_id=ANN, sequence=0))
    log.roll()
    add(log, batch(producer_id=ANN, sequence=1), batch())
    log.advance_high_watermark(log.end_offset)
    log.truncate(1)
    producer = log.producers.get(ANN)
    assert producer is not None
    assert producer.last_sequence == 0
    assert names(disk, ".snapshot") == [1]


def test_a_snapshot_that_is_truncated_away_is_not_written(disk: SimulatedDisk, log: Log) -> None:
    add(log, batch(producer_id=ANN, sequence=0), batch(producer_id=ANN, sequence=1))
    log.roll()
    flush = log.begin_flush()
    log.truncate(1)
    flush.run()
    log.end_flush(flush)
    log.flush()
    assert names(disk, ".snapshot") == []
    assert names(disk.synced(), ".snapshot") == []


def test_a_crash_before_it_is_written_costs_replaying(disk: SimulatedDisk, log: Log) -> None:
    add(log, batch(producer_id=ANN, sequence=0))
    log.roll()
    add(log, batch(producer_id=ANN, sequence=1))
    again = Log.open(disk.kill9(), HOME, CONFIG, recovery_point=0, high_watermark=2)
    assert again.producers == log.producers


def test_two_flushes_at_once_write_it_once(tmp_path: Path) -> None:
    producers = Producers()
    snapshots = Snapshots(RealDisk(), tmp_path, [])
    snapshot = snapshots.write(7, producers)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: snapshot.sync(), range(8)))
    data = (tmp_path / file_name(7, ".snapshot")).read_bytes()
    assert data == producers.snapshot()
    assert snapshots.load(producers, 7, 0) == 7


def test_without_room_on_the_disk_it_is_as_good_as_none(disk: SimulatedDisk, log: Log) -> None:
    add(log, batch(producer_id=ANN, sequence=0))
    log.flush()
    log.roll()
    disk.capacity = disk.used + 20
    log.flush()
    disk.capacity = None
    again = Log.open(disk.kill9(), HOME, CONFIG, high_watermark=1)
    assert again.producers == log.producers
