"""A bit that has flipped in what no CRC covers: nothing is served under another offset, and nothing
is passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyk.disk import RealDisk
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.log.segment import Segment
from pyk.log.segments import CorruptLog
from pyk.wire.batch import HEADER_BYTES
from pyk.wire.compression import CorruptBatch
from pyk.wire.prefixed import ControlType
from tests.log.test_log import ANN, BOB, add, marker
from tests.log.test_log import batch as batch_of
from tests.log.test_segment import append, batch, taken
from tests.simulated_disk import ROOT, SimulatedDisk

HOME = ROOT / "t-0"
EPOCH = range(12, 16)
CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=150)


def written(offsets: list[int], interval: int = 10**6) -> tuple[SimulatedDisk, list[int]]:
    """A segment with a batch at each of these offsets, and where they are."""
    disk, positions = SimulatedDisk(), []
    disk.make_directory(HOME)
    segment = Segment(disk, HOME, offsets[0], interval)
    for offset in offsets:
        positions.append(segment.size)
        append(segment, batch(offset))
    segment.seal()
    segment.flush()
    return disk, positions


def opened(disk: SimulatedDisk, base: int, following: int) -> Segment:
    segment = Segment.open(disk, HOME, base, 10**6)
    segment.meet(following)
    return segment


def served(segment: Segment, offset: int, end: int, bytes_max: int = 10**6) -> list[int]:
    """The offsets of what a reader gets until it hears of damage, or that there is no more."""
    found: list[int] = []
    while offset < end:
        piece = segment.read(offset, bytes_max)
        if piece is None:
            return found
        found += [header.base_offset for header in taken(piece)]
        offset = piece.end_offset
    return found


@pytest.mark.parametrize("offsets", [[4, 5, 6, 7], [4, 5, 9, 10, 17]], ids=["dense", "compacted"])
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("bytes_max", [1, 10**6])
def test_no_bit_of_a_header_moves_or_hides_a_batch(
    offsets: list[int], number: int, bytes_max: int
) -> None:
    disk, positions = written(offsets)
    path, end = HOME / f"{offsets[0]:020}.log", offsets[-1] + 1
    for byte in set(range(HEADER_BYTES)) - set(EPOCH):
        for bit in range(8):
            copy = disk.kill9()
            copy.flip_bit(path, positions[number] + byte, bit)
            try:
                segment = opened(copy, offsets[0], end)
            except CorruptBatch:
                continue
            for start in range(offsets[0], end):
                try:
                    found = served(segment, start, end, bytes_max)
                except CorruptBatch:
                    continue
                others = [each for at, each in enumerate(offsets) if at != number]
                # In a gap that compaction has left, a batch may be anywhere.
                moved = [each for each in found if each not in others]
                assert all(each in _around(offsets, number) for each in moved)
                assert [each for each in found if each in others] == [
                    o for o in others if o >= start
                ]
                if offsets[number] >= start and len(_around(offsets, number)) == 1:
                    assert moved


def _around(offsets: list[int], number: int) -> range:
    low = offsets[number - 1] + 1 if number else offsets[0]
    high = offsets[number + 1] if number + 1 < len(offsets) else offsets[-1] + 1
    return range(low, high)


def test_what_is_before_the_damage_is_served() -> None:
    disk, positions = written([0, 1, 2, 3])
    disk.flip_bit(HOME / f"{0:020}.log", positions[2] + 3, 4)
    segment = opened(disk, 0, 4)
    piece = segment.read(0, 10**6)
    assert [header.base_offset for header in taken(piece)] == [0, 1]
    with pytest.raises(CorruptBatch):
        segment.read(2, 10**6)


class CountingDisk(SimulatedDisk):
    """Counts the bytes that are read of files."""

    bytes_read = 0

    def open(self, path: Path, *, must_exist: bool = False) -> Any:
        file, disk = super().open(path, must_exist=must_exist), self

        class Counting:
            def read(self, position: int, size: int) -> bytes:
                data = file.read(position, size)
                disk.bytes_read += len(data)
                return data

            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

        return Counting()


def test_whoever_reads_on_reads_little_twice() -> None:
    """Slices that follow each other are sent as they are: only the first batch of each is read."""
    disk = CountingDisk()
    disk.make_directory(HOME)
    segment = Segment(disk, HOME, 0)
    for offset in range(1000):
        append(segment, batch(offset))
    segment.seal()
    segment.flush()
    segment, offset = opened(disk, 0, 1000), 0
    read = []
    while (piece := segment.read(offset, 20_000)) is not None:
        read.append(disk.bytes_read)
        offset = piece.end_offset
    assert len(read) > 5
    assert read[-1] - read[0] < (len(read) - 1) * 10_000


@pytest.mark.parametrize("number", [0, 10, 20])
def test_the_first_batch_of_each_slice_is_sound(number: int) -> None:
    disk, positions = written(list(range(40)))
    slice_bytes = positions[10]
    disk.flip_bit(HOME / f"{0:020}.log", positions[number] + HEADER_BYTES + 3, 4)
    segment = opened(disk, 0, 40)
    for offset in range(0, number, 10):
        assert segment.read(offset, slice_bytes) is not None
    with pytest.raises(CorruptBatch):
        segment.read(number, slice_bytes)


def test_what_is_behind_the_damage_is_served_where_an_index_entry_leads() -> None:
    disk, positions = written(list(range(20)), interval=150)
    disk.flip_bit(HOME / f"{0:020}.log", positions[2] + 7, 6)
    segment = opened(disk, 0, 20)
    assert served(segment, 12, 20) == list(range(12, 20))


def test_a_sealed_segment_ends_where_the_next_one_begins() -> None:
    disk, positions = written([0, 1, 2])
    path = HOME / f"{0:020}.log"
    for byte in (0, 4, 7, 23, 26):
        copy = disk.kill9()
        copy.flip_bit(path, positions[2] + byte, 2)
        segment = opened(copy, 0, 3)
        assert segment.next_offset == 3
        with pytest.raises(CorruptBatch):
            served(segment, 2, 3)
        assert served(segment, 0, 2) == [0, 1]


def test_a_gap_that_kafkas_compaction_has_left_at_the_end_stays() -> None:
    disk, _ = written([0, 1, 2])
    segment = opened(disk, 0, 10)
    assert segment.next_offset == 3
    assert segment.read(5, 100) is None


def test_a_log_that_was_closed_is_refused_if_its_last_batch_has_moved(tmp_path: Path) -> None:
    disk = RealDisk()
    home = tmp_path / "t-0"
    log = Log.open(disk, home, LogConfig())
    add(log, batch_of())
    log.close()
    path = home / f"{0:020}.log"
    true = path.read_bytes()
    for byte in (0, 3, 6, 26):
        data = bytearray(true)
        data[byte] ^= 4
        path.write_bytes(data)
        with pytest.raises(CorruptLog):
            Log.open(disk, home, LogConfig(), closed_end=log.end_offset)
    path.write_bytes(true)
    assert Log.open(disk, home, LogConfig(), closed_end=log.end_offset).end_offset == 1


def test_recovery_keeps_no_batch_that_the_next_one_contradicts() -> None:
    disk, positions = written([0, 1, 2, 3])
    disk.flip_bit(HOME / f"{0:020}.log", positions[1] + 5, 3)
    segment, dropped = Segment.recover(disk, HOME, 0, 150)
    assert (segment.next_offset, dropped) == (1, positions[3] - positions[0])
    assert served(segment, 0, 1) == [0]


def test_an_index_is_not_built_from_offsets_that_cannot_be() -> None:
    disk, positions = written(list(range(8)), interval=10)
    disk.flip_bit(HOME / f"{0:020}.log", positions[3] + 1, 3)
    disk.remove(HOME / f"{0:020}.index")
    with pytest.raises(CorruptBatch):
        Segment.open(disk, HOME, 0, 10)


def test_no_bit_of_an_index_of_aborted_transactions_shows_what_was_aborted() -> None:
    disk = SimulatedDisk()
    log = Log.open(disk, HOME, CONFIG)
    for sequence in range(3):
        add(log, batch_of(producer_id=BOB, sequence=sequence))
        add(log, batch_of(producer_id=ANN, sequence=sequence, is_transactional=True))
        add(log, marker(ANN, ControlType.ABORT))
    log.advance_high_watermark(log.end_offset)
    log.close()
    end = log.end_offset
    wanted = log.aborted(0, end)
    name = next(name for name in disk.names(HOME) if name.endswith(".txnindex"))
    for position in range(disk.size(HOME / name)):
        for bit in range(8):
            copy = disk.kill9()
            copy.flip_bit(HOME / name, position, bit)
            found = Log.open(copy, HOME, CONFIG, high_watermark=end).aborted(0, end)
            assert [each[:3] for each in found] == [each[:3] for each in wanted]
