"""A segment as its files have it, for readers beside the broker that it belongs to.

Nothing is opened for writing, locked, loaded as a whole or repaired. What a file had when it was
opened is what is seen of it. Indexes are hints: a broker writes them some time after the log, and
compaction may have put another file beside them. So whatever they say is looked up in the log
before it is believed, and what they do not say is found by going through the batches.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pyk.disk import ReadOnlyFile
from pyk.log.batches import SEEK_BYTES, Placed
from pyk.types import Buffer
from pyk.wire.batch import HEADER_BYTES, BatchHeader, peek_header
from pyk.wire.compression import CorruptBatch
from pyk.wire.records import read_records

OFFSET_ENTRY: Final = struct.Struct(">II")
TIME_ENTRY: Final = struct.Struct(">qI")

_ZEROS_BYTES: Final = 1024 * 1024


class DamagedBatch(CorruptBatch):
    """What stands at a position of a log is not a batch."""

    def __init__(self, path: Path, position: int, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.position = position


class TornTail(DamagedBatch):
    """The end of the file is not written yet, or was not when its writer crashed."""


class IndexEntries:
    """The entries of an index file, read one by one. None if there is no file."""

    def __init__(self, path: Path, shape: struct.Struct) -> None:
        self._shape = shape
        try:
            self._file: ReadOnlyFile | None = ReadOnlyFile(path)
        except FileNotFoundError:
            self._file = None
        self.size = 0 if self._file is None else self._file.size
        # Kafka fills an index in use with zeros.
        whole = range(self.size // shape.size)
        self._count = bisect_left(whole, True, key=lambda number: not any(self._bytes(number)))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> tuple[int, ...]:
        return self._shape.unpack(self._bytes(number))

    def before(self, value: int, column: int = 0, *, is_strict: bool = False) -> int:
        """The number of the last entry with this value or less, -1 if there is none. If strict,
        with less."""
        bisect = bisect_left if is_strict else bisect_right
        return bisect(range(self._count), value, key=lambda number: self[number][column]) - 1

    def _bytes(self, number: int) -> bytes:
        assert self._file is not None
        data = self._file.read(number * self._shape.size, self._shape.size)
        # One that was cut off meanwhile has nothing more to say.
        return data.ljust(self._shape.size, b"\0")


class _TimeEntry(NamedTuple):
    timestamp: int
    relative: int
    """The offset of the batch that has it, counted from the segment's base."""


class Tail(NamedTuple):
    """What is behind the last entry of an index."""

    end_offset: int
    end_position: int
    newest_timestamp: int
    """-1 if nothing is there."""
    damage: DamagedBatch | None
    """What keeps from going further. A torn end does not: nobody was told that it is there."""


class FileId(NamedTuple):
    """What tells a file from one that takes its name, and maybe its inode when it is gone. What is
    written to or renamed is another one, too."""

    inode: int
    changed_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileId:
        return cls(found.st_ino, found.st_ctime_ns)


