"""What one group has of one partition: a window of offsets, and how far each one's delivery is.

    acquire -> Change -> settle -> the member has the records -> acknowledge -> Change -> settle

- A change is decided, persisted by the shell and then settled: kept, or taken back. Until then its
  offsets are in transition, and nobody can do anything else with them.
- Changes are persisted in the order in which they are made, and may be settled in any.
- Deliveries are counted when records are acquired, and that is persisted before they are sent: a
  broker that is killed delivers nothing more often than the limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pyk.coordinator.share_state.batches import StateBatch
from pyk.sharing.acknowledging import check, check_window, parted, refusal
from pyk.sharing.delivery import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    NEW,
    Acknowledge,
    Acknowledgement,
    Acquired,
    Change,
    Dead,
    Delivery,
    Limits,
    Reason,
    Span,
)
from pyk.sharing.runs import Piece
from pyk.sharing.selection import Choice, Fetched, Verdict, choose
from pyk.sharing.window import Window


class _Said(NamedTuple):
    base: int
    end: int
    held: Delivery
    kind: int


class SharePartition:
    def __init__(
        self, state_epoch: int, start_offset: int, batches: Iterable[StateBatch] = ()
    ) -> None:
        """From what was persisted. What there is no batch for is available."""
        self.state_epoch = state_epoch
        self._window = Window(start_offset, batches)

    @property
    def start_offset(self) -> int:
        return self._window.runs.start

    @property
    def end_offset(self) -> int:
        """One past the last that was ever fetched."""
        return self._window.runs.end

    @property
    def delivery_complete_count(self) -> int:
        """How many offsets of the window are acknowledged or archived."""
        return self._window.complete

    @property
    def in_flight(self) -> int:
        return self._window.size

    @property
    def acquired(self) -> int:
        """How many offsets are somebody's at the moment."""
        return self._window.acquired

    @property
    def redeliveries(self) -> int:
        """How many records were delivered another time, since the beginning."""
        return self._window.redeliveries

    @property
    def run_count(self) -> int:
        """What the window takes of memory."""
        return len(self._window.runs)

    def next_fetch_offset(self) -> int:
        """The first offset that can be acquired: one that was fetched before, if there is any."""
        return self._window.next_open()

    def reach(self, offset: int, count: int) -> int:
        """Where so many offsets from that one on end, without those that cannot be acquired."""
        if offset >= self._window.runs.end:
            return offset + count
        for base, end, held in self._window.runs.walk(offset):
            if held.is_open:
                if end - base >= count:
                    return base + count
                count -= end - base
        return self.end_offset + count

    def can_acquire(self, limits: Limits) -> bool:
        return self._window.size < limits.in_flight or self.next_fetch_offset() < self.end_offset

    def deadline(self) -> float | None:
        """When `expire` has something to do."""
        return self._window.locks.deadline()

    def recover(self, limits: Limits) -> Change:
        """After a restart: what was delivered for the last time before it goes to nobody else."""
        change = Change()
        for base, end, held in list(self._window.runs.walk(self.start_offset)):
            if held.is_open and held.delivery_count >= limits.deliveries:
                self._let_go(change, base, end, held, limits)
        return self._window.made(change)

    def acquire(
        self,
        member_id: str,
        batches: Sequence[Span],
        *,
        fetch_offset: int,
        max_records: int,
        batch_size: int,
        is_strict: bool,
        aborted: Sequence[Span],
        limits: Limits,
        now: float,
        onto: Change | None = None,
    ) -> tuple[list[Acquired], Change]:
        """What the member gets of record batches that were read from `fetch_offset` on.

        `max_records` is a limit if it is strict, and otherwise a hint, as whole record batches are
        handed out. What is not in the log any more, and what is aborted, is archived on the way.
        All of it is added to the change `onto` that nobody has begun to persist, if there is one.
        """
        assert fetch_offset <= self.end_offset, "offsets were passed over that nobody has fetched"
        change, acquired = Change() if onto is None else onto, list[Acquired]()
        if not batches or max_records <= 0:
            return acquired, self._window.made(change)
        deadline = now + limits.lock_duration
        base, end = batches[0]
        if len(batches) == 1 and not aborted and self._is_next(base, end, max_records, limits):
            # As what is said below comes to for almost all.
            after = Delivery(ACQUIRED, 1, member_id, deadline)
            self._window.begin(change, base, end, NEW, after)
            acquired.append(Acquired(base, end - 1, 1))
            return acquired, self._window.made(change)
        fetched = Fetched(batches, aborted, batch_size=batch_size, is_strict=is_strict)
        for verdict, base, end, held in self._choose(fetched, fetch_offset, max_records, limits):
            if verdict is Verdict.TAKE:
                count = held.delivery_count + 1
                acquired += [Acquired(s, e - 1, count) for s, e in fetched.cut(base, end)]
                after = Delivery(ACQUIRED, count, member_id, deadline)
                self._window.begin(change, base, end, held, after)
            elif verdict is Verdict.GONE:
                self._forget(change, base, end, held)
            else:
                self._let_go(change, base, end, held, limits)
        return acquired, self._window.made(change)

    def acknowledge(
        self,
        member_id: str,
        acknowledgements: Sequence[Acknowledgement],
        limits: Limits,
        now: float,
    ) -> Change:
        """All of it is decided, or KafkaError raised and nothing changed."""
        check(acknowledgements)
        said: list[_Said] = []
        for each in acknowledgements:
            self._hear(member_id, each, said)
        change = Change()
        for base, end, held, kind in said:
            count = held.delivery_count
            if kind == Acknowledge.ACCEPT:
                self._window.begin(change, base, end, held, Delivery(ACKNOWLEDGED, count))
            elif kind == Acknowledge.RELEASE:
                self._let_go(change, base, end, held, limits)
            elif kind == Acknowledge.RENEW:
                self._renew(base, end, held, now + limits.lock_duration)
            else:
                self._archive(change, base, end, held)
                if kind == Acknowledge.REJECT:
                    change.dead.append(Dead(base, end, count, Reason.REJECTED))
        return self._window.made(change)

    def release(self, member_id: str, limits: Limits) -> Change:
        """The member is gone. What it had was delivered to it: it may be what was the end of it."""
        change = Change()
        for base, end, held in list(self._window.runs.walk(self.start_offset)):
            if held.is_held and held.owner == member_id:
                self._let_go(change, base, end, held, limits)
        return self._window.made(change)

    def expire(self, limits: Limits, now: float) -> Change:
        """Take from members what they have kept for too long."""
        change = Change()
        for base, end, held in self._window.locks.take_over(now):
            self._let_go(change, base, end, held, limits)
        return self._window.made(change)

    def on_log_start(self, log_start_offset: int) -> Change:
        """Records were deleted, and the window is without them, whoever has acquired them.

        There is nothing to persist, as in Kafka: the next change tells of the start offset.
        """
        self._window.drop_before(log_start_offset)
        return self._window.made(Change())

    def is_accepting(self, change: Change) -> bool:
        """Whether all that it does is to end deliveries: nothing of it can be acquired, and there
        are no dead letters."""
        return (
            bool(change.parts)
            and not change.dead
            and all(p.after.is_complete for p in change.parts)
        )

    def settle(self, change: Change, *, is_persisted: bool) -> bool:
        """End a transition: it is kept, or taken back. Whether there may be more to acquire now."""
        return self._window.settle(change, is_persisted=is_persisted)

    def _is_next(self, base: int, end: int, max_records: int, limits: Limits) -> bool:
        """Whether a batch is just behind the window, nothing before it can be acquired, and all
        of it may be."""
        runs = self._window.runs
        size = end - base
        return (
            base == runs.end == self._window.next_open()
            and size <= max_records
            and size <= limits.in_flight - (runs.end - runs.start)
        )

    def _choose(
        self, fetched: Fetched, fetch_offset: int, max_records: int, limits: Limits
    ) -> list[Choice]:
        if not self.in_flight:
            # Nothing is lost between what is done with and the first record that there is.
            self._window.drop_before(fetched.base)
        choices = choose(
            self._candidates(min(fetch_offset, fetched.base), fetched.end, limits),
            fetched,
            room=max_records,
            end_offset=self.end_offset,
            capacity=limits.in_flight - self.in_flight,
            limits=limits,
        )
        return list(choices)

    def _candidates(self, base: int, end: int, limits: Limits) -> Iterator[Piece[Delivery]]:
        """What can be acquired of some offsets, whether they are in the window yet or not."""
        for start, stop, held in self._window.runs.walk(base):
            if start >= end:
                return
            if held.is_open:
                yield start, min(stop, end), held
        if self.end_offset < end and self.in_flight < limits.in_flight:
            yield self.end_offset, end, NEW

    def _hear(self, member_id: str, acknowledgement: Acknowledgement, said: list[_Said]) -> None:
        """Raise KafkaError if the member has not acquired what it speaks of."""
        runs = self._window.runs
        first, last, _ = acknowledgement
        if last < runs.start:
            return
        check_window(acknowledgement, runs.start, runs.end)
        is_twice = bool(said) and first < said[-1].end
        for base, end, kind in parted(acknowledgement, runs.start):
            for start, stop, held in runs.pieces(base, end):
                if is_twice or held.owner != member_id or not held.is_held:
                    run_base, run_end, _ = runs.at(start)
                    is_whole = first <= run_base and run_end <= last + 1
                    raise refusal(held, member_id, is_whole=is_whole)
                said.append(_Said(start, stop, held, kind))

    def _renew(self, base: int, end: int, held: Delivery, deadline: float) -> None:
        renewed = Delivery(ACQUIRED, held.delivery_count, held.owner, deadline)
        self._window.runs.put(base, end, renewed)
        self._window.locks.add(deadline, base, end)

    def _let_go(self, change: Change, base: int, end: int, held: Delivery, limits: Limits) -> None:
        """Somebody else gets it, or nobody if it was delivered often enough."""
        count = held.delivery_count
        if count < limits.deliveries:
            self._window.begin(change, base, end, held, Delivery(AVAILABLE, count))
        else:
            self._archive(change, base, end, held)
            change.dead.append(Dead(base, end, count, Reason.DELIVERIES))

    def _forget(self, change: Change, base: int, end: int, held: Delivery) -> None:
        """There are no such records, so nobody has to know how often they were delivered.

        What was persisted of them may have a count that is higher by one: that of a delivery that
        was taken back. A lower one would not count.
        """
        count = held.delivery_count + (base < self.end_offset)
        self._window.begin(change, base, end, held, Delivery(ARCHIVED, count))

    def _archive(self, change: Change, base: int, end: int, held: Delivery) -> None:
        self._window.begin(change, base, end, held, Delivery(ARCHIVED, held.delivery_count))
