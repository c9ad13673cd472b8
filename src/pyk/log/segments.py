"""The segments of a log, in order: one row of batches over many files.

    base 0 ........ | base 4711 ........ | base 9000 ...   <- active, the only one appended to

What makes a crash at any point harmless:

- A new segment is made where the last one ends, and its name synced, before it is appended to.
- Segments are removed from the end backwards when truncating, from the start forwards otherwise:
  what a crash leaves is always a row without holes.
- A segment that goes is renamed first (`.deleted`) and removed later: readers may still be in it.
  What a crash leaves of those is removed when the log is opened.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pyk.log.disk import Disk
from pyk.log.index import TimedOffset
from pyk.log.segment import INDEX_INTERVAL_BYTES, Segment, file_name
from pyk.types import Buffer, FileSlice
from pyk.wire.batch import BatchHeader
from pyk.wire.compression import CorruptBatch

DELETED = ".deleted"
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
OFFSET_SPAN_MAX = 2**31 - 1
"""Indexes count offsets from the base in 32 bits."""


class CorruptLog(Exception):
    """What was durable is damaged or gone. Nothing was cut away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentConfig:
    """When to begin a new segment. Kafka's names with the dots as underscores."""

    segment_bytes: int = 1024**3
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_index_bytes: int = 10 * 1024**2
    index_interval_bytes: int = INDEX_INTERVAL_BYTES


