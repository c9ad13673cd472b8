"""The sparse indexes of a segment: from offsets to positions, and from timestamps to offsets.

Both are derived from the log and can be rebuilt from it. So entries gather in memory and reach
their file when the segment is flushed: an append to the log costs one write, not three. What a
crash leaves of an index is checked when it is loaded, and rebuilt if it cannot be right.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import pairwise
from pathlib import Path

from pyk.declared import NamedTuple
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

    def __init__(self, disk: Disk, path: Path) -> None:
        self.has_new_name = False
        """Whether the directory must be synced for the file to be found after a power loss."""
        self._disk = disk
        self._path = path
        self.is_unsynced = False
        self._unwritten = bytearray()
        self._file: File | None = None

    def write(self) -> File | None:
        """Write what has gathered. The file is then to be synced; None if nothing has changed."""
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
        self._file = None

    def _load(self) -> bytes:
        try:
            data = self._disk.read(self._path)
        except FileNotFoundError:
            if self.is_optional:
                return b""
            raise DamagedIndex(f"{self._path.name} is missing") from None
        if len(data) % self.entry_bytes:
            raise DamagedIndex(f"{self._path.name} has {len(data)} bytes")
        return data

    def _rewrite(self, data: Buffer) -> None:
        """Begin again with these entries, which are written with the next that come."""
        if self._file is not None or self._disk.exists(self._path):
            self._opened().truncate(0)
            self.is_unsynced = True
        self._unwritten = bytearray(data)

    def _opened(self) -> File:
        if self._file is None:
            self.has_new_name = self.has_new_name or not self._disk.exists(self._path)
            self._file = self._disk.open(self._path)
        return self._file


class OffsetIndex(IndexFile):
    """Where in the log a batch is, by its last offset: the `.index` file.

    An entry is 32 bits of offset, counted from the segment's base, and 32 bits of position: in
    memory one 64-bit number, so that finding one is a bisection in C.
    """

    entry_bytes = 8

    def __init__(self, disk: Disk, path: Path, base_offset: int) -> None:
        super().__init__(disk, path)
        self._base_offset = base_offset
        self._entries: array[int] = array("Q")

    def load(self, log_bytes: int) -> None:
        """Read the file. Raise DamagedIndex if it does not fit a log of that size."""
        entries = array("Q", self._load())
        if sys.byteorder == "little":
            entries.byteswap()
        previous = Position(self._base_offset - 1, -1)
        for entry in entries:
            found = self._position(entry)
            if found.offset <= previous.offset or found.position <= previous.position:
                raise DamagedIndex(f"{self._path.name} is not in order")
            previous = found
        if previous.position >= log_bytes:
            raise DamagedIndex(f"{self._path.name} points beyond the log")
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        return len(self._entries) * self.entry_bytes

    @property
    def entries(self) -> list[Position]:
        return [self._position(entry) for entry in self._entries]

    def append(self, offset: int, position: int) -> None:
        entry = (offset - self._base_offset) << 32 | position
        assert not self._entries or entry > self._entries[-1], (offset, position)
        self._entries.append(entry)
        self._unwritten += entry.to_bytes(8, "big")

    def lookup(self, offset: int) -> Position:
        """The last entry at or before `offset`: reading from there finds it."""
        wanted = (offset - self._base_offset) << 32 | 0xFFFF_FFFF
        found = bisect_right(self._entries, max(wanted, 0))
        return self._position(self._entries[found - 1]) if found else self._start

    def lookup_position(self, position: int) -> Position:
        """The last entry at or before `position` in the log."""
        found = bisect_right(self._entries, position, key=lambda entry: entry & 0xFFFF_FFFF)
        return self._position(self._entries[found - 1]) if found else self._start

    def clear(self) -> None:
        self._entries = array("Q")
        self._rewrite(b"")

    def truncate(self, offset: int) -> None:
        """Forget the entries at or after `offset`."""
        kept = bisect_left(self._entries, max(offset - self._base_offset, 0) << 32)
        if kept < len(self._entries):
            del self._entries[kept:]
            data = array("Q", self._entries)
            if sys.byteorder == "little":
                data.byteswap()
            self._rewrite(data.tobytes())

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
        super().__init__(disk, path)
        self._base_offset = base_offset
        self._timestamps: list[int] = []
        self._offsets: list[int] = []

    def load(self) -> None:
        """Read the file. Raise DamagedIndex if it is not in order."""
        data = self._load()
        timestamps, offsets = [], []
        for start in range(0, len(data), self.entry_bytes):
            timestamps.append(int.from_bytes(data[start : start + 8], "big", signed=True))
            relative = int.from_bytes(data[start + 8 : start + 12], "big")
            offsets.append(self._base_offset + relative)
        if any(a >= b for a, b in pairwise(timestamps)):
            raise DamagedIndex(f"{self._path.name} is not in order of time")
        if any(a > b for a, b in pairwise(offsets)):
            raise DamagedIndex(f"{self._path.name} is not in order of offsets")
        self._timestamps, self._offsets = timestamps, offsets

    def check(self, next_offset: int) -> None:
        """Raise DamagedIndex if it does not fit a log that ends there."""
        if self._offsets and self._offsets[-1] >= next_offset:
            raise DamagedIndex(f"{self._path.name} points beyond the log")

    @property
    def size(self) -> int:
        return len(self._timestamps) * self.entry_bytes

    @property
    def entries(self) -> list[TimedOffset]:
        return [TimedOffset(*pair) for pair in zip(self._timestamps, self._offsets, strict=True)]

    @property
    def last(self) -> TimedOffset | None:
        return TimedOffset(self._timestamps[-1], self._offsets[-1]) if self._timestamps else None

    def append(self, timestamp: int, offset: int) -> None:
        """Remember it, unless a larger or equal timestamp is known already."""
        if self._timestamps and timestamp <= self._timestamps[-1]:
            return
        self._timestamps.append(timestamp)
        self._offsets.append(offset)
        self._unwritten += self._encoded(timestamp, offset)

    def lookup(self, timestamp: int) -> int:
        """An offset before which everything is older than `timestamp`."""
        found = bisect_left(self._timestamps, timestamp)
        return self._offsets[found - 1] if found else self._base_offset

    def clear(self) -> None:
        self._timestamps, self._offsets = [], []
        self._rewrite(b"")

    def truncate(self, offset: int) -> None:
        """Forget the entries at or after `offset`."""
        kept = bisect_left(self._offsets, offset)
        if kept < len(self._offsets):
            del self._timestamps[kept:], self._offsets[kept:]
            self._rewrite(b"".join(map(self._encoded, self._timestamps, self._offsets)))

    def _encoded(self, timestamp: int, offset: int) -> bytes:
        relative = offset - self._base_offset
        return timestamp.to_bytes(8, "big", signed=True) + relative.to_bytes(4, "big")
