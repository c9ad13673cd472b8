"""The sparse indexes of a segment: from offsets to positions, and from timestamps to offsets.

Both are derived from the log and can be rebuilt from it. So entries gather in memory and reach
their file when the segment is flushed: an append to the log costs one write, not three.

Opening an index looks at its ends only, and its first use reads it as a whole. No entry is believed
before the log has shown it to be true: bits rot, and a wrong one would hide records.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import NamedTuple, Self

from pyk.disk import Disk, File
from pyk.types import Buffer


class DamagedIndex(Exception):
    """The file cannot be the index of its segment."""


class Position(NamedTuple):
    offset: int
    position: int


class TimedOffset(NamedTuple):
    timestamp: int
    offset: int


class IndexFile:
    """Entries of a fixed size, which gather in memory until they are written a few at a time."""

    entry_bytes: int
    is_optional = False
    """Whether having no entries is the same as having no file."""

    def __init__(self, disk: Disk, path: Path, base_offset: int) -> None:
        self.has_new_name = False
        """Whether the directory must be synced for the file to be found after a power loss."""
        self._disk = disk
        self._path = path
        self._base_offset = base_offset
        self.is_unsynced = False
        self._unwritten = bytearray()
        self._begins_again = False
        """Whether what the file has is to go with the next write."""
        self._file: File | None = None

    def write(self) -> File | None:
        """Write what has gathered. The file is then to be synced; None if nothing has changed."""
        if self._begins_again:
            if self._file is not None or self._disk.exists(self._path):
                self._opened().truncate(0)
                self.is_unsynced = True
            self._begins_again = False
        if self._unwritten:
            self._opened().append(self._unwritten)
            self._unwritten = bytearray()
            self.is_unsynced = True
        elif self._file is None and not self.is_optional:
            self._opened()
            self.is_unsynced |= self.has_new_name
        return self._file if self.is_unsynced else None

    def release(self) -> None:
        """Let go of the descriptor, after a write. The next one opens the file again."""
        assert not self._unwritten
        assert not self._begins_again
        self._file = None

    def emptied(self) -> Self:
        """The same index without any entries, which takes the place of this one in its file when it
        is written."""
        again = type(self)(self._disk, self._path, self._base_offset)
        again._file, again.is_optional = self._file, self.is_optional
        again.is_unsynced, again.has_new_name = self.is_unsynced, self.has_new_name
        again._begins_again = True
        return again

    def _ends(self) -> tuple[int, bytes, bytes]:
        """How many entries the file has, the first one and the last. Raise DamagedIndex."""
        try:
            file = self._disk.open(self._path, must_exist=True)
        except FileNotFoundError:
            raise DamagedIndex(f"{self._path.name} is missing") from None
        count, rest = divmod(file.size, self.entry_bytes)
        if rest:
            raise DamagedIndex(f"{self._path.name} has {file.size} bytes")
        if not count:
            return 0, b"", b""
        last = (count - 1) * self.entry_bytes
        return count, file.read(0, self.entry_bytes), file.read(last, self.entry_bytes)

    def _read_all(self) -> bytes:
        """What the file has, and what was appended since. Nobody must do this to append: what is in
        the log by then may not fail."""
        assert not self._begins_again
        return self._disk.read(self._path) + self._unwritten

    def _rewrite(self, data: Buffer) -> None:
        """Begin again with these entries, which are written with the next that come."""
        self._begins_again = True
        self._unwritten = bytearray(data)

    def _opened(self) -> File:
        if self._file is None:
            self.has_new_name = self.has_new_name or not self._disk.exists(self._path)
            self._file = self._disk.open(self._path)
        return self._file


class OffsetIndex(IndexFile):
    """Where in the log a batch is, by its last offset: the `.index` file.

    An entry is 32 bits of offset, counted from the segment's base, and 32 bits of position: in
    memory one 64-bit number, so that finding one is a bisection in C. The number of the entry
    before the first one is -1, and stands for the start of the log.
    """

    entry_bytes = 8

    def __init__(self, disk: Disk, path: Path, base_offset: int) -> None:
        super().__init__(disk, path, base_offset)
        self._loaded: array[int] | None = array("Q")
        """The entries, once they were needed."""
        self._count = 0
        self._last = Position(base_offset, 0)
        self._believed = 0
        """Entries from this one on are not from a file."""

    def load(self, log_bytes: int) -> None:
        """Look at the file. Raise DamagedIndex if it cannot be of a log of that size."""
        count, first, last = self._ends()
        begin, end = (
            self._position(int.from_bytes(entry, "big")) if entry else self._last
            for entry in (first, last)
        )
        if count and end.position >= log_bytes:
            raise DamagedIndex(f"{self._path.name} points beyond the log")
        if count > 1 and (begin.offset >= end.offset or begin.position >= end.position):
            raise DamagedIndex(f"{self._path.name} is not in order")
        self._loaded, self._count, self._last, self._believed = None, count, end, count

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        return self._count * self.entry_bytes

    @property
    def last(self) -> Position:
        return self._last

    def at(self, number: int) -> Position:
        return self._position(self._entries[number]) if number >= 0 else self._start

    def is_believed(self, number: int) -> bool:
        return number < 0 or number >= self._believed

    def append(self, offset: int, position: int) -> None:
        entry = (offset - self._base_offset) << 32 | position
        assert not self._count or offset > self._last.offset, (offset, self._last)
        if self._loaded is not None:
            self._loaded.append(entry)
        self._count += 1
        self._last = Position(offset, position)
        self._unwritten += entry.to_bytes(8, "big")

    def before(self, offset: int) -> int:
        """The number of the last entry at or before `offset`: reading from there finds it."""
        wanted = (offset - self._base_offset) << 32 | 0xFFFF_FFFF
        return bisect_right(self._entries, max(wanted, 0)) - 1

    def before_position(self, position: int) -> int:
        """That of the last entry at or before `position` in the log."""
        return bisect_right(self._entries, position, key=lambda entry: entry & 0xFFFF_FFFF) - 1

    def clear(self) -> None:
        self._loaded = array("Q")
        self._keep(0)

    def truncate(self, offset: int) -> None:
        """Forget the entries at or after `offset`."""
        kept = bisect_left(self._entries, max(offset - self._base_offset, 0) << 32)
        if kept < self._count:
            del self._entries[kept:]
            self._keep(kept)

    def drop(self, number: int) -> None:
        """Forget an entry that is wrong."""
        del self._entries[number]
        self._believed -= number < self._believed
        self._keep(self._count - 1)

    def _keep(self, count: int) -> None:
        entries = array("Q", self._entries)
        if sys.byteorder == "little":
            entries.byteswap()
        self._count, self._believed = count, min(self._believed, count)
        self._last = self.at(count - 1)
        self._rewrite(entries.tobytes())

    @property
    def _entries(self) -> array[int]:
        if self._loaded is None:
            entries = array("Q", self._read_all())
            if sys.byteorder == "little":
                entries.byteswap()
            self._loaded = entries
        return self._loaded

    @property
    def _start(self) -> Position:
        return Position(self._base_offset, 0)

    def _position(self, entry: int) -> Position:
        return Position(self._base_offset + (entry >> 32), entry & 0xFFFF_FFFF)


class TimeIndex(IndexFile):
    """The largest timestamp so far and the batch that has it, by its last offset: `.timeindex`.

    Timestamps and offsets grow from entry to entry: 64 bits of timestamp, 32 of relative offset.
    """

    entry_bytes = 12

    def __init__(self, disk: Disk, path: Path, base_offset: int) -> None:
        super().__init__(disk, path, base_offset)
        self._loaded: bytearray | None = bytearray()
        """The entries as they are in the file, once they were needed."""
        self._count = 0
        self.last: TimedOffset | None = None

    def load(self) -> None:
        """Look at the file. Raise DamagedIndex if its ends are not in order."""
        count, first, last = self._ends()
        if count > 1:
            begin, end = self._timed(first), self._timed(last)
            if begin.timestamp >= end.timestamp or begin.offset > end.offset:
                raise DamagedIndex(f"{self._path.name} is not in order")
        self.last = self._timed(last) if count else None
        self._loaded, self._count = None, count

    def __len__(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        return self._count * self.entry_bytes

    def at(self, number: int) -> TimedOffset:
        start = number * self.entry_bytes
        return self._timed(self._entries[start : start + self.entry_bytes])

    def append(self, timestamp: int, offset: int) -> None:
        """Remember it, unless a larger or equal timestamp is known already."""
        if self.last is not None and timestamp <= self.last.timestamp:
            return
        relative = offset - self._base_offset
        entry = timestamp.to_bytes(8, "big", signed=True) + relative.to_bytes(4, "big")
        if self._loaded is not None:
            self._loaded += entry
        self._count += 1
        self.last = TimedOffset(timestamp, offset)
        self._unwritten += entry

    def before(self, timestamp: int) -> int:
        """The number of the last entry that is older than `timestamp`, or -1."""
        return bisect_left(range(self._count), timestamp, key=self._timestamp) - 1

    def clear(self) -> None:
        self._keep(0)

    def truncate(self, offset: int) -> None:
        """Forget the entries at or after `offset`."""
        kept = bisect_left(range(self._count), offset, key=lambda number: self.at(number).offset)
        if kept < self._count:
            self._keep(kept)

    def _keep(self, count: int) -> None:
        del self._entries[count * self.entry_bytes :]
        self._count = count
        self.last = self.at(count - 1) if count else None
        self._rewrite(self._entries)

    @property
    def _entries(self) -> bytearray:
        if self._loaded is None:
            self._loaded = bytearray(self._read_all())
        return self._loaded

    def _timestamp(self, number: int) -> int:
        start = number * self.entry_bytes
        return int.from_bytes(self._entries[start : start + 8], "big", signed=True)

    def _timed(self, entry: Buffer) -> TimedOffset:
        timestamp = int.from_bytes(entry[:8], "big", signed=True)
        return TimedOffset(timestamp, self._base_offset + int.from_bytes(entry[8:], "big"))
