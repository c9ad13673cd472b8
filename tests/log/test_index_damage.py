"""A bit that has flipped in an index: no wrong batch is read, and none is out of reach."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyk.disk import RealDisk, RealFile
from pyk.log.segment import Segment, file_name
from tests.log.test_segment import append, batch, offsets
from tests.simulated_disk import ROOT, SimulatedDisk

HOME = ROOT / "t-0"
BASE = 100
INTERVAL = 150
COUNT = 14
LAST = BASE + 2 * COUNT

RISING = [10 * at for at in range(COUNT)]
MIXED = [50, 10, 60, 60, 20, 65, 63, 70, 70, 30, 90, 80, 99, 9]


def written(timestamps: list[int]) -> SimulatedDisk:
    """A segment of batches of two records each, closed."""
    disk = SimulatedDisk()
    disk.make_directory(HOME)
    segment = Segment(disk, HOME, BASE, INTERVAL)
    for at, timestamp in enumerate(timestamps):
        # What looks like a batch to whoever reads it from the wrong place.
        value = batch(BASE + 2 * at + 8, timestamp + 5, value=b"x")
        append(segment, batch(BASE + 2 * at, timestamp, timestamp + 1, value=value))
    segment.seal()
    segment.flush()
    return disk


def flipped(disk: SimulatedDisk, suffix: str) -> Iterator[SimulatedDisk]:
    path = HOME / file_name(BASE, suffix)
    size = disk.size(path)
    assert size > 40
    for position in range(size):
        for bit in range(8):
            copy = disk.kill9()
            copy.flip_bit(path, position, bit)
            yield copy


def opened(disk: SimulatedDisk) -> Segment:
    return Segment.open(disk, HOME, BASE, INTERVAL)


def check_reads(segment: Segment) -> None:
    assert (segment.next_offset, segment.newest.timestamp >= 0) == (LAST, True)
    size = segment.size // COUNT
    for offset in range(BASE, LAST, 5):
        first = offset - offset % 2
        assert offsets(segment.read(offset, 1)) == [first]
        some = range(first, min(first + 10, LAST), 2)
        assert offsets(segment.read(offset, 5 * size + 3)) == list(some)
        assert offsets(segment.read(offset, 10**6, first + 5)) == [first, first + 2][: len(some)]


def check_times(segment: Segment, timestamps: list[int]) -> None:
    records = [
        (time, BASE + 2 * at + n)
        for at, timestamp in enumerate(timestamps)
        for n, time in enumerate((timestamp, timestamp + 1))
    ]
    assert segment.newest.timestamp == max(records)[0]
    for timestamp in range(1, 150, 7):
        for start in (BASE, BASE + 11):
            later = [r for r in records if r[0] >= timestamp and r[1] >= start]
            assert segment.find_timestamp(timestamp, start) == (later[0] if later else None)


@pytest.mark.parametrize("timestamps", [RISING, MIXED], ids=["rising", "mixed"])
def test_any_bit_of_the_offset_index(timestamps: list[int]) -> None:
    for disk in flipped(written(timestamps), ".index"):
        segment = opened(disk)
        check_reads(segment)
        check_reads(segment)
        append(segment, batch(LAST, 1000))
        segment.flush()
        assert offsets(opened(disk).read(LAST, 1)) == [LAST]


@pytest.mark.parametrize("timestamps", [RISING, MIXED], ids=["rising", "mixed"])
def test_any_bit_of_the_time_index(timestamps: list[int]) -> None:
    for disk in flipped(written(timestamps), ".timeindex"):
        check_times(opened(disk), timestamps)


@pytest.mark.parametrize("timestamps", [RISING, MIXED], ids=["rising", "mixed"])
def test_times_are_found_with_any_bit_of_the_offset_index(timestamps: list[int]) -> None:
    disks = flipped(written(timestamps), ".index")
    for number, disk in enumerate(disks):
        if number % 7 == 0:
            check_times(opened(disk), timestamps)


def test_an_entry_that_was_wrong_is_gone_from_the_file() -> None:
    disk = written(RISING)
    path = HOME / file_name(BASE, ".index")
    before = disk.read(path)
    disk.flip_bit(path, 8 * 5 + 7, 0)
    segment = opened(disk)
    check_reads(segment)
    segment.flush()
    assert disk.read(path) == before[: 8 * 5] + before[8 * 6 :]
    check_reads(opened(disk))


def test_an_index_of_nothing_but_wrong_entries_is_built_anew() -> None:
    disk = written(RISING)
    path = HOME / file_name(BASE, ".index")
    before = disk.read(path)
    entries = [struct.unpack_from(">II", before, at) for at in range(0, len(before), 8)]
    wrong = [(offset, position + 1) for offset, position in entries[:-1]] + entries[-1:]
    disk.open(path).truncate(0)
    disk.open(path).append(b"".join(struct.pack(">II", *entry) for entry in wrong))
    segment = opened(disk)
    for offset in range(LAST - 4, BASE, -2):
        assert offsets(segment.read(offset, 1)) == [offset]
    segment.flush()
    assert disk.read(path) == before


@pytest.mark.parametrize("kept", [0, 1, 5])
def test_a_time_index_of_which_the_end_is_lost_is_built_anew(kept: int) -> None:
    """Power was cut while it was written again."""
    disk = written(RISING)
    path = HOME / file_name(BASE, ".timeindex")
    before = disk.read(path)
    disk.open(path).truncate(12 * kept)
    segment = opened(disk)
    check_times(segment, RISING)
    segment.flush()
    assert disk.read(path) == before[: len(disk.read(path))] != before[: 12 * kept]


def test_entries_of_several_batches_are_right() -> None:
    """Kafka wrote them before version 4, where it appended several batches at once."""
    disk = written(RISING)
    segment = opened(disk)
    headers = [(placed.position, placed.header) for placed in segment.batches()]
    entries = [
        (headers[at + 3][1].last_offset - BASE, headers[at][0]) for at in range(2, COUNT - 4, 4)
    ]
    path = HOME / file_name(BASE, ".index")
    disk.open(path).truncate(0)
    disk.open(path).append(b"".join(struct.pack(">II", *entry) for entry in entries))
    segment = opened(disk)
    check_reads(segment)
    check_times(segment, RISING)
    assert not segment.is_dirty, "no entry was taken for a wrong one"


def test_damage_to_the_log_is_not_blamed_on_its_index() -> None:
    """What is before it and behind it can be read."""
    disk = written(RISING)
    headers = list(opened(disk).batches())
    damaged = headers[6]
    disk.flip_bit(HOME / file_name(BASE, ".log"), damaged.position + 16, 3)
    segment = opened(disk)
    assert segment.next_offset == LAST
    for placed in (*headers[:6], *headers[9:]):
        base = placed.header.base_offset
        assert offsets(segment.read(base, 1, end_offset=base + 2)) == [base]
    assert segment.next_offset == LAST


class CountingFile(RealFile):
    read_bytes = 0

    def read(self, position: int, size: int) -> bytes:
        data = super().read(position, size)
        CountingFile.read_bytes += len(data)
        return data


class CountingDisk(RealDisk):
    """It counts how much is read."""

    def open(self, path: Path, *, must_exist: bool = False) -> RealFile:
        return CountingFile(path, must_exist=must_exist)

    def read(self, path: Path) -> bytes:
        data = super().read(path)
        CountingFile.read_bytes += len(data)
        return data


def test_opening_a_segment_reads_as_little_of_a_large_index_as_of_a_small_one(
    tmp_path: Path,
) -> None:
    assert (
        read_to_open(tmp_path / "small", 100) == read_to_open(tmp_path / "large", 10_000) < 20_000
    )


def read_to_open(home: Path, count: int) -> int:
    home.mkdir()
    disk = CountingDisk()
    segment = Segment(disk, home, BASE, INTERVAL)
    for at in range(count):
        append(segment, batch(BASE + at, at))
    segment.seal()
    segment.flush()
    before = CountingFile.read_bytes
    Segment.open(disk, home, BASE, INTERVAL)
    return CountingFile.read_bytes - before
