"""Recovery of segments: how much memory it takes, and that it can be watched and stopped."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from pyk.disk import RealDisk
from pyk.log.batches import CHECK_BYTES
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.log.segment import Segment, file_name
from pyk.wire.batch import stamp_create_time
from pyk.wire.compression import CorruptBatch
from pyk.wire.records import Record, build_batch
from tests.log.test_log import ANN, HOME, add, batch
from tests.log.test_segment import append
from tests.log.test_segment import batch as placed_batch
from tests.simulated_disk import SimulatedDisk

DISK = RealDisk()


class Stopped(Exception):
    pass


def filled(home: Path, count: int, *, value: bytes = b"v" * 100) -> Path:
    """A log of as many batches, which was not closed."""
    log = Log.open(DISK, home, LogConfig())
    data = bytearray(build_batch([Record(0, 1000, None, value)]))
    for at in range(count):
        stamp_create_time(data, 0, 1000 + at)
        log.append(data, leader_epoch=0, now_ms=1)
    return home


def peak_of_recovery(home: Path) -> int:
    """The least of several: what other threads and garbage add is not the recovery's."""
    return min(_peak_of_recovery(home) for _ in range(3))


def _peak_of_recovery(home: Path) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        log = Log.open(DISK, home, LogConfig(), recovery_point=0)
        assert log.end_offset
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_number_of_batches(tmp_path: Path) -> None:
    few = peak_of_recovery(filled(tmp_path / "few-0", 10_000))
    many = peak_of_recovery(filled(tmp_path / "many-0", 60_000))
    # An index entry for every 4 KB is what may grow.
    assert many < few + 500_000


def test_all_bytes_are_reported_as_they_are_checked(tmp_path: Path) -> None:
    home = filled(tmp_path / "t-0", 20_000)
    size = (home / file_name(0, ".log")).stat().st_size
    told: list[int] = []
    Log.open(DISK, home, LogConfig(), recovery_point=0, checkpoint=told.append)
    assert sum(told) == size > 2 * CHECK_BYTES
    assert max(told) <= CHECK_BYTES


def test_recovery_can_be_stopped_and_done_again(tmp_path: Path) -> None:
    home = filled(tmp_path / "t-0", 20_000)
    left = 2

    def checkpoint(checked_bytes: int) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Stopped

    before = {path.name: path.read_bytes() for path in home.iterdir()}
    with pytest.raises(Stopped):
        Log.open(DISK, home, LogConfig(), recovery_point=0, checkpoint=checkpoint)
    assert {path.name: path.read_bytes() for path in home.iterdir()} == before
    assert Log.open(DISK, home, LogConfig(), recovery_point=0).end_offset == 20_000


def test_replaying_what_producers_did_can_be_stopped() -> None:
    disk = SimulatedDisk()
    log = Log.open(disk, HOME, LogConfig())
    add(log, *(batch(producer_id=ANN, sequence=at) for at in range(3000)))
    told: list[int] = []
    again = Log.open(disk.kill9(), HOME, LogConfig(), recovery_point=0, checkpoint=told.append)
    assert list(again.producers) == list(log.producers)
    assert told.count(0) >= 2


@pytest.mark.parametrize("size", [CHECK_BYTES - 200, CHECK_BYTES + 1, 3 * CHECK_BYTES])
def test_batches_larger_than_what_is_read_at_once_are_checked(tmp_path: Path, size: int) -> None:
    segment = Segment(DISK, tmp_path, 100)
    append(segment, *(placed_batch(at, value=b"v" * size) for at in range(100, 103)))
    again, dropped = Segment.recover(DISK, tmp_path, 100)
    assert (again.next_offset, dropped) == (103, 0)
    data = bytearray(segment.path.read_bytes())
    data[-size // 2] ^= 1
    segment.path.write_bytes(data)
    again, dropped = Segment.recover(DISK, tmp_path, 100)
    assert (again.next_offset, dropped) == (102, len(placed_batch(102, value=b"v" * size)))


@pytest.mark.parametrize("at", [0, 4, 7, 30])
def test_a_damaged_log_and_its_indexes_stay_as_they_are(tmp_path: Path, at: int) -> None:
    """Offsets are not covered by the CRC: one that is too large is seen by the next."""
    segment = Segment(DISK, tmp_path, 100, 200)
    append(segment, *(placed_batch(at) for at in range(100, 150)))
    segment.flush()
    data = bytearray(segment.path.read_bytes())
    data[len(data) // 2 + at] ^= 0x20
    segment.path.write_bytes(data)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CorruptBatch):
        Segment.recover(DISK, tmp_path, 100, 200, durable_end=150)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_opening_again_after_recovery_and_truncation_knows_producers() -> None:
    """Recovery has seen no producer, but one has come since."""
    disk = SimulatedDisk()
    log = Log.open(disk, HOME, LogConfig())
    add(log, *(batch() for _ in range(5)))
    log = Log.open(disk.kill9(), HOME, LogConfig(), recovery_point=0)
    log.truncate(2)
    add(log, batch(producer_id=ANN, sequence=0), batch())
    log.truncate(3)
    assert log.producers.get(ANN) is not None