class Segments:
    def __init__(self, disk: Disk, directory: Path, config: SegmentConfig) -> None:
        self.config = config
        self.dropped_bytes = 0
        """What recovery has cut off."""
        self._disk = disk
        self._directory = directory
        self._bases: list[int] = []
        self._opened: dict[int, Segment] = {}
        self._unflushed_from = 0

    @classmethod
    def open(
        cls, disk: Disk, directory: Path, config: SegmentConfig, recovery_point: int | None = None
    ) -> Self:
        """The log in a directory, made if it is not there.

        After a clean shutdown `recovery_point` is None and only the last segment is looked into.
        Otherwise everything from it on is checked, and what a crash has torn is dropped. Raise
        CorruptLog if anything before it is damaged.
        """
        segments = cls(disk, directory, config)
        if not disk.exists(directory):
            disk.make_directory(directory)
            disk.sync_directory(directory.parent)
        segments.sweep()
        segments._bases = [int(n[:-4]) for n in disk.names(directory) if n.endswith(".log")]
        try:
            if recovery_point is not None:
                segments._recover(recovery_point)
            if not segments._bases:
                segments._create(0)
            segments._unflushed_from = segments.active.next_offset
        except CorruptBatch as damage:
            raise CorruptLog(f"{directory.name}: {damage}") from damage
        return segments

    @property
    def active(self) -> Segment:
        return self._segment(self._bases[-1])

    @property
    def start_offset(self) -> int:
        """The base of the first segment. Records before the log's own start may still be in it."""
        return self._bases[0]

    @property
    def end_offset(self) -> int:
        return self.active.next_offset

    @property
    def bases(self) -> tuple[int, ...]:
        return tuple(self._bases)

    @property
    def size(self) -> int:
        return sum(self.size_of(base) for base in self._bases)

    def size_of(self, base: int) -> int:
        opened = self._opened.get(base)
        return opened.size if opened else self._disk.size(self._path(base, ".log"))

    def append(self, data: Buffer, header: BatchHeader, now_ms: int) -> None:
        """Add a batch that is stamped with the next offset, in a new segment if it is time for
        one. Raise OSError, and nothing is added."""
        if self._is_full_for(header, now_ms):
            self.roll()
        if header.last_offset - self.active.base_offset > OFFSET_SPAN_MAX:
            self._begin(header.base_offset)
        self.active.append(data, header)

    def roll(self) -> None:
        """Begin a new segment where the last one ends, even if the next batch is beyond a gap:
        after a crash, segments that do not meet are a sign of loss."""
        self._begin(self.end_offset)

    def read(self, offset: int, bytes_max: int, end_offset: int | None = None) -> FileSlice | None:
        """As a segment's read. A slice never spans two segments."""
        for base in self._bases[self._index_of(offset) :]:
            piece = self._segment(base).read(offset, bytes_max, end_offset)
            if piece is not None:
                return piece
            if end_offset is not None and base >= end_offset:
                break
        return None

    def find_timestamp(self, timestamp: int, start_offset: int) -> TimedOffset | None:
        """The first record at or after both."""
        for base in self._bases[self._index_of(start_offset) :]:
            segment = self._segment(base)
            if segment.newest.timestamp >= timestamp:
                found = segment.find_timestamp(timestamp, start_offset)
                if found is not None:
                    return found
        return None

    def find_newest(self, start_offset: int) -> TimedOffset | None:
        """The first record of the largest timestamp."""
        live = [self._segment(base) for base in self._bases[self._index_of(start_offset) :]]
        newest = max(segment.newest.timestamp for segment in live)
        return self.find_timestamp(newest, start_offset) if newest >= 0 else None

    def truncate(self, offset: int) -> None:
        """Forget every batch that reaches `offset` or beyond."""
        while len(self._bases) > 1 and self._bases[-1] >= offset:
            self._remove(self._bases[-1])
        if self._bases[-1] >= offset:
            self.clear(offset)
        else:
            self.active.truncate(offset)
            self.active.flush()
        self._unflushed_from = min(self._unflushed_from, self.end_offset)

    def clear(self, offset: int) -> None:
        """Forget everything and begin again at `offset`."""
        for base in reversed(self._bases):
            self._remove(base)
        self._create(offset)
        self._unflushed_from = offset

    def drop_before(self, offset: int) -> list[int]:
        """Remove the segments all of whose records are before `offset`: never the active one."""
        gone = []
        while len(self._bases) > 1 and self._bases[1] <= offset:
            gone.append(self._bases[0])
            self._remove(self._bases[0])
        return gone

    def flush(self) -> int:
        """Make everything appended so far durable. The offset before which it is."""
        end = self.end_offset
        for base in self._bases[max(self._index_of(self._unflushed_from), 0) :]:
            self._segment(base).flush()
        self._unflushed_from = end
        return end

    def release(self) -> None:
        """Hold no descriptors until the log is used again. It must have been flushed."""
        for base, segment in list(self._opened.items()):
            segment.release()
            if base != self._bases[-1]:
                del self._opened[base]

    def sweep(self) -> None:
        """Remove what was renamed away. Readers still in it keep the file until they are done."""
        for name in self._disk.names(self._directory):
            if name.endswith(DELETED):
                self._disk.remove(self._directory / name)

    def _is_full_for(self, header: BatchHeader, now_ms: int) -> bool:
        active, config = self.active, self.config
        if not active.size:
            return False
        newest = max(active.newest.timestamp, header.max_timestamp)
        waited = (newest if newest >= 0 else now_ms) - active.first_timestamp
        return (
            active.size + header.size > config.segment_bytes
            or (active.first_timestamp >= 0 and waited > config.segment_ms)
            or active.index_bytes + 12 > config.segment_index_bytes
        )

    def _recover(self, recovery_point: int) -> None:
        """Check every segment that may hold what was not durable. Each is whole, and meets the
        next, or what follows goes: nobody was told that it is durable."""
        suspect = self._bases[self._index_of(recovery_point) :]
        for number, base in enumerate(suspect):
            segment, dropped = Segment.recover(
                self._disk,
                self._directory,
                base,
                self.config.index_interval_bytes,
                durable_end=recovery_point,
            )
            segment.flush()
            self._opened[base] = segment
            self.dropped_bytes += dropped
            later = suspect[number + 1 :]
            if dropped or (later and not self._meets(segment, later[0])):
                for lost in reversed(later):
                    self.dropped_bytes += self.size_of(lost)
                    self._remove(lost)
                break
        if self._bases and self.end_offset < recovery_point:
            raise CorruptBatch(f"the log ends at {self.end_offset}, before {recovery_point}")

    def _meets(self, segment: Segment, following: int) -> bool:
        # Only a gap that the indexes could not express begins a segment beyond the last one's end.
        beyond = following - segment.base_offset > OFFSET_SPAN_MAX
        return segment.next_offset == following or beyond

    def _index_of(self, offset: int) -> int:
        """Which of the segments would hold it."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def _segment(self, base: int) -> Segment:
        found = self._opened.get(base)
        if found is None:
            interval = self.config.index_interval_bytes
            found = Segment.open(self._disk, self._directory, base, interval)
            self._opened[base] = found
        return found

    def _begin(self, base: int) -> None:
        active = self.active
        active.seal()
        if active.base_offset != base:
            self._create(base)

    def _create(self, base: int) -> None:
        interval = self.config.index_interval_bytes
        segment = Segment(self._disk, self._directory, base, interval)
        self._disk.sync_directory(self._directory)
        self._bases.append(base)
        self._opened[base] = segment

    def _remove(self, base: int) -> None:
        self._opened.pop(base, None)
        self._bases.remove(base)
        for suffix in SUFFIXES:
            path = self._path(base, suffix)
            if self._disk.exists(path):
                self._disk.rename(path, path.with_name(path.name + DELETED))
        self._disk.sync_directory(self._directory)

    def _path(self, base: int, suffix: str) -> Path:
        return self._directory / file_name(base, suffix)
