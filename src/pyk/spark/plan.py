"""Which bytes of which segments are read, and how they are shared out to tasks.

    logs -> the offsets that are wanted -> extents of segments -> tiles of them -> splits

Indexes tell where an offset or a time is. Of the data itself only headers of batches are read: one
where a segment is cut in two, and those behind what is indexed, which is the segment that a broker
appends to. Readers of committed records also learn here what was aborted, so that a transaction may
span any number of splits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pyk.log.stability import Stability, find_stability
from pyk.log.stored_log import LogDamaged, SegmentGone, StoredLog
from pyk.log.stored_segment import DamagedBatch, FileId, StoredSegment
from pyk.log.transactions import AbortedTransaction
from pyk.spark.bounds import EVERYTHING, Bounds, Interval
from pyk.spark.logs import DataLost, find_logs
from pyk.spark.options import EARLIEST, LATEST, InvalidOption, Offsets, ReadOptions
from pyk.types import TopicPartition, Uuid
from pyk.wire.compression import CorruptBatch

SPLITS_WANTED: Final = 64
"""How many there are, unless they would be larger or smaller than is good."""
SPLIT_BYTES_MAX: Final = 128 * 1024 * 1024
SPLIT_BYTES_MIN: Final = 4 * 1024 * 1024
_ATTEMPTS: Final = 5


class Tile(NamedTuple):
    """Whole batches that are next to each other in a segment."""

    base: int
    """Of the segment."""
    file_id: FileId
    """The file for which the positions hold."""
    position: int
    end_position: int
    offsets: Interval
    """That the batches may cover. If the file is another by now, it is these that count."""
    segment_end: int
    """All offsets of the segment are before it."""

    @property
    def size(self) -> int:
        return self.end_position - self.position


class Split(NamedTuple):
    """What one task reads."""

    directory: str
    partition: TopicPartition
    tiles: tuple[Tile, ...]
    offsets: Interval
    """Of the records that are wanted."""
    aborted: tuple[AbortedTransaction, ...]
    """The transactions of which no record is."""
    topic_id: Uuid | None = None
    """If it is known. Another topic may have the name by the time that it is read."""

    @property
    def size(self) -> int:
        return sum(tile.size for tile in self.tiles)


class Extent(NamedTuple):
    """What is wanted of a partition, before it is shared out."""

    log: StoredLog
    offsets: Interval
    tiles: list[Tile]
    aborted: list[AbortedTransaction]
    topic_id: Uuid | None

    @property
    def size(self) -> int:
        return sum(tile.size for tile in self.tiles)


def plan(options: ReadOptions, bounds: Bounds = EVERYTHING) -> list[Split]:
    """Raise InvalidOption, LogDamaged, DataLost."""
    extents = [_extent(log, options, bounds) for log in find_logs(options, bounds)]
    total = sum(extent.size for extent in extents)
    tile_bytes = min(max(total // SPLITS_WANTED, SPLIT_BYTES_MIN), SPLIT_BYTES_MAX)
    tile_bytes = max(min(tile_bytes, total // options.min_partitions), 1)
    return [split for extent in extents for split in _splits(extent, tile_bytes)]


def _extent(log: StoredLog, options: ReadOptions, bounds: Bounds) -> Extent:
    for _ in range(_ATTEMPTS):
        bases = list(log.bases)
        try:
            extent = _LogPlan(log, options, bounds, _topic_id(log, options)).extent()
            log.refresh()
        except FileNotFoundError:
            # A segment went while it was looked at.
            log.refresh()
            continue
        except DamagedBatch as wrong:
            raise damaged(wrong) from None
        # One that took the place of several may have been looked at as if it were the first.
        if log.bases[: len(bases)] == bases and _topic_id(log, options) == extent.topic_id:
            return extent
    raise SegmentGone(f"segments of {log.directory} go faster than they can be looked at")


def _topic_id(log: StoredLog, options: ReadOptions) -> Uuid | None:
    """Raise LogDamaged, unless that is skipped: then nobody knows."""
    try:
        return log.topic_id()
    except LogDamaged:
        if not options.skips_damage:
            raise
        return None


def damaged(wrong: DamagedBatch) -> LogDamaged:
    return LogDamaged(
        f"{wrong.path} is damaged at {wrong.position}: {wrong}; damage=skip goes on behind it"
    )


class _LogPlan:
    """The plan for one partition."""

    def __init__(
        self, log: StoredLog, options: ReadOptions, bounds: Bounds, topic_id: Uuid | None
    ) -> None:
        self._log = log
        self._options = options
        self._bounds = bounds
        self._topic_id = topic_id
        self._name = f"{log.partition.topic}-{log.partition.partition}"

    def extent(self) -> Extent:
        stability = Stability(0, [])
        start = end = 0
        if self._log.bases:
            start = max(self._log.bases[0], self._log.known.start_offset)
            stability = self._stability(start)
            end = stability.last_stable_offset
        there = Interval(start, max(end, start))
        asked = Interval(self._starting(there), self._ending(there))
        wanted = asked.within(self._bounds.offset.start, self._bounds.offset.end)
        tiles = list(self._tiles(wanted)) if wanted.start < wanted.end else []
        return Extent(self._log, wanted, tiles, stability.aborted, self._topic_id)

    def _stability(self, start: int) -> Stability:
        """What may be seen, and what of that was aborted. Notes the end of the log, too."""
        self._tail = self._log.open(self._log.bases[-1]).tail()
        skips_damage = self._options.skips_damage
        if self._tail.damage is not None and not skips_damage:
            raise self._tail.damage
        self._end = end = max(self._tail.end_offset, start)
        if not self._options.is_committed:
            return Stability(end, [])
        return find_stability(self._log, start, end, skips_damage=skips_damage)

    def _starting(self, there: Interval) -> int:
        bound = self._options.starting
        asked = bound.by_partition.get(self._log.partition, bound.default)
        assert asked is not None
        if isinstance(bound, Offsets):
            return self._clipped("startingOffsets", asked, there)
        found = self._find_timestamp(asked, there)
        if found is None and not self._options.late_start_is_latest:
            raise InvalidOption(
                f"{self._name} has no record at or after the time {asked} to start from;"
                " startingOffsetsByTimestampStrategy=latest starts at the end"
            )
        return there.end if found is None else found

    def _ending(self, there: Interval) -> int:
        bound = self._options.ending
        asked = bound.by_partition.get(self._log.partition, bound.default)
        assert asked is not None
        if isinstance(bound, Offsets):
            return self._clipped("endingOffsets", asked, there)
        found = self._find_timestamp(asked, there)
        return there.end if found is None else found

    def _clipped(self, name: str, asked: int, there: Interval) -> int:
        if asked in (EARLIEST, LATEST):
            return there.start if asked == EARLIEST else there.end
        if there.start <= asked <= there.end:
            return asked
        if self._options.fails_on_data_loss:
            raise DataLost(
                f"{name}: {self._name} has the offsets from {there.start} to before {there.end},"
                f" and not {asked}; failOnDataLoss=false reads what there is"
            )
        return min(max(asked, there.start), there.end)

    def _find_timestamp(self, timestamp: int, there: Interval) -> int | None:
        for base in self._log.bases:
            if (self._log.end_of(base) or there.end) <= there.start:
                continue
            segment = self._log.open(base)
            newest = segment.newest_timestamp()
            if newest is not None and newest < timestamp:
                continue
            try:
                found = segment.find_timestamp(timestamp, there.start)
            except DamagedBatch:
                raise
            except CorruptBatch as wrong:
                raise LogDamaged(f"{segment.path}: {wrong}") from None
            if found is not None:
                return found if found < there.end else None
        return None

    def _tiles(self, wanted: Interval) -> Iterator[Tile]:
        for base in self._log.bases:
            segment_end = self._log.end_of(base) or self._end
            inside = wanted.within(base, segment_end)
            if inside.start < inside.end:
                tile = self._tile(base, inside, segment_end)
                if tile is not None and tile.size > 0:
                    yield tile

    def _tile(self, base: int, inside: Interval, segment_end: int) -> Tile | None:
        """What there is of a segment, if anything of it is wanted."""
        oldest = self._bounds.timestamp_ms.start
        is_last = base == self._log.bases[-1]
        is_whole = inside == Interval(base, segment_end)
        if is_whole and not is_last and oldest <= 0:
            size, file_id = self._log.size_of(base)
            return Tile(base, file_id, 0, size, inside, segment_end)
        segment = self._log.open(base)
        if oldest > 0:
            newest = segment.newest_timestamp()
            if newest is not None and newest < oldest:
                return None
            inside = inside.within(start=segment.offset_before(oldest))
        # What is damaged at the end is read, so that it is reported.
        has_torn_tail = is_last and self._tail.damage is None
        end_position = self._tail.end_position if has_torn_tail else segment.size
        if inside.end < segment_end:
            end_position = min(end_position, boundary_of(segment, inside.end))
        position = segment.seek(inside.start)
        return Tile(base, segment.file_id, position, end_position, inside, segment_end)


def boundary_of(segment: StoredSegment, offset: int) -> int:
    """Where nothing is needed any more. What is damaged there is for whoever reads it to find."""
    try:
        return segment.boundary(offset)
    except DamagedBatch as wrong:
        return segment.indexed_after(wrong.position) or segment.size


def _splits(extent: Extent, tile_bytes: int) -> Iterator[Split]:
    """Tiles that are too large are cut, small ones go together."""
    cut = (part for tile in extent.tiles for part in _cut(extent.log, tile, tile_bytes))
    for tiles in _packed(cut, tile_bytes):
        first, end = tiles[0].offsets.start, tiles[-1].offsets.end
        yield Split(
            str(extent.log.directory),
            extent.log.partition,
            tuple(tiles),
            extent.offsets,
            tuple(
                each
                for each in extent.aborted
                if each.last_offset >= first and each.first_offset < end
            ),
            extent.topic_id,
        )


def _packed(tiles: Iterable[Tile], bytes_max: int) -> Iterator[list[Tile]]:
    packed: list[Tile] = []
    for tile in tiles:
        if packed and sum(each.size for each in packed) + tile.size > bytes_max:
            yield packed
            packed = []
        packed.append(tile)
    if packed:
        yield packed


def _cut(log: StoredLog, tile: Tile, bytes_max: int) -> Iterator[Tile]:
    """The tile in parts of about that size, each of whole batches."""
    parts = math.ceil(tile.size / bytes_max)
    if parts > 1 and (segment := _opened(log, tile)) is not None:
        step = tile.size / parts
        try:
            for part in range(1, parts):
                goal = tile.end_position - round(step * (parts - part))
                found = segment.batch_before(goal, tile.position)
                if found is None or found.header.base_offset not in tile.offsets:
                    continue
                offset, position = found.header.base_offset, found.position
                if position > tile.position and offset > tile.offsets.start:
                    yield tile._replace(
                        end_position=position, offsets=tile.offsets.within(end=offset)
                    )
                    tile = tile._replace(
                        position=position, offsets=tile.offsets.within(start=offset)
                    )
        except DamagedBatch:
            # Whoever reads it finds what is wrong.
            pass
    yield tile


def _opened(log: StoredLog, tile: Tile) -> StoredSegment | None:
    """The segment, if it still is the one that was planned with."""
    try:
        segment = log.open(tile.base)
    except FileNotFoundError:
        return None
    return segment if segment.file_id == tile.file_id else None
