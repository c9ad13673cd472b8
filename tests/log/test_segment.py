"""Segments: what is appended can be read, found by time, cut off and opened again."""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyk.disk import RealDisk
from pyk.log.index import TimedOffset
from pyk.log.indexed_batches import Piece
from pyk.log.segment import Segment, file_name
from pyk.wire.batch import BatchHeader, iterate_batches, read_header
from pyk.wire.compression import Compression, CorruptBatch
from pyk.wire.records import Record, build_batch, read_records

DISK = RealDisk()
TINY = 200
"""An index interval that gives entries to segments of a few batches."""


def batch(
    offset: int, *timestamps: int, value: bytes = b"v" * 50, codec: Compression = Compression.NONE
) -> bytes:
    records = [
        Record(offset=offset + i, timestamp=timestamp, key=None, value=value)
        for i, timestamp in enumerate(timestamps or (1000 + offset,))
    ]
    return build_batch(records, base_offset=offset, compression=codec)


def append(segment: Segment, *batches: bytes) -> None:
    for data in batches:
        segment.append(data, read_header(data))


def taken(piece: Piece | None) -> list[BatchHeader]:
    """The headers of the batches that were read, which must be whole and end where it says."""
    if piece is None:
        return []
    found = piece.records
    data = found.file.read(found.position, found.size)  # type: ignore[attr-defined]
    headers = [header for _, header in iterate_batches(data, torn_tail_allowed=False)]
    assert headers[-1].next_offset <= piece.end_offset
    return headers


def offsets(piece: Piece | None) -> list[int]:
    return [header.base_offset for header in taken(piece)]


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    return Segment(DISK, tmp_path, base_offset=100, index_interval_bytes=TINY)


def test_a_new_segment_is_empty(segment: Segment, tmp_path: Path) -> None:
    assert (segment.base_offset, segment.next_offset, segment.size) == (100, 100, 0)
    assert segment.read(100, 1000) is None
    assert segment.find_timestamp(0, 100) is None
    assert (tmp_path / "00000000000000000100.log").exists()


def test_a_read_starts_with_the_batch_that_holds_the_offset(segment: Segment) -> None:
    append(segment, batch(100, 1, 2, 3), batch(103, 4), batch(104, 5, 6))
    assert offsets(segment.read(100, 10**6)) == [100, 103, 104]
    assert offsets(segment.read(102, 10**6)) == [100, 103, 104]
    assert offsets(segment.read(103, 10**6)) == [103, 104]
    assert offsets(segment.read(105, 10**6)) == [104]
    assert segment.read(106, 10**6) is None


def test_a_gap_is_read_over(segment: Segment) -> None:
    append(segment, batch(100), batch(150), batch(190))
    assert offsets(segment.read(101, 10**6)) == [150, 190]
    assert offsets(segment.read(151, 10**6)) == [190]


def test_one_that_was_removed_is_not_made_again(segment: Segment, tmp_path: Path) -> None:
    append(segment, batch(100), batch(101))
    segment.flush()
    segment.release()
    segment.path.unlink()
    with pytest.raises(FileNotFoundError):
        segment.read(100, 1)
    assert not segment.path.exists()


@pytest.mark.parametrize("step", [1, 3, -1, 7])
def test_whoever_goes_on_or_back_finds_the_same(tmp_path: Path, step: int) -> None:
    """Where it was last does not matter, with an index that knows of few batches."""
    segment = Segment(DISK, tmp_path, base_offset=100, index_interval_bytes=1000)
    bases = list(range(100, 200, 5))
    append(segment, *(batch(base, 1, 2, 3) for base in bases))
    for offset in [100 + at * step % 100 for at in range(300)]:
        expected = [base for base in bases if base + 2 >= offset]
        assert offsets(segment.read(offset, 10**6)) == expected, offset


def test_where_a_reader_was_is_forgotten_with_what_was_there(tmp_path: Path) -> None:
    segment = Segment(DISK, tmp_path, base_offset=100, index_interval_bytes=10**6)
    append(segment, *(batch(offset) for offset in range(100, 120)))
    assert offsets(segment.read(110, 1)) == [110]
    segment.truncate(105)
    append(segment, *(batch(offset, value=b"x" * 7) for offset in range(105, 120)))
    assert offsets(segment.read(112, 1)) == [112]


def test_the_first_batch_is_returned_even_beyond_the_limit(segment: Segment) -> None:
    large = batch(100, value=b"x" * 5000)
    append(segment, large, batch(101), batch(102))
    assert offsets(segment.read(100, 1)) == [100]
    assert offsets(segment.read(100, len(large))) == [100]
    small = len(batch(101))
    assert offsets(segment.read(100, len(large) + small - 1)) == [100]
    assert offsets(segment.read(100, len(large) + small)) == [100, 101]


def test_nothing_is_returned_that_reaches_the_end_offset(segment: Segment) -> None:
    append(segment, *(batch(offset, 1, 2) for offset in range(100, 140, 2)))
    for end in range(100, 141):
        expected = [offset for offset in range(100, 140, 2) if offset + 1 < end]
        assert offsets(segment.read(100, 10**6, end_offset=end)) == expected, end
    assert segment.read(139, 10**6, end_offset=139) is None


