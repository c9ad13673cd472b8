"""The batches of a split, whole and checked, but for those that are nobody's to see.

A tile is read by position as long as its file is the one that was planned with. Compaction may have
put another in its place: then the batches are found anew, by offset. What is there of a split
cannot have grown meanwhile, and where it has become less, compaction or retention made it so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pyk.log.stored_log import SegmentGone, StoredLog
from pyk.log.stored_segment import DamagedBatch, StoredSegment
from pyk.log.transactions import AbortedTransaction
from pyk.spark.bounds import INT64_MAX, Interval
from pyk.spark.logs import DataLost
from pyk.spark.plan import Split, Tile, boundary_of, damaged
from pyk.types import Buffer
from pyk.wire.batch import HEADER_BYTES, BatchHeader, TimestampType, check_crc, peek_header
from pyk.wire.compression import CorruptBatch

READ_BYTES: Final = 4 * 1024 * 1024


class Found(NamedTuple):
    """A batch with records that may be wanted. Its CRC is right."""

    path: Path
    position: int
    header: BatchHeader
    data: Buffer
    offsets: Interval
    """Of the records that are wanted."""

    def damage(self, wrong: CorruptBatch) -> DamagedBatch:
        return DamagedBatch(self.path, self.position, str(wrong))


class Policy(NamedTuple):
    """What to do about what is wrong."""

    report: Callable[[str], None]
    """Told of what was left out, a sentence each."""
    skips_damage: bool = False
    fails_on_data_loss: bool = True

    def damage(self, wrong: DamagedBatch, end_position: int) -> int:
        """Raise LogDamaged, or report what is left out and give where to go on."""
        if not self.skips_damage:
            raise damaged(wrong)
        left_out = end_position - wrong.position
        self.report(
            f"{wrong.path} is damaged at {wrong.position}: {wrong}; {left_out} bytes are left out"
        )
        return end_position

    def loss(self, split: Split, tile: Tile) -> None:
        """Raise DataLost, or report it."""
        first, end = (
            max(split.offsets.start, tile.offsets.start),
            min(split.offsets.end, tile.offsets.end),
        )
        text = f"{split.directory} has lost its offsets from {first} to before {end} meanwhile"
        if self.fails_on_data_loss:
            raise DataLost(f"{text}; failOnDataLoss=false goes on without them")
        self.report(text)


def read_split(split: Split, timestamps: Interval, policy: Policy) -> Iterator[Found]:
    """The batches with records of these times that may be seen. Raise LogDamaged, DataLost."""
    visibility = _Visibility(split, timestamps)
    log: StoredLog | None = None
    for planned in split.tiles:
        try:
            log = log or StoredLog(Path(split.directory), split.partition)
            segment, tile, wanted = _opened(log, planned, split)
        except (FileNotFoundError, SegmentGone):
            policy.loss(split, planned)
            continue
        for found in _batches(segment, tile, wanted, policy):
            if visibility.has(found.header, wanted):
                yield found


def _opened(log: StoredLog, tile: Tile, split: Split) -> tuple[StoredSegment, Tile, Interval]:
    """The file that has the tile now, the tile as it is there, and what is wanted of it. Raise
    FileNotFoundError, SegmentGone, LogDamaged."""
    segment, offsets = log.open_at(tile.offsets.start), split.offsets
    if segment.file_id == tile.file_id:
        return segment, tile, offsets
    log.refresh()
    segment = log.open_at(tile.offsets.start)
    # Asked after it is open: what is there by then is of this topic, or of a later one.
    if split.topic_id is not None and log.topic_id() != split.topic_id:
        raise SegmentGone(f"{log.directory} belongs to another topic of that name")
    found = tile._replace(
        base=segment.base_offset,
        position=segment.seek(tile.offsets.start),
        end_position=boundary_of(segment, tile.offsets.end),
        segment_end=INT64_MAX,
    )
    return segment, found, offsets.within(tile.offsets.start, tile.offsets.end)


class _Visibility:
    """Which batches have records to be seen."""

    def __init__(self, split: Split, timestamps: Interval) -> None:
        self._timestamps = timestamps
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        for each in split.aborted:
            self._aborted.setdefault(each.producer_id, []).append(each)

    def has(self, header: BatchHeader, wanted: Interval) -> bool:
        if header.last_offset < wanted.start or header.base_offset >= wanted.end:
            return False
        if header.is_control or header.max_timestamp < self._timestamps.start:
            return False
        is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        if is_append_time and header.max_timestamp >= self._timestamps.end:
            return False
        return not header.is_transactional or not any(
            each.first_offset <= header.base_offset < each.last_offset
            for each in self._aborted.get(header.producer_id, ())
        )


def _batches(
    segment: StoredSegment, tile: Tile, wanted: Interval, policy: Policy
) -> Iterator[Found]:
    """All batches of the tile, whose CRCs are right."""
    chunk = _Chunk(segment, tile.end_position)
    position, next_offset = tile.position, tile.base
    while position < tile.end_position:
        header = None
        try:
            header = chunk.header(position)
            if not next_offset <= header.base_offset < tile.segment_end:
                raise CorruptBatch(f"an offset of {header.base_offset} after {next_offset - 1}")
            data = chunk.batch(position, header)
            check_crc(data, 0, header)
        except CorruptBatch as wrong:
            damage = DamagedBatch(segment.path, position, str(wrong))
            end = _end_of_damage(segment, position, header)
            position = policy.damage(damage, min(end, tile.end_position))
            continue
        yield Found(segment.path, position, header, data, wanted)
        position += header.size
        next_offset = header.next_offset


def _end_of_damage(segment: StoredSegment, position: int, header: BatchHeader | None) -> int:
    """Where the next batch is: right behind, if it looks so, or else where the index has one."""
    if header is not None:
        behind = position + header.size
        following = segment.peek(behind)
        if behind == segment.size or (
            following is not None and following.base_offset >= header.next_offset
        ):
            return behind
    return segment.indexed_after(position) or segment.size


class _Chunk:
    """Some megabytes of a segment, with those behind them when they are asked for."""

    def __init__(self, segment: StoredSegment, end_position: int) -> None:
        self._segment = segment
        self._end_position = end_position
        self._start = 0
        self._data = b""

    def header(self, position: int) -> BatchHeader:
        """Raise CorruptBatch."""
        self._need(position, HEADER_BYTES)
        header = peek_header(self._data, position - self._start)
        left = self._end_position - position
        if header.size > left:
            raise CorruptBatch(f"a batch of {header.size} bytes, of which {left} are there")
        return header

    def batch(self, position: int, header: BatchHeader) -> memoryview:
        """Raise CorruptBatch."""
        self._need(position, header.size)
        start = position - self._start
        data = memoryview(self._data)[start : start + header.size]
        if len(data) < header.size:
            raise CorruptBatch(f"a batch of {header.size} bytes, of which {len(data)} are there")
        return data

    def _need(self, position: int, size: int) -> None:
        if position < self._start or position + size > self._start + len(self._data):
            left = self._end_position - position
            self._start = position
            self._data = self._segment.read(position, max(min(READ_BYTES, left), size))
