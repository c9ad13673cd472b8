"""Which of the records that were read from the log a member gets.

- Records come as record batches. What is between them, or of aborted transactions, is not there.
- A member gets whole record batches, and so may get more than it asked for, unless it is strict.
- What was delivered often is delivered with less and less beside it, and last of all alone: who
  breaks on one record then takes no others with it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

from pyk.sharing.delivery import Delivery, Limits, Span
from pyk.sharing.runs import Piece


class Verdict(Enum):
    TAKE = auto()
    GONE = auto()
    """There are no such records in the log."""
    WORN = auto()
    """They were delivered as often as the group lets them."""


class Choice(NamedTuple):
    verdict: Verdict
    base: int
    end: int
    held: Delivery


class Fetched:
    """Record batches, in the order of the log."""

    def __init__(
        self, batches: Sequence[Span], aborted: Sequence[Span], *, batch_size: int, is_strict: bool
    ) -> None:
        self.base, self.end = batches[0].base, batches[-1].end
        self._batches = batches
        self._batch_size = batch_size
        self._is_strict = is_strict
        self._present = _without(_joined(batches), aborted) if aborted else _joined(batches)

    def fragments(self, base: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """The offsets from base to end, parted into those that are there and those that are not."""
        for at in range(bisect_right(self._present, base, key=_end), len(self._present)):
            span = self._present[at]
            if span.base >= end:
                break
            if base < span.base:
                yield base, span.base, False
                base = span.base
            stop = min(end, span.end)
            yield base, stop, True
            base = stop
        if base < end:
            yield base, end, False

    def reach(self, base: int, end: int, room: int) -> int:
        """The end of what is taken from base on, where `room` offsets are asked for."""
        asked = base + room
        if asked >= end or self._is_strict:
            return min(asked, end)
        at = bisect_right(self._batches, asked - 1, key=_base) - 1
        return min(end, max(asked, self._batches[at].end))

    def cut(self, base: int, end: int) -> list[Span]:
        """Pieces of the wanted size or more, which end where record batches do."""
        pieces = []
        if not self._is_strict and end - base > self._batch_size:
            for at in range(bisect_right(self._batches, base, key=_base), len(self._batches)):
                edge = self._batches[at].base
                if edge >= end:
                    break
                if edge - base >= self._batch_size:
                    pieces.append(Span(base, edge))
                    base = edge
        pieces.append(Span(base, end))
        return pieces


def choose(
    candidates: Iterable[Piece[Delivery]],
    fetched: Fetched,
    *,
    room: int,
    end_offset: int,
    limits: Limits,
    capacity: int,
) -> Iterator[Choice]:
    """What happens to available offsets, in their order, until there is room for no more.

    There is a capacity of its own for those from `end_offset` on, which make the window longer.
    """
    is_first = True
    for piece_base, piece_end, held in candidates:
        if piece_base >= end_offset:
            room = min(room, capacity)
        count = held.delivery_count
        is_rare = count >= _often(limits.deliveries)
        for base, end, is_there in fetched.fragments(piece_base, piece_end):
            if not is_there:
                yield Choice(Verdict.GONE, base, end, held)
                continue
            if count >= limits.deliveries:
                yield Choice(Verdict.WORN, base, end, held)
                continue
            if room <= 0 or (is_rare and not is_first):
                return
            stop = fetched.reach(base, end, room)
            if is_rare:
                whole = fetched.cut(base, end)[0].end - base
                stop = min(stop, base + _share(whole, count, limits.deliveries))
            yield Choice(Verdict.TAKE, base, stop, held)
            if is_rare or stop < end:
                return
            room -= stop - base
            is_first = False


def _often(limit: int) -> int:
    """From how many deliveries on a record is suspicious."""
    return max(2, (limit + 1) // 2)


def _share(size: int, delivery_count: int, limit: int) -> int:
    if delivery_count == limit - 1:
        return 1
    return max(1, size >> (delivery_count - _often(limit) + 1))


def _base(span: Span) -> int:
    return span.base


def _end(span: Span) -> int:
    return span.end


def _joined(batches: Sequence[Span]) -> list[Span]:
    if len(batches) == 1:
        return list(batches)
    joined: list[Span] = []
    base, end = batches[0]
    for span in batches:
        if span.base > end:
            joined.append(Span(base, end))
            base = span.base
        end = span.end
    joined.append(Span(base, end))
    return joined


def _without(spans: Iterable[Span], gone: Sequence[Span]) -> list[Span]:
    left: list[Span] = []
    for base, end in spans:
        for at in range(bisect_right(gone, base, key=_end), len(gone)):
            if gone[at].base >= end:
                break
            if base < gone[at].base:
                left.append(Span(base, gone[at].base))
            base = gone[at].end
        if base < end:
            left.append(Span(base, end))
    return left