@pytest.mark.parametrize("codec", Compression)
def test_a_timestamp_finds_the_first_record_at_or_after_it(
    segment: Segment, codec: Compression
) -> None:
    append(
        segment,
        batch(100, 10, 20, 15, codec=codec),
        batch(103, 18, 5, codec=codec),
        batch(105, 30, 40, codec=codec),
    )
    assert segment.find_timestamp(0, 100) == (10, 100)
    assert segment.find_timestamp(11, 100) == (20, 101)
    assert segment.find_timestamp(11, 102) == (15, 102)
    assert segment.find_timestamp(16, 102) == (18, 103)
    assert segment.find_timestamp(31, 100) == (40, 106)
    assert segment.find_timestamp(40, 100) == (40, 106)
    assert segment.find_timestamp(41, 100) is None
    assert segment.newest == TimedOffset(40, 106)


def test_truncating_forgets_every_batch_that_reaches_the_offset(segment: Segment) -> None:
    append(segment, *(batch(offset, offset, offset + 1) for offset in range(100, 140, 2)))
    segment.truncate(121)
    assert (segment.next_offset, offsets(segment.read(100, 10**6))[-1]) == (120, 118)
    assert segment.newest == TimedOffset(119, 119)
    assert segment.find_timestamp(120, 100) is None
    append(segment, batch(120, 500))
    assert segment.find_timestamp(120, 100) == (500, 120)
    segment.truncate(0)
    assert (segment.next_offset, segment.size) == (100, 0)


def test_a_slice_outlives_its_file(segment: Segment, tmp_path: Path) -> None:
    append(segment, batch(100), batch(101))
    piece = segment.read(100, 10**6)
    for path in tmp_path.iterdir():
        path.unlink()
    del segment
    assert offsets(piece) == [100, 101]


def reopened(segment: Segment) -> Segment:
    segment.seal()
    segment.flush()
    return Segment.open(DISK, segment.path.parent, segment.base_offset, TINY)


def test_a_closed_segment_opens_as_it_was(segment: Segment) -> None:
    append(segment, *(batch(offset, offset * 3) for offset in range(100, 150)))
    again = reopened(segment)
    assert (again.next_offset, again.size, again.newest) == (150, segment.size, segment.newest)
    assert again.first_timestamp == segment.first_timestamp == 300
    assert offsets(again.read(120, 10**6)) == list(range(120, 150))
    assert again.find_timestamp(400, 100) == (402, 134)
    append(again, batch(150, 1000))
    assert reopened(again).next_offset == 151


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage", [b"", b"\xff" * 24, b"\0" * 240, b"odd", b"\x7f\xff\xff\xff" * 6]
)
def test_a_damaged_index_is_built_anew(
    segment: Segment, tmp_path: Path, suffix: str, damage: bytes
) -> None:
    append(segment, *(batch(offset, offset * 3) for offset in range(100, 150)))
    segment.seal()
    segment.flush()
    path = tmp_path / file_name(100, suffix)
    path.write_bytes(damage)
    again = Segment.open(DISK, tmp_path, 100, TINY)
    assert again.next_offset == 150
    assert [again.find_timestamp(t, 100) for t in (0, 301, 448)] == [
        (300, 100), (303, 101), None,
    ]  # fmt: skip
    assert offsets(again.read(149, 1)) == [149]
    append(again, batch(150, 900))
    assert reopened(again).find_timestamp(448, 100) == (900, 150)


@pytest.mark.parametrize("entry", [(1, 7), (49, 1), (0, 0)])
def test_an_index_that_is_in_order_and_wrong_is_built_anew(
    segment: Segment, tmp_path: Path, entry: tuple[int, int]
) -> None:
    batches = [batch(offset) for offset in range(100, 150)]
    append(segment, *batches)
    segment.seal()
    segment.flush()
    offset, position = entry
    if not offset:
        position = sum(map(len, batches[:-1]))  # Of the last one, which is not at offset 100.
    path = tmp_path / file_name(100, ".index")
    path.write_bytes(struct.pack(">II", offset, position))
    again = Segment.open(DISK, tmp_path, 100, TINY)
    assert again.next_offset == 150
    for wanted in (100, 120, 149):
        assert offsets(again.read(wanted, 1)) == [wanted]


@pytest.mark.parametrize("cut", [1, 17, 60, 61, 62, 100])
def test_recovery_keeps_every_whole_batch(segment: Segment, tmp_path: Path, cut: int) -> None:
    append(segment, *(batch(offset) for offset in range(100, 120)))
    size = segment.size
    with segment.path.open("ab") as file:
        file.write(batch(120, value=b"z" * 100)[:cut])
    again, dropped = Segment.recover(DISK, tmp_path, 100, TINY, durable_end=120)
    assert (again.next_offset, again.size, dropped) == (120, size, cut)
    assert offsets(again.read(110, 10**6)) == list(range(110, 120))


