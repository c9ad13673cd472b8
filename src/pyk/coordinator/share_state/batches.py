"""What is known of the records of a share partition: ranges of offsets, each with a state.

    kept   [0-9 available, once]              [20-29 acknowledged, once]
    added          [5-24 archived, twice]
    kept   [0-4 available, once][5-24 archived, twice][25-29 acknowledged, once]

Ranges are in order, do not overlap, and are joined where they touch and say the same. Where two
speak of the same offset, the one with more deliveries counts, and of as many the one whose state
has the higher number: states only go up within one delivery. So it does not matter in which order
they come, or how often. To add one takes looking at those that it meets, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class StateBatch(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

    @property
    def rank(self) -> tuple[int, int]:
        """Which of two counts: the higher one."""
        return self.delivery_count, self.delivery_state


class StateBatches:
    def __init__(self, batches: Iterable[StateBatch] = (), start_offset: int = -1) -> None:
        """Nothing before `start_offset` is kept."""
        self._batches: list[StateBatch] = []
        self.add(batches)
        self.forget_before(start_offset)

    def __iter__(self) -> Iterator[StateBatch]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def copy(self) -> StateBatches:
        copied = StateBatches()
        copied._batches = self._batches.copy()
        return copied

    def add(self, batches: Iterable[StateBatch]) -> None:
        for batch in batches:
            if batch.first_offset <= batch.last_offset:
                self._add(batch)

    def forget_before(self, offset: int) -> None:
        batches = self._batches
        end = bisect_left(batches, (offset,))
        if end and batches[end - 1].last_offset >= offset:
            end -= 1
            batches[end] = batches[end]._replace(first_offset=offset)
        del batches[:end]

    def _add(self, added: StateBatch) -> None:
        first, last = added.first_offset, added.last_offset
        batches = self._batches
        if not batches or batches[-1].last_offset < first:
            # As almost all are: those of a snapshot, and of readers that go on.
            _join(batches, added, first, last)
            return
        start = bisect_left(batches, (first,))
        if start and batches[start - 1].last_offset >= first - 1:
            start -= 1
        # Those that only touch it are met too: they may be joined with it.
        end = bisect_left(batches, (last + 2,), start)
        batches[start:end] = _merged(batches[start:end], added)


def _merged(met: list[StateBatch], added: StateBatch) -> list[StateBatch]:
    first, last, state, count = added
    merged: list[StateBatch] = []
    covered = first
    """How far the added one is done with."""
    for batch in met:
        _join(merged, batch, batch.first_offset, min(batch.last_offset, first - 1))
        _join(merged, added, covered, min(batch.first_offset - 1, last))
        both = max(batch.first_offset, first), min(batch.last_offset, last)
        _join(merged, batch if batch.rank > (count, state) else added, *both)
        _join(merged, batch, max(batch.first_offset, last + 1), batch.last_offset)
        covered = max(covered, batch.last_offset + 1)
    _join(merged, added, covered, last)
    return merged


def _join(merged: list[StateBatch], batch: StateBatch, first: int, last: int) -> None:
    """Let the range from `first` to `last` say what `batch` says."""
    if first > last:
        return
    _, _, state, count = batch
    if merged:
        before = merged[-1]
        if before.last_offset == first - 1 and before[2:] == (state, count):
            merged[-1] = StateBatch(before.first_offset, last, state, count)
            return
    merged.append(StateBatch(first, last, state, count))
