"""The offsets of a share partition that are in flight, and the changes that are under way to them.

    begin ... made -> (persisted) -> settle

- Offsets of a change that is not settled are in transition: they are in no other change.
- What is complete at the beginning, and settled, leaves the window.
- Start offsets that are persisted never go back, unless all of the window is persisted with them:
  what is between two of them would be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyk.coordinator.share_state.batches import StateBatch
from pyk.sharing.delivery import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    KEEP_START_OFFSET,
    NEW,
    Change,
    Delivery,
    Part,
)
from pyk.sharing.locks import Locks
from pyk.sharing.runs import Runs

_COMPLETE = {2: ACKNOWLEDGED, 3: ARCHIVED, 4: ARCHIVED}
"""Of what was persisted. Kafka keeps 3 for records that are on the way to be archived."""


class Window:
    def __init__(self, start_offset: int, batches: Iterable[StateBatch]) -> None:
        self.runs: Runs[Delivery] = Runs(start_offset)
        self.locks = Locks(self.runs)
        self.complete = 0
        """How many offsets are delivered to nobody any more, and settled."""
        self.acquired = 0
        self.redeliveries = 0
        self._open_from = start_offset
        """Nothing before it can be acquired."""
        self._unsettled: set[Change] = set()
        self._promised = 0
        """The latest start offset of the changes that are not settled."""
        self._is_unsure = False
        """Whether something failed to be persisted, so that nobody knows what was."""
        for batch in sorted(batches):
            self._load(batch)
        self._advance()

    @property
    def size(self) -> int:
        return self.runs.end - self.runs.start

    def next_open(self) -> int:
        """The first offset that can be acquired, or the end."""
        if self._open_from >= self.runs.end:
            return self.runs.end
        for base, _, held in self.runs.walk(self._open_from):
            if held.is_open:
                self._open_from = base
                return base
        self._open_from = self.runs.end
        return self.runs.end

    def begin(self, change: Change, base: int, end: int, before: Delivery, after: Delivery) -> None:
        """Let offsets be part of a change."""
        change.add(Part(base, end, before, after))
        self._count_acquired(end - base, before, after)
        held = Delivery(after.state, after.delivery_count, after.owner, after.deadline, change)
        self.runs.put(base, end, held)

    def made(self, change: Change) -> Change:
        """Say how the window is when the change is kept. If more is added to it, before anybody has
        begun to persist it, it is made again."""
        runs = self.runs
        change.start_offset, change.delivery_complete_count = runs.start, self.complete
        if not change.parts:
            return change
        self._unsettled.discard(change)
        if not self._unsettled:
            if self._is_unsure:
                self._restate(change)
            change.start_offset = self._first_incomplete(change)
            self._promised = 0
        elif runs.start < self._promised:
            change.start_offset = KEEP_START_OFFSET
        added = 0
        for base, end, _, after in change.parts:
            if after.is_complete:
                # Records may be deleted before more is added.
                added += max(end - max(base, runs.start), 0)
        left = max(change.start_offset - runs.start, 0)
        change.delivery_complete_count += added - left
        self._promised = max(self._promised, change.start_offset)
        self._unsettled.add(change)
        return change

    def settle(self, change: Change, *, is_persisted: bool) -> bool:
        """Whether there may be more to acquire now than before."""
        if not change.parts:
            return False
        parts, change.parts = change.parts, []
        start_offset, is_open = self.runs.start, False
        for base, end, before, after in parts:
            base = max(base, self.runs.start)
            if base >= end:
                continue
            held = after if is_persisted else before
            if is_persisted:
                self._count_redeliveries(end - base, after)
            else:
                self._count_acquired(end - base, after, before)
            self._put(base, end, held)
            is_open = is_open or held.state is AVAILABLE
        self._unsettled.discard(change)
        if not is_persisted:
            self._is_unsure = True
        self._advance()
        return is_open or self.runs.start > start_offset

    def drop_before(self, offset: int) -> None:
        """Forget offsets, whatever their state."""
        for base, end, held in self.runs.pieces(self.runs.start, offset):
            if held.state is ACQUIRED:
                self.acquired -= end - base
            elif held.is_complete and held.change is None:
                self.complete -= end - base
        self.runs.drop_before(offset)
        self._advance()

    def _load(self, batch: StateBatch) -> None:
        base, end = max(batch.first_offset, self.runs.end), batch.last_offset + 1
        if base >= end:
            return
        if base > self.runs.end:
            self.runs.put(self.runs.end, base, NEW)
        state = _COMPLETE.get(batch.delivery_state, AVAILABLE)
        self._put(base, end, Delivery(state, batch.delivery_count))

    def _put(self, base: int, end: int, held: Delivery) -> None:
        """That is settled."""
        self.runs.put(base, end, held)
        if held.state is AVAILABLE:
            self._open_from = min(self._open_from, base)
        elif held.state is ACQUIRED:
            self.locks.add(held.deadline, base, end)
        else:
            self.complete += end - base

    def _count_acquired(self, size: int, before: Delivery, after: Delivery) -> None:
        if before.state is ACQUIRED:
            self.acquired -= size
        if after.state is ACQUIRED:
            self.acquired += size

    def _count_redeliveries(self, size: int, after: Delivery) -> None:
        if after.state is ACQUIRED and after.delivery_count > 1:
            self.redeliveries += size

    def _advance(self) -> None:
        start = self._first_incomplete(None)
        if start > self.runs.start:
            self.complete -= start - self.runs.start
            self.runs.drop_before(start)

    def _first_incomplete(self, change: Change | None) -> int:
        """Where the window begins if the change is kept."""
        count = 0
        for held in self.runs.values:
            if not held.is_complete or (held.change is not None and held.change is not change):
                break
            count += 1
        return self.runs.edge(count) if count else self.runs.start

    def _restate(self, change: Change) -> None:
        change.batches = []
        for base, end, held in self.runs.walk(self.runs.start):
            change.persist(base, end, held)
        self._is_unsure = False
