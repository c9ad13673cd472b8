"""What a share group may be handed of a log: the batches of a piece of it, by their offsets.

Only headers are read, and only of as many batches as are wanted. Records stay in their file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from pyk.log.segment import Piece
from pyk.log.transactions import AbortedTransaction
from pyk.sharing.delivery import Span
from pyk.types import FileSlice
from pyk.wire.batch import HEADER_BYTES, BatchHeader, peek_header

if TYPE_CHECKING:
    from pyk.disk import File

READ_BYTES: Final = 16 * 1024
"""How much is read at a time. Small batches come many to a read."""


class Batches(NamedTuple):
    """Batches in the order of the log."""

    spans: list[Span]
    ends: list[int]
    """Where in the piece each of them ends."""
    unwanted: list[Span]
    """Those that no member is to see: markers, and what belongs to aborted transactions."""


def find_batches(piece: Piece, end: int, aborted: Sequence[AbortedTransaction]) -> Batches:
    """Up to the batch that reaches the offset `end`, which is further for what nobody is to see."""
    found = Batches([], [], [])
    is_alone = piece.first.size == piece.records.size
    for position, header in ((0, piece.first),) if is_alone else walk(piece.records):
        span = Span(header.base_offset, header.next_offset)
        found.spans.append(span)
        found.ends.append(position + header.size)
        if header.is_control or (aborted and _is_aborted(header, aborted)):
            found.unwanted.append(span)
            end += span.end - span.base
        elif span.end >= end:
            break
    return found


def covering(records: FileSlice, batches: Batches, base: int, end: int) -> FileSlice:
    """The batches that hold the offsets from `base` on and before `end`."""
    if len(batches.spans) == 1:
        return (
            records
            if len(records) == batches.ends[0]
            else FileSlice(records.file, records.position, batches.ends[0])
        )
    start = size = 0
    for span, after in zip(batches.spans, batches.ends, strict=True):
        if span.end <= base:
            start = after
        elif span.base < end:
            size = after - start
        else:
            break
    return FileSlice(records.file, records.position + start, size)


def walk(records: FileSlice) -> Iterator[tuple[int, BatchHeader]]:
    """Each batch's header, and its position, counted from the beginning of the piece."""
    file, position = cast("File", records.file), 0
    while position < records.size:
        read_bytes = min(READ_BYTES, records.size - position)
        data = file.read(records.position + position, read_bytes)
        at = 0
        while at + HEADER_BYTES <= len(data):
            header = peek_header(data, at)
            yield position + at, header
            at += header.size
        if not at:
            return
        position += at


def _is_aborted(header: BatchHeader, aborted: Sequence[AbortedTransaction]) -> bool:
    return header.is_transactional and any(
        each.producer_id == header.producer_id
        and each.first_offset <= header.base_offset <= each.last_offset
        for each in aborted
    )