def test_recovery_drops_what_follows_a_batch_with_a_wrong_crc(
    segment: Segment, tmp_path: Path
) -> None:
    append(segment, batch(100), batch(101), batch(102))
    data = bytearray(segment.path.read_bytes())
    data[len(batch(100)) + 70] ^= 1
    segment.path.write_bytes(data)
    again, dropped = Segment.recover(DISK, tmp_path, 100, TINY)
    assert again.next_offset == 101
    assert dropped == len(batch(101)) + len(batch(102))


def test_recovery_reports_damage_to_what_was_durable(segment: Segment, tmp_path: Path) -> None:
    append(segment, batch(100), batch(101), batch(102))
    data = bytearray(segment.path.read_bytes())
    data[len(batch(100)) + 70] ^= 1
    segment.path.write_bytes(data)
    with pytest.raises(CorruptBatch, match="offset 101, which was durable"):
        Segment.recover(DISK, tmp_path, 100, TINY, durable_end=102)
    assert segment.path.read_bytes() == data


def first_record(
    model: list[tuple[BatchHeader, list[Record]]], timestamp: int, offset: int
) -> tuple[int, int] | None:
    """The time and offset of the first record at or after both, in a list of batches."""
    found = (
        (record.timestamp, record.offset)
        for _, records in model
        for record in records
        if record.timestamp >= timestamp and record.offset >= offset
    )
    return next(found, None)


def open_files(directory: Path) -> int:
    links = [Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    return sum(link.is_symlink() and link.readlink().parent == directory for link in links)


def test_a_released_segment_opens_its_files_when_it_needs_them(
    segment: Segment, tmp_path: Path
) -> None:
    append(segment, batch(100), batch(101))
    segment.flush()
    assert open_files(tmp_path) == 3
    segment.release()
    assert open_files(tmp_path) == 0
    assert offsets(segment.read(101, 100)) == [101]
    append(segment, batch(102))
    assert reopened(segment).next_offset == 103


def test_recovery_drops_a_tail_of_zeros(segment: Segment, tmp_path: Path) -> None:
    append(segment, batch(100))
    with segment.path.open("ab") as file:
        file.write(bytes(10_000))
    again, dropped = Segment.recover(DISK, tmp_path, 100, TINY)
    assert (again.next_offset, dropped) == (101, 10_000)


def test_opening_what_needs_recovery_says_so(segment: Segment, tmp_path: Path) -> None:
    append(segment, batch(100))
    with segment.path.open("ab") as file:
        file.write(batch(101)[:70])
    with pytest.raises(CorruptBatch, match="cut off"):
        Segment.open(DISK, tmp_path, 100, TINY)


class SegmentAgainstAList(RuleBasedStateMachine):
    """Whatever is done to a segment, it is a list of batches."""

    @initialize()
    def begin(self) -> None:
        self._home = tempfile.TemporaryDirectory()
        self.segment = Segment(DISK, Path(self._home.name), 7, TINY)
        self.model: list[tuple[BatchHeader, list[Record]]] = []

    def teardown(self) -> None:
        if hasattr(self, "_home"):
            del self.segment
            self._home.cleanup()

    @rule(gap=st.integers(0, 3), times=st.lists(st.integers(0, 300), min_size=1, max_size=4))
    def append(self, gap: int, times: list[int]) -> None:
        data = batch(self.segment.next_offset + gap, *times)
        append(self.segment, data)
        self.model.append((read_header(data), list(read_records(data))))

    @rule(offset=st.integers(0, 120))
    def truncate(self, offset: int) -> None:
        self.segment.truncate(offset)
        self.model = [each for each in self.model if each[0].last_offset < offset]

    @rule()
    def reopen(self) -> None:
        self.segment = reopened(self.segment)

    @rule()
    def recover(self) -> None:
        self.segment, dropped = Segment.recover(DISK, self.segment.path.parent, 7, TINY)
        assert not dropped

    @rule(offset=st.integers(0, 150), limit=st.integers(0, 900), end=st.integers(0, 150))
    def read(self, offset: int, limit: int, end: int) -> None:
        found = [h for h, _ in self.model if h.last_offset >= offset]
        expected: list[int] = []
        size = 0
        for header in found:
            size += header.size
            if header.last_offset >= end or (expected and size > limit):
                break
            expected.append(header.base_offset)
        assert offsets(self.segment.read(offset, limit, end_offset=end)) == expected

    @rule(timestamp=st.integers(0, 320), offset=st.integers(0, 150))
    def find(self, timestamp: int, offset: int) -> None:
        expected = first_record(self.model, timestamp, offset)
        assert self.segment.find_timestamp(timestamp, offset) == expected

    @invariant()
    def ends_where_the_list_ends(self) -> None:
        if hasattr(self, "segment"):
            headers = [header for header, _ in self.model]
            assert self.segment.next_offset == (headers[-1].next_offset if headers else 7)
            assert self.segment.size == sum(header.size for header in headers)
            newest = max((header.max_timestamp for header in headers), default=-1)
            assert self.segment.newest.timestamp == newest


TestSegmentAgainstAList = SegmentAgainstAList.TestCase
TestSegmentAgainstAList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
