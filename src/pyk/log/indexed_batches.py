"""The batches of a segment, found by offset, by position and by time.

What indexes say is used once the batches have shown it to be true, and forgotten if it is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from pyk.disk import Disk, File
from pyk.log.batches import (
    CHEAP_BYTES,
    SCAN_BYTES,
    SEEK_BYTES,
    Placed,
    Stretch,
    first_in,
    in_order,
    whole_in,
)
from pyk.log.index import DamagedIndex, OffsetIndex, Position, TimedOffset, TimeIndex
from pyk.types import FileSlice
from pyk.wire.batch import BatchHeader, check_crc
from pyk.wire.compression import CorruptBatch
from pyk.wire.records import RECORDS_BYTES_MAX

NO_TIMESTAMP: Final = -1

CHECKED_BATCHES: Final = 16
"""So many of what is read first after a start have their CRCs checked, if they are not large. All
of them would take longer than to send them, and clients check them, too. Of what is read right
behind it only the first has: whoever reads a log from its start reads thousands of slices."""

OFFSET_SPAN_MAX: Final = 2**31 - 1
"""Indexes count offsets from the base in 32 bits."""

WRONG_ENTRIES_MAX: Final = 8
"""After so many in a row there is more use in building an index anew."""


class Piece(Struct, frozen=True):
    """What a read found."""

    records: FileSlice
    end_offset: int
    """Every batch in it ends before this offset, and the next one begins at it or after."""
    first: BatchHeader


class IndexedBatches:
    """Those of one file, which `Segment` appends to, cuts and flushes."""

    def __init__(
        self,
        disk: Disk,
        path: Path,
        base_offset: int,
        index_interval_bytes: int,
        draft: str,
        *,
        must_exist: bool,
    ) -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.path = path.with_name(path.name + ".log" + draft)
        self._name = self.path.name
        self.newest = TimedOffset(NO_TIMESTAMP, base_offset)
        """The largest timestamp, and the last offset of the first batch that has it."""
        self.is_dirty = not must_exist
        """Whether anything was not handed out to be synced."""
        self._disk = disk
        self._handle: File | None = disk.open(self.path, must_exist=must_exist)
        self.size = self._handle.size
        self._offsets = OffsetIndex(disk, Path(f"{path}.index{draft}"), base_offset)
        self._times = TimeIndex(disk, Path(f"{path}.timeindex{draft}"), base_offset)
        self._index_interval_bytes = index_interval_bytes
        self._bytes_since_entry = 0
        self._last: Placed | None = None
        """The batch that was appended last: who waits for records reads just that."""
        self._passed: Placed | None = None
        """The batch that was located last: readers go on from its end."""
        self._old_bytes = self.size
        """What is before this position was there when the segment was opened: bits may have flipped
        in it meanwhile."""
        self._checked = range(0)
        """Positions where that was looked at since."""

    @property
    def end_max(self) -> int:
        """No segment with that base can go on from there."""
        return self.base_offset + OFFSET_SPAN_MAX + 1

    @property
    def _file(self) -> File:
        if self._handle is None:
            # Who still has a segment that was removed must not make an empty one in its place.
            self._handle = self._disk.open(self.path, must_exist=True)
        return self._handle

    def has_index_room(self, bytes_max: int) -> bool:
        """Whether its indexes stay within a limit if each gets one more entry."""
        # There are no more entries of times than of offsets, but for the last: a bound that mostly
        # is enough.
        if (len(self._offsets) + 2) * TimeIndex.entry_bytes <= bytes_max:
            return True
        return self.index_bytes + TimeIndex.entry_bytes <= bytes_max

    @property
    def index_bytes(self) -> int:
        """The size of the larger index: it has a limit, too."""
        return max(self._offsets.size, self._times.size)

    def batches(self, position: int = 0, read_bytes: int = SCAN_BYTES) -> Iterator[Placed]:
        """The batches from a position on, which must be the start of one. Their records are not
        looked at. Raise CorruptBatch at what is not a batch, or not all of one."""
        return self.stretch_at(position).batches(read_bytes)

    def stretch_at(self, position: int) -> Stretch:
        """What there is from the start of a batch on."""
        return Stretch(self._file, self._name, position, self.size)

    def stretch(self, offset: int) -> Stretch:
        """What there is from the batch on that holds the offset."""
        first = self.locate(offset)
        return self.stretch_at(self.size if first is None else first.position)

    def stretch_by_time(self, timestamp: int, start_offset: int) -> Stretch:
        """Where to look for the first record at or after both."""
        if timestamp > self.newest.timestamp:
            return self.stretch_at(self.size)
        return self.stretch(max(self._offset_before(timestamp), start_offset))

    def load(self, placed: Placed) -> bytes:
        return self._file.read(placed.position, placed.header.size)

    def locate(self, offset: int) -> Placed | None:
        """The batch that holds the offset, or the next one after a gap. None at the end. Raise
        CorruptBatch if one on the way there says what cannot be."""
        if offset >= self.next_offset:
            return None
        if self._last is not None and offset >= self._last.header.base_offset:
            return self._last
        passed = self._passed
        if passed is not None and passed.header.next_offset > offset:
            passed = None
        previous = passed
        for placed in self._from_entry(lambda: self._offsets.before(offset), passed):
            if placed.header.last_offset >= offset:
                if previous is not None and placed.header.base_offset > offset:
                    self._check_old(previous)
                self._passed = placed
                return placed
            previous = placed
        if not self.size:
            return None
        raise CorruptBatch(f"{self._name} lacks {offset} to {self.next_offset - 1}")

    def read(self, offset: int, bytes_max: int, end_offset: int | None = None) -> Piece | None:
        """Whole batches from the one that holds `offset`: at least one, more up to `bytes_max`,
        none that reaches `end_offset`. None where there are none."""
        first = self.locate(offset)
        if first is None or (end_offset is not None and first.header.last_offset >= end_offset):
            return None
        limit = max(first.position + bytes_max, first.position + first.header.size)
        end, next_offset = self._boundary(first, limit, end_offset)
        if first.position < self._old_bytes and not self._is_checked(first.position, end):
            end, next_offset = self._check_slice(first, end, next_offset)
        records = FileSlice(self._file, first.position, end - first.position)
        return Piece(records, next_offset, first.header)

    def read_last(self, offset: int, end_offset: int) -> Piece | None:
        """The same for who waits for records, and reads just the batch that was appended last. None
        does not say that there is none."""
        last = self._last
        if last is None:
            return None
        position, header = last
        next_offset = header.next_offset
        if not header.base_offset <= offset < next_offset <= end_offset:
            return None
        return Piece(FileSlice(self._file, position, header.size), next_offset, header)

    def find_timestamp(
        self, timestamp: int, start_offset: int, inflated_bytes_max: int = RECORDS_BYTES_MAX
    ) -> TimedOffset | None:
        """The first record at or after both, down to the record inside its batch."""
        stretch = self.stretch_by_time(timestamp, start_offset)
        return first_in(stretch, timestamp, start_offset, inflated_bytes_max)

    def _boundary(self, first: Placed, limit: int, end_offset: int | None) -> tuple[int, int]:
        """Where the last batch ends that fits, and the offset of the next one."""
        if self.size <= limit and (end_offset is None or end_offset >= self.next_offset):
            return self.size, self.next_offset

        def near() -> int:
            number = self._offsets.before_position(limit)
            return (
                number if end_offset is None else min(number, self._offsets.before(end_offset - 1))
            )

        end, next_offset = first.position + first.header.size, first.header.next_offset
        try:
            for position, header in self._from_entry(near, first):
                reaches = end_offset is not None and header.last_offset >= end_offset
                if position > first.position and (position + header.size > limit or reaches):
                    return position, header.base_offset
                end, next_offset = position + header.size, header.next_offset
        except CorruptBatch:
            pass  # What is before the damage can be read.
        return end, next_offset

    def _is_checked(self, start: int, end: int) -> bool:
        return start in self._checked and end <= self._checked.stop

    def _check_slice(self, first: Placed, end: int, next_offset: int) -> tuple[int, int]:
        """Look at the first batches of what is old before it is read first: where the slice ends,
        and the next offset, before what is damaged. Raise CorruptBatch if nothing is."""
        start, sound_end, known = first.position, first.position, self._checked
        if known and start == known.stop:
            if first.header.size <= CHEAP_BYTES:
                self._check_old(first)
            self._checked = range(known.start, end)
            return end, next_offset
        chunk = self._file.read(start, min(end - start, CHEAP_BYTES))
        batches = in_order(whole_in(chunk, start), first.header.base_offset, next_offset)
        try:
            for placed in islice(batches, CHECKED_BATCHES):
                check_crc(chunk, placed.position - start, placed.header)
                sound_end, sound_offset = placed.position + placed.header.size, placed
        except CorruptBatch:
            if sound_end == start:
                raise
            return sound_end, sound_offset.header.next_offset
        begin = known.start if start in known else start
        self._checked = range(begin, max(end, known.stop) if begin != start else end)
        return end, next_offset

    def _check_old(self, placed: Placed) -> None:
        """Raise CorruptBatch if what is damaged is where a batch ends."""
        if placed.position < self._old_bytes:
            check_crc(self.load(placed), 0, placed.header)

    def _from_entry(self, find: Callable[[], int], known: Placed | None) -> Iterator[Placed]:
        """The batches from the index entry on of which `find` gives the number, or behind one that
        is known, if that is later. Entries that are wrong are forgotten."""
        offsets = self._offsets
        position = 0 if known is None else known.position + known.header.size
        for _ in range(WRONG_ENTRIES_MAX):
            number = find()
            entry = offsets.at(number)
            if entry.position <= position:
                return self._behind(known)
            if offsets.is_believed(number):
                return self._in_order(self.batches(entry.position, SEEK_BYTES))
            batches = self._batches_of(entry)
            if batches is not None:
                return self._in_order(batches)
            offsets.drop(number)
            self.is_dirty = True
        self._index_again()
        entry = self._offsets.at(find())
        if entry.position <= position:
            return self._behind(known)
        return self._in_order(self.batches(entry.position, SEEK_BYTES))

    def _behind(self, known: Placed | None) -> Iterator[Placed]:
        if known is None:
            return self._in_order(self.batches(0, SEEK_BYTES))
        position, header = known
        batches = self.batches(position + header.size, SEEK_BYTES)
        return in_order(batches, header.next_offset, self.next_offset)

    def _in_order(self, batches: Iterator[Placed]) -> Iterator[Placed]:
        return in_order(batches, self.base_offset, self.next_offset)

    def _batches_of(self, entry: Position) -> Iterator[Placed] | None:
        """The batches from an index entry on, or None if it is wrong. Its offset is the last one of
        the batch there. Kafka had, before version 4, one entry for all that was appended at once,
        with the last offset of all."""
        batches, passed = self.batches(entry.position, SEEK_BYTES), []
        try:
            for placed in batches:
                header = placed.header
                if header.base_offset > entry.offset or header.last_offset > entry.offset:
                    return None
                passed.append(placed)
                if header.last_offset == entry.offset:
                    return chain(passed, batches)
        except CorruptBatch:
            pass
        return None

    def _index_again(self) -> None:
        """So much is wrong that there is more use in reading all batches, as far as they go."""
        self._offsets = self._offsets.emptied()
        self.is_dirty = True
        since_entry = 0
        with suppress(CorruptBatch):
            for position, header in self._in_order(self.batches()):
                if since_entry > self._index_interval_bytes:
                    self._offsets.append(header.last_offset, position)
                    since_entry = 0
                since_entry += header.size

    def _offset_before(self, timestamp: int) -> int:
        """An offset before which everything is older."""
        # Of two entries in order at most one is wrong, and what is before the earlier one is older
        # in any case: it is between where it should be and the later one.
        times = self._times
        number = times.before(timestamp)
        for earlier in range(number - 1, max(number - 1 - WRONG_ENTRIES_MAX, -1), -1):
            entry, later = times.at(earlier), times.at(earlier + 1)
            are_in_order = entry.timestamp < later.timestamp and entry.offset <= later.offset
            if are_in_order and later.timestamp < timestamp and self._is_true(entry):
                return entry.offset
        return self.base_offset

    def _is_true(self, entry: TimedOffset) -> bool:
        placed = self.locate(entry.offset) if entry.offset >= self.base_offset else None
        return placed is not None and placed.header.max_timestamp == entry.timestamp

    def _rebuild(self) -> None:
        """Build the indexes anew. Raise CorruptBatch, and all is as it was."""
        before = self._offsets, self._times, self.next_offset, self.newest, self._bytes_since_entry
        try:
            self._forget_indexes()
            for placed in in_order(self.batches(), self.base_offset, self.end_max):
                self._index(placed)
        except CorruptBatch:
            self._offsets, self._times, self.next_offset, self.newest, self._bytes_since_entry = (
                before
            )
            raise

    def _forget_indexes(self) -> None:
        self._offsets, self._times = self._offsets.emptied(), self._times.emptied()
        self.next_offset = self.base_offset
        self.newest = TimedOffset(NO_TIMESTAMP, self.base_offset)
        self._bytes_since_entry = 0
        self.is_dirty = True

    def _settle(self) -> None:
        """Take from the indexes what they know, and the rest from the batches after them. Raise
        DamagedIndex if their last entries are not of the batches that they name."""
        self.next_offset = self.base_offset
        newest, indexed = self._times.last, self._offsets.last
        self.newest = newest or TimedOffset(NO_TIMESTAMP, self.base_offset)
        self._bytes_since_entry = self.size - indexed.position
        batches = self._batches_of(indexed) if len(self._offsets) else self.batches()
        if batches is None:
            raise DamagedIndex(f"{self.path.name} has another offset at {indexed}")
        is_true = newest is None
        # With each entry of the one index goes one of the other, if there was a newer record.
        is_indexed = len(self._offsets) > 0
        for placed in batches:
            header = placed.header
            if is_indexed and header.max_timestamp > self.newest.timestamp:
                raise DamagedIndex(f"{self.path.name} has newer records than {newest}")
            is_indexed = False
            if newest is not None and header.base_offset <= newest.offset <= header.last_offset:
                is_true = header.max_timestamp == newest.timestamp
            self._note(header)
        if newest is not None and not (is_true or self._is_true(newest)):
            raise DamagedIndex(f"{self.path.name} has another timestamp than {newest}")

    def _index(self, placed: Placed) -> None:
        header = placed.header
        self._note(header)
        if self._bytes_since_entry > self._index_interval_bytes:
            self._offsets.append(header.last_offset, placed.position)
            self._times.append(*self.newest)
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size

    def _note(self, header: BatchHeader) -> None:
        self.next_offset = header.next_offset
        if header.max_timestamp > self.newest.timestamp:
            self.newest = TimedOffset(header.max_timestamp, header.last_offset)
