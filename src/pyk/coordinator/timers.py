"""Many deadlines, of which most are put off before they are reached, such as those of sessions."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Timers(Generic[K]):
    """To put a deadline off is to write down a later one: the heap learns of it when the earlier
    one comes up."""

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._queued: dict[K, float] = {}
        """The earliest entry that the heap has for a key."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def set(self, key: K, when: float) -> None:
        """Let it be due at that time, and not when it was before."""
        self._due[key] = when
        queued = self._queued.get(key)
        if queued is None or when < queued:
            self._push(key, when)

    def due_at(self, key: K) -> float | None:
        return self._due.get(key)

    def cancel(self, key: K) -> None:
        self._due.pop(key, None)

    def deadline(self) -> float | None:
        """When the next one is due."""
        heap = self._heap
        while heap:
            when, _, key = heap[0]
            due = self._due.get(key)
            if due == when:
                return when
            heappop(heap)
            if self._queued.get(key) == when:
                del self._queued[key]
                if due is not None:
                    self._push(key, due)
        return None

    def take_due(self, now: float) -> K | None:
        """The next one that is due, which it then no longer is."""
        deadline = self.deadline()
        if deadline is None or deadline > now:
            return None
        when, _, key = heappop(self._heap)
        del self._due[key]
        if self._queued.get(key) == when:
            del self._queued[key]
        return key

    def _push(self, key: K, when: float) -> None:
        self._count += 1
        self._queued[key] = when
        heappush(self._heap, (when, self._count, key))
