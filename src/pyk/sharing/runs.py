"""A window of offsets, each of which has a value, kept as runs of neighbours with the same value.

    [0, 5) a   [5, 6) b   [6, 20) a      put(5, 6, a)  ->  [0, 20) a

Runs are sorted, they touch, and two that touch have different values: the window takes as much
memory as there are changes of value in it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Generic, TypeAlias, TypeVar

V = TypeVar("V")
Piece: TypeAlias = tuple[int, int, V]
"""Its base, its end, and the value of what is between."""


class Runs(Generic[V]):
    __slots__ = ("_bases", "_values", "end", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.end = start
        self._bases: list[int] = []
        self._values: list[V] = []

    def __len__(self) -> int:
        return len(self._bases)

    def put(self, base: int, end: int, value: V) -> None:
        """Give offsets a value. They are inside of the window, or follow it and make it longer."""
        bases, values = self._bases, self._values
        if base == self.end:
            self.end = end
            if not values or values[-1] != value:
                bases.append(base)
                values.append(value)
            return
        assert self.start <= base < end <= self.end, "offsets that the window has no place for"
        left = bisect_left(bases, base)
        right = bisect_left(bases, end, left)
        new_bases, new_values = [base], [value]
        if left and values[left - 1] == value:
            new_bases, new_values = [], []
        if (bases[right] if right < len(bases) else self.end) > end:
            tail = values[right - 1]
            if tail != value:
                new_bases.append(end)
                new_values.append(tail)
        elif right < len(bases) and values[right] == value:
            right += 1
        bases[left:right] = new_bases
        values[left:right] = new_values

    def pieces(self, base: int, end: int) -> list[Piece[V]]:
        """What is between two offsets, as far as the window has it."""
        base, end = max(base, self.start), min(end, self.end)
        if base >= end:
            return []
        at = bisect_right(self._bases, base) - 1
        stop = bisect_left(self._bases, end, at + 1)
        if stop == at + 1:
            return [(base, end, self._values[at])]
        edges = self._bases[at:stop]
        edges[0] = base
        edges.append(end)
        return list(zip(edges, edges[1:], self._values[at:stop], strict=False))

    @property
    def values(self) -> Sequence[V]:
        """Of the runs, in their order."""
        return self._values

    def edge(self, at: int) -> int:
        """Where the run of that number begins, or the end if there is none."""
        return self._bases[at] if at < len(self._bases) else self.end

    def at(self, offset: int) -> Piece[V]:
        """The whole run that has an offset of the window in it."""
        found = bisect_right(self._bases, offset) - 1
        return self._bases[found], self.edge(found + 1), self._values[found]

    def walk(self, base: int) -> Iterator[Piece[V]]:
        """What is from an offset on. Nothing may be changed meanwhile."""
        base = max(base, self.start)
        if base >= self.end:
            return
        bases, values = self._bases, self._values
        for at in range(bisect_right(bases, base) - 1, len(bases)):
            end = bases[at + 1] if at + 1 < len(bases) else self.end
            yield base, end, values[at]
            base = end

    def drop_before(self, offset: int) -> None:
        """Let the window begin at a later offset, even if that is behind its end."""
        if offset <= self.start:
            return
        self.start = offset
        if offset >= self.end:
            self.end = offset
            self._bases.clear()
            self._values.clear()
            return
        at = bisect_right(self._bases, offset) - 1
        del self._bases[:at]
        del self._values[:at]
        self._bases[0] = offset
