"""The batches in a segment's file, one after another: where they are, and when.

Batches were accepted unread. For searches by time one that cannot be read, or inflates beyond what
its topic takes, counts with what its header says: its latest timestamp, at its first offset.
Consumers may be able to read it, so it is not passed over. (Kafka reads all that it accepts, and
has no such batches.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from pyk.disk import File
from pyk.log.index import TimedOffset
from pyk.types import Buffer
from pyk.wire.batch import (
    CRC_COVERS_FROM,
    HEADER_BYTES,
    BatchHeader,
    check_crc,
    iterate_batches,
    peek_header,
    wrong_crc,
)
from pyk.wire.checksum import crc32c
from pyk.wire.compression import BatchTooLarge, CorruptBatch
from pyk.wire.outline import skim_times

SCAN_BYTES = 64 * 1024
"""How much is read at once where all headers are looked at."""
SEEK_BYTES = 4096
"""How much is read at once where one is looked for: an index entry is never far from it."""
CHECK_BYTES = 1024 * 1024
"""How much is read at once where all bytes are looked at."""
CHEAP_BYTES: Final = 32 * 1024
"""How many bytes of headers, and of the records of a batch, a cheap search looks at, and how many
of batches a reader does."""


class Placed(NamedTuple):
    """A batch, and where in the file it is."""

    position: int
    header: BatchHeader


class Stretch(NamedTuple):
    """A part of a segment's file, from the start of a batch to the end of another. It can be read
    in any thread: the file may meanwhile be appended to, renamed, or removed."""

    file: File
    name: str
    start: int
    end: int

    def batches(self, read_bytes: int = SCAN_BYTES) -> Iterator[Placed]:
        """Their records are not looked at. Raise CorruptBatch at what is not a batch, or not all
        of one."""
        file, name, position, end = self
        chunk, start = b"", position
        while position < end:
            if position + HEADER_BYTES > start + len(chunk):
                chunk, start = file.read(position, read_bytes), position
            header = peek_header(chunk, position - start)
            if position + header.size > end:
                raise CorruptBatch(f"the batch at {position} of {name} is cut off")
            yield Placed(position, header)
            position += header.size

    def checked_batches(self, checkpoint: Callable[[int], None]) -> Iterator[Placed]:
        """The same with the right CRC, each. `checkpoint` is told now and then of how many bytes
        more that is known, and may raise to stop."""
        position, end = self.start, self.end
        while position < end:
            chunk, at = memoryview(self.file.read(position, CHECK_BYTES)), 0
            while at + HEADER_BYTES <= len(chunk) or not at:
                header = peek_header(chunk, at)
                following = at + header.size
                if position + following > end:
                    raise CorruptBatch(f"the batch at {position + at} of {self.name} is cut off")
                if following <= len(chunk):
                    check_crc(chunk, at, header)
                elif at:
                    break
                else:
                    self._check_large(position, header, checkpoint)
                yield Placed(position + at, header)
                at = following
            checkpoint(at)
            position += at

    def _check_large(
        self, position: int, header: BatchHeader, checkpoint: Callable[[int], None]
    ) -> None:
        """As `check_crc`, with no more than a chunk of it in memory: its size may be wrong."""
        crc, end = 0, position + header.size
        for at in range(position + CRC_COVERS_FROM, end, CHECK_BYTES):
            checkpoint(0)
            crc = crc32c(self.file.read(at, min(CHECK_BYTES, end - at)), crc)
        if crc != header.crc:
            raise wrong_crc(header, crc)

    def load(self, placed: Placed) -> bytes:
        return self.file.read(placed.position, placed.header.size)


def in_order(batches: Iterator[Placed], start_offset: int, end_offset: int) -> Iterator[Placed]:
    """The same ones. Raise CorruptBatch instead of one that contradicts those beside it, or reaches
    beyond these offsets: no CRC covers where a batch begins.

    There may be gaps, which compaction leaves. So what is behind a gap is shown to be true by what
    follows it.
    """
    doubtful: Placed | None = None
    try:
        for placed in batches:
            header = placed.header
            base_offset, next_offset = header.base_offset, header.next_offset
            if base_offset < start_offset or not base_offset < next_offset <= end_offset:
                doubtful = None
                raise CorruptBatch(
                    f"the batch at {placed.position} says {base_offset} to {next_offset - 1},"
                    f" between {start_offset} and {end_offset}"
                )
            if doubtful is not None:
                yield doubtful
            doubtful = placed if base_offset > start_offset else None
            if doubtful is None:
                yield placed
            start_offset = next_offset
    except CorruptBatch:
        if doubtful is not None:
            yield doubtful
        raise
    if doubtful is not None:
        yield doubtful


def whole_in(chunk: Buffer, position: int) -> Iterator[Placed]:
    """Those that are whole in what was read at a position."""
    for at, header in iterate_batches(chunk, torn_tail_allowed=True):
        yield Placed(position + at, header)


class TakesLong(Exception):
    """A search would not be cheap."""


def first_in(
    stretch: Stretch,
    timestamp: int,
    start_offset: int,
    inflated_bytes_max: int,
    *,
    is_cheap: bool = False,
) -> TimedOffset | None:
    """The first record at or after both. Raise TakesLong if that is not to be, CorruptBatch if
    what is there is damaged."""
    for placed in stretch.batches(SEEK_BYTES) if is_cheap else stretch.batches():
        if is_cheap and placed.position - stretch.start > CHEAP_BYTES:
            raise TakesLong
        if placed.header.max_timestamp >= timestamp:
            for found in _times(stretch, placed, start_offset, inflated_bytes_max, is_cheap):
                if found.timestamp >= timestamp:
                    return found
    return None


def newest_in(stretch: Stretch, start_offset: int, inflated_bytes_max: int) -> TimedOffset | None:
    newest: Placed | None = None
    found: list[TimedOffset] = []
    for placed in stretch.batches():
        header = placed.header
        if header.base_offset < start_offset:
            # Its latest record may be before the start.
            found += _times(stretch, placed, start_offset, inflated_bytes_max)
        elif header.records_count and (
            newest is None or header.max_timestamp > newest.header.max_timestamp
        ):
            newest = placed
    if newest is not None:
        found += _times(stretch, newest, start_offset, inflated_bytes_max)
    return max(found, key=newest_first, default=None)


def newest_first(found: TimedOffset) -> tuple[int, int]:
    return found.timestamp, -found.offset


def _times(
    stretch: Stretch,
    placed: Placed,
    start_offset: int,
    inflated_bytes_max: int,
    is_cheap: bool = False,
) -> Iterator[TimedOffset]:
    """When and where the records of a batch are that are not before the start."""
    header = placed.header
    if is_cheap and header.size > CHEAP_BYTES:
        raise TakesLong
    bytes_max = min(inflated_bytes_max, CHEAP_BYTES) if is_cheap else inflated_bytes_max
    try:
        for timestamp, offset in skim_times(stretch.load(placed), 0, header, bytes_max=bytes_max):
            if offset >= start_offset:
                yield TimedOffset(timestamp, offset)
    except CorruptBatch as unreadable:
        if isinstance(unreadable, BatchTooLarge) and bytes_max < inflated_bytes_max:
            raise TakesLong from None
        yield TimedOffset(header.max_timestamp, max(header.base_offset, start_offset))
