"""When members lose the records that they have acquired.

A lock that was given up is not looked for: it is forgotten when its time comes, or when there are
more of those than there are runs of offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

from pyk.sharing.delivery import Delivery
from pyk.sharing.runs import Piece, Runs

_SPARE: Final = 64


class Locks:
    def __init__(self, runs: Runs[Delivery]) -> None:
        self._runs = runs
        self._heap: list[tuple[float, int, int]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, deadline: float, base: int, end: int) -> None:
        """Offsets are acquired until then, and that is settled."""
        if len(self._heap) > 2 * len(self._runs) + _SPARE:
            self._heap = [
                (held.deadline, start, stop)
                for start, stop, held in self._runs.walk(self._runs.start)
                if held.is_held
            ]
            heapify(self._heap)
        heappush(self._heap, (deadline, base, end))

    def deadline(self) -> float | None:
        """When the next lock is over."""
        while self._heap:
            deadline, base, end = self._heap[0]
            if self._over(deadline, base, end):
                return deadline
            heappop(self._heap)
        return None

    def take_over(self, now: float) -> Iterator[Piece[Delivery]]:
        """What is acquired though its lock is over. It is to be let go of at once, as another
        entry may speak of it too."""
        while self._heap and self._heap[0][0] <= now:
            deadline, base, end = heappop(self._heap)
            yield from self._over(deadline, base, end)

    def _over(self, deadline: float, base: int, end: int) -> list[Piece[Delivery]]:
        pieces = self._runs.pieces(base, end)
        return [each for each in pieces if each[2].is_held and each[2].deadline <= deadline]
