"""A log over many segments behaves as over one."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyk.disk import RealDisk
from pyk.log.config import LogConfig
from pyk.log.index import TimedOffset
from pyk.log.segments import CorruptLog, Segments
from pyk.log.timestamps import first_record, newest_record, run_through
from pyk.wire.batch import BatchHeader, read_header
from pyk.wire.records import Record, read_records
from tests.log.test_segment import batch, offsets, taken
from tests.log.test_segment import first_record as first_in_model

DISK = RealDisk()
NOW = 1_000
SMALL = LogConfig(segment_bytes=500, index_interval_bytes=150)


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    return Segments.open(DISK, tmp_path / "t-0", SMALL)


def find_timestamp(segments: Segments, timestamp: int, start_offset: int) -> TimedOffset | None:
    return run_through(first_record(segments, timestamp, lambda: start_offset))


def find_newest(segments: Segments, start_offset: int) -> TimedOffset | None:
    return run_through(newest_record(segments, lambda: start_offset))


def append(segments: Segments, *batches: bytes, now_ms: int = NOW) -> None:
    for data in batches:
        segments.append(data, read_header(data), now_ms)


def filled(segments: Segments, count: int = 40) -> Segments:
    append(segments, *(batch(offset, offset * 10) for offset in range(count)))
    return segments


def everything(segments: Segments) -> list[int]:
    """The base offsets of all batches, read as a consumer reads."""
    found: list[int] = []
    offset = segments.start_offset
    while headers := taken(segments.read(offset, 10**6)):
        found += [header.base_offset for header in headers]
        offset = headers[-1].next_offset
    return found


def test_a_new_log_begins_at_zero(segments: Segments) -> None:
    assert (segments.start_offset, segments.end_offset, segments.size) == (0, 0, 0)
    assert segments.read(0, 100) is None
    assert find_newest(segments, 0) is None


def test_a_full_segment_is_followed_by_another(segments: Segments) -> None:
    filled(segments)
    assert len(segments.bases) > 5
    assert all(segments.size_of(base) <= 500 for base in segments.bases)
    assert everything(segments) == list(range(40))


def test_a_batch_larger_than_a_segment_has_one_for_itself(segments: Segments) -> None:
    append(segments, batch(0), batch(1, value=b"x" * 2000), batch(2))
    assert segments.bases == [0, 1, 2]


def test_a_segment_is_not_older_than_it_may_be(tmp_path: Path) -> None:
    segments = Segments.open(DISK, tmp_path, LogConfig(segment_ms=100))
    append(segments, batch(0, 1000), batch(1, 1100))
    assert list(segments.bases) == [0]
    append(segments, batch(2, 1101))
    assert list(segments.bases) == [0, 2]


def test_a_segment_ends_when_its_index_is_full(tmp_path: Path) -> None:
    config = LogConfig(segment_index_bytes=5 * 12, index_interval_bytes=1)
    segments = Segments.open(DISK, tmp_path, config)
    filled(segments, 20)
    assert len(segments.bases) > 2
    assert everything(segments) == list(range(20))


def test_offsets_of_a_segment_fit_into_its_index(segments: Segments) -> None:
    append(segments, batch(0, 5), batch(2**31 - 1, 5), batch(2**31, 5))
    assert segments.bases == [0, 2**31]
    assert offsets(segments.read(5, 10**6)) == [2**31 - 1]
    assert offsets(segments.read(2**31, 10**6)) == [2**31]


def test_a_timestamp_is_found_in_any_segment(segments: Segments) -> None:
    filled(segments)
    assert find_timestamp(segments, 195, 0) == (200, 20)
    assert find_timestamp(segments, 195, 30) == (300, 30)
    assert find_timestamp(segments, 391, 0) is None
    assert find_newest(segments, 0) == (390, 39)


def test_truncating_removes_segments_and_cuts_one(segments: Segments) -> None:
    filled(segments)
    segments.truncate(17)
    assert (segments.end_offset, everything(segments)) == (17, list(range(17)))
    append(segments, batch(17, 5))
    assert find_newest(segments, 0) == (160, 16)


def test_truncating_before_the_start_begins_again_there(segments: Segments) -> None:
    filled(segments)
    segments.drop_before(20)
    segments.truncate(3)
    assert (segments.start_offset, segments.end_offset, segments.size) == (3, 3, 0)
    append(segments, batch(3))
    assert everything(segments) == [3]


def test_whole_segments_are_dropped_from_the_start(segments: Segments, tmp_path: Path) -> None:
    filled(segments)
    second, third = segments.bases[1:3]
    piece = segments.read(0, 10**6)
    assert segments.drop_before(second - 1) == []
    assert segments.drop_before(third) == [0, second]
    assert segments.start_offset == third
    assert [name for name in DISK.names(tmp_path / "t-0") if name.endswith(".deleted")]
    deleted = [name for name in DISK.names(tmp_path / "t-0") if name.endswith(".deleted")]
    assert segments.due_for_removal(now_ms=0) == []
    assert segments.due_for_removal(now_ms=59_999) == []
    assert sorted(segments.due_for_removal(now_ms=60_000)) == deleted != []
    segments.forget_removed(deleted)
    assert segments.due_for_removal(now_ms=60_000) == []
    assert offsets(piece) == list(range(second)), "a reader is still in it"
    segments.drop_before(10**9)
    assert len(segments.bases) == 1, "the active one stays"


def test_a_clean_log_opens_by_looking_at_its_last_segment(
    segments: Segments, tmp_path: Path
) -> None:
    filled(segments)
    assert segments.flush() == 40
    again = Segments.open(DISK, tmp_path / "t-0", SMALL)
    assert (again.end_offset, again.bases) == (40, segments.bases)
    assert everything(again) == list(range(40))


def test_a_released_log_holds_no_descriptor(segments: Segments) -> None:
    before = len(DISK.names(Path("/proc/self/fd")))
    filled(segments)
    everything(segments)
    segments.flush()
    segments.release()
    assert len(DISK.names(Path("/proc/self/fd"))) <= before
    assert everything(segments) == list(range(40))


def test_recovery_cuts_what_is_torn_and_what_comes_after(
    segments: Segments, tmp_path: Path
) -> None:
    filled(segments)
    segments.truncate(30)
    durable = segments.flush()
    append(segments, *(batch(offset) for offset in range(30, 40)))
    torn = segments.bases[-2]
    path = tmp_path / "t-0" / f"{torn:020}.log"
    path.write_bytes(path.read_bytes()[:-1])
    again = Segments.open(DISK, tmp_path / "t-0", SMALL, recovery_point=durable)
    assert durable <= again.end_offset < 40
    assert everything(again) == list(range(again.end_offset))
    assert again.dropped_bytes > 0


def test_damage_to_what_was_durable_is_reported(segments: Segments, tmp_path: Path) -> None:
    filled(segments)
    durable = segments.flush()
    path = tmp_path / "t-0" / f"{segments.bases[-1]:020}.log"
    kept = path.read_bytes()
    path.write_bytes(kept[:-1])
    with pytest.raises(CorruptLog, match=r"t-0: .* was durable"):
        Segments.open(DISK, tmp_path / "t-0", SMALL, recovery_point=durable)
    with pytest.raises(CorruptLog, match="cut off"):
        Segments.open(DISK, tmp_path / "t-0", SMALL)
    assert path.read_bytes() == kept[:-1]
    path.unlink()
    with pytest.raises(CorruptLog, match="before 40"):
        Segments.open(DISK, tmp_path / "t-0", SMALL, recovery_point=durable)


class SegmentsAgainstAList(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self._home = tempfile.TemporaryDirectory()
        self.segments = Segments.open(DISK, Path(self._home.name), SMALL)
        self.model: list[tuple[BatchHeader, list[Record]]] = []
        self.end = 0

    def teardown(self) -> None:
        if hasattr(self, "_home"):
            del self.segments
            self._home.cleanup()

    @rule(gap=st.integers(0, 3), times=st.lists(st.integers(0, 300), min_size=1, max_size=4))
    def append(self, gap: int, times: list[int]) -> None:
        data = batch(self.segments.end_offset + gap, *times)
        append(self.segments, data)
        self.model.append((read_header(data), list(read_records(data))))
        self.end = self.model[-1][0].next_offset

    @rule(offset=st.integers(0, 120))
    def truncate(self, offset: int) -> None:
        cut = offset < self.end
        self.segments.truncate(offset)
        self.model = [each for each in self.model if each[0].last_offset < offset]
        if cut:
            last = self.model[-1][0].next_offset if self.model else 0
            self.end = max(last, min(offset, self.segments.end_offset))

    @rule(offset=st.integers(0, 120))
    def drop(self, offset: int) -> None:
        gone = self.segments.drop_before(offset)
        start = self.segments.start_offset
        assert not gone or start <= offset
        self.model = [each for each in self.model if each[0].base_offset >= start]

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        point = self.segments.flush()
        path = Path(self._home.name)
        self.segments = Segments.open(DISK, path, SMALL, None if clean else point)
        assert self.segments.dropped_bytes == 0

    @rule(timestamp=st.integers(0, 320), offset=st.integers(0, 150))
    def find(self, timestamp: int, offset: int) -> None:
        expected = first_in_model(self.model, timestamp, offset)
        assert find_timestamp(self.segments, timestamp, offset) == expected

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        if hasattr(self, "segments"):
            assert everything(self.segments) == [header.base_offset for header, _ in self.model]
            assert self.segments.end_offset == self.end


TestSegmentsAgainstAList = SegmentsAgainstAList.TestCase
TestSegmentsAgainstAList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