class StoredSegment:
    def __init__(self, path: Path, base_offset: int, *, may_be_torn: bool = True) -> None:
        """Only the last of a log may be torn: to the others nobody writes. Raise
        FileNotFoundError."""
        self.path = path
        self.base_offset = base_offset
        self._file = ReadOnlyFile(path)
        self.size = self._file.size
        self._may_be_torn = may_be_torn
        self._offsets: IndexEntries | None = None

    def read(self, position: int, size: int) -> bytes:
        return self._file.read(position, size)

    @property
    def file_id(self) -> FileId:
        return FileId.of(os.fstat(self._file.fileno()))

    def batches(self, position: int = 0) -> Iterator[Placed]:
        """The batches from a position on, which must be the start of one. Their records are not
        looked at. Raise DamagedBatch at what is not a batch, and TornTail if it may be half of one
        at the end."""
        chunk, start = b"", position
        while position < self.size:
            if position + HEADER_BYTES > start + len(chunk):
                chunk, start = self._file.read(position, SEEK_BYTES), position
            header = self._header(chunk, position - start, position)
            yield Placed(position, header)
            position += header.size

    def peek(self, position: int) -> BatchHeader | None:
        """The header at a position, if there is one."""
        try:
            header = peek_header(self._file.read(position, HEADER_BYTES))
        except CorruptBatch:
            return None
        return header if position + header.size <= self.size else None

    def seek(self, offset: int) -> int:
        """The start of a batch, from where on reading finds everything from `offset`."""
        index = self._index
        for number in range(index.before(offset - self.base_offset), -1, -1):
            position = index[number][1]
            header = self.peek(position)
            if header is not None and self.base_offset <= header.base_offset <= offset:
                return position
        return 0

    def locate(self, offset: int) -> int:
        """Where the first batch is that reaches `offset`, or the end. Raise DamagedBatch."""
        return self._first(offset, lambda header: header.last_offset)

    def boundary(self, offset: int) -> int:
        """Where the first batch is that begins at `offset` or later, or the end. Raise
        DamagedBatch."""
        return self._first(offset, lambda header: header.base_offset)

    def batch_before(self, position: int, known: int) -> Placed | None:
        """The last batch that begins at a position or before, and not before one at `known`.
        Raise DamagedBatch."""
        index = self._index
        number = index.before(position, column=1)
        if number >= 0 and index[number][1] > known and self.peek(index[number][1]) is not None:
            known = index[number][1]
        found = None
        for placed in self.batches(known):
            if placed.position > position:
                break
            found = placed
        return found

    def indexed_after(self, position: int) -> int | None:
        """The next place behind a position where the index knows of a batch."""
        index = self._index
        for number in range(index.before(position, column=1) + 1, len(index)):
            if self.peek(index[number][1]) is not None:
                return index[number][1]
        return None

    def tail(self) -> Tail:
        """What the indexes do not tell."""
        index = self._index
        number = len(index) - 1
        end_position = self.seek(self.base_offset + index[number][0]) if number >= 0 else 0
        end_offset, newest = self.base_offset, -1
        damage: DamagedBatch | None = None
        try:
            for position, header in self.batches(end_position):
                end_offset, end_position = header.next_offset, position + header.size
                newest = max(newest, header.max_timestamp)
        except TornTail:
            pass
        except DamagedBatch as wrong:
            damage = wrong
        return Tail(end_offset, end_position, newest, damage)

    def newest_timestamp(self) -> int | None:
        """The largest of all records; None if that cannot be told."""
        times = self._times()
        tail = self.tail()
        if tail.damage is not None or (len(self._index) and not len(times)):
            return None
        entry = _TimeEntry(*times[len(times) - 1]) if len(times) else None
        if entry is None:
            return tail.newest_timestamp
        return max(tail.newest_timestamp, entry.timestamp) if self._is_true(entry) else None

    def offset_before(self, timestamp: int) -> int:
        """An offset before which everything is older than `timestamp`."""
        times = self._times()
        number = times.before(timestamp, is_strict=True)
        if number < 0:
            return self.base_offset
        entry = _TimeEntry(*times[number])
        return self.base_offset + (entry.relative if self._is_true(entry) else 0)

    def find_timestamp(self, timestamp: int, start_offset: int) -> int | None:
        """The first offset at or after both. Raise CorruptBatch."""
        start = max(self.offset_before(timestamp), start_offset)
        with suppress(TornTail):
            for placed in self.batches(self.locate(start)):
                if placed.header.max_timestamp >= timestamp:
                    for record in read_records(self.load(placed), 0, placed.header):
                        if record.timestamp >= timestamp and record.offset >= start_offset:
                            return record.offset
        return None

    def load(self, placed: Placed) -> bytes:
        return self._file.read(placed.position, placed.header.size)

    @property
    def _index(self) -> IndexEntries:
        if self._offsets is None:
            self._offsets = IndexEntries(self._beside(".index"), OFFSET_ENTRY)
        return self._offsets

    def _times(self) -> IndexEntries:
        return IndexEntries(self._beside(".timeindex"), TIME_ENTRY)

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name.replace(".log", suffix, 1))

    def _first(self, offset: int, end: Callable[[BatchHeader], int]) -> int:
        end_position = self.seek(offset)
        with suppress(TornTail):
            for position, header in self.batches(end_position):
                if end(header) >= offset:
                    return position
                end_position = position + header.size
        return end_position

    def _is_true(self, entry: _TimeEntry) -> bool:
        """Whether the batch that it names has that time."""
        offset = self.base_offset + entry.relative
        try:
            header = self.peek(self.locate(offset))
        except DamagedBatch:
            return False
        return header is not None and header.max_timestamp == entry.timestamp

    def _header(self, chunk: Buffer, at: int, position: int) -> BatchHeader:
        left = self.size - position
        try:
            header = peek_header(chunk, at)
        except CorruptBatch as wrong:
            if self._is_zero(position):
                # Kafka may allocate a segment before it writes to it.
                raise self._torn(position, f"nothing but zeros in the last {left} bytes") from None
            if left < HEADER_BYTES:
                raise self._torn(position, str(wrong)) from None
            raise DamagedBatch(self.path, position, str(wrong)) from None
        if header.size > left:
            reason = f"a batch of {header.size} bytes, of which {left} are there"
            raise self._torn(position, reason)
        return header

    def _torn(self, position: int, reason: str) -> DamagedBatch:
        # A length that is wrong looks the same, but then more is known to follow.
        is_tail = self._may_be_torn and self.indexed_after(position) is None
        return (TornTail if is_tail else DamagedBatch)(self.path, position, reason)

    def _is_zero(self, position: int) -> bool:
        while data := self._file.read(position, _ZEROS_BYTES):
            if any(data):
                return False
            position += len(data)
        return True
