"""A share partition, a log, what is persisted and its members, offset by offset, in plain dicts.

Whatever is asked of the share partition is checked against the model, and what a change brings is
taken into the model when it is settled. Changes wait to be written, in their order, and then to be
settled, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyk.coordinator.share_state.batches import StateBatch
from pyk.errors import KafkaError
from pyk.sharing.delivery import (
    KEEP_START_OFFSET,
    Acknowledge,
    Acknowledgement,
    Acquired,
    Change,
    Limits,
    Part,
    Reason,
    Span,
)
from pyk.sharing.share_partition import SharePartition
from tests.sharing.log import Log, Read, offsets

LIMITS = Limits(deliveries=4, in_flight=30, lock_duration=30.0)
SUSPICIOUS = 2
COMPLETE = (2, 4)


class Store:
    """What the share coordinator has: of each offset what was said at the latest delivery, and
    then the state with the highest number, and nothing before the start."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.states: dict[int, tuple[int, int]] = {}

    def write(self, change: Change) -> set[int]:
        """The offsets that it forgets though they are not complete."""
        before = range(self.start_offset, change.start_offset)
        for first, last, state, count in change.batches:
            for offset in range(first, last + 1):
                known = self.states.get(offset, (state, count))
                self.states[offset] = max(known, (state, count), key=lambda each: each[::-1])
        left = set(before) - self.complete()
        if change.start_offset != KEEP_START_OFFSET:
            self.start_offset = change.start_offset
        self.states = {o: s for o, s in self.states.items() if o >= self.start_offset}
        return left

    def load(self) -> SharePartition:
        batches = [StateBatch(o, o, *self.states[o]) for o in sorted(self.states)]
        return SharePartition(0, self.start_offset, batches)

    def complete(self) -> set[int]:
        return {o for o, (state, _) in self.states.items() if state in COMPLETE}


@dataclass
class Held:
    member: str
    deadline: float


@dataclass
class Pending:
    change: Change
    parts: list[Part]
    member: str = ""
    now: float = 0.0
    acquiring: set[int] = field(default_factory=set)
    is_alone: bool = False
    is_persisted: bool = False


class History:
    def __init__(self) -> None:
        self.log = Log()
        self.store = Store()
        self.now = 0.0
        self.share = SharePartition(0, 0)
        self.deliveries: dict[int, int] = {}
        """How often members got each record, whatever the broker has forgotten."""
        self.written: dict[int, int] = {}
        """How often it was persisted of each record that somebody is to get it."""
        self.accepted: set[int] = set()
        self._begin()

    def _begin(self) -> None:
        """As it is after a restart."""
        self.start = self.end = self.store.start_offset
        self.counts: dict[int, int] = {o: count for o, (_, count) in self.store.states.items()}
        self.complete = self.store.complete()
        self.held: dict[int, Held] = {}
        self.busy: dict[int, Pending] = {}
        self.unwritten: list[Pending] = []
        self.unsettled: list[Pending] = []
        self.is_muddled = False
        """Whether more is persisted than the share partition knows of."""
        self.end = max(self.store.states, default=self.start - 1) + 1
        self._advance()

    def crash(self) -> None:
        """All that is known is what was persisted."""
        self.share = self.store.load()
        self._begin()
        for offset in self._open():
            count = self.counts.get(offset, 0)
            assert self.deliveries.get(offset, 0) <= count, "a delivery is forgotten"
            assert count <= self.written.get(offset, 0), "a delivery is made up"
        if self.log.start > self.share.start_offset:
            self.delete_before(self.log.start)
        worn = {o for o in self._open() if self.counts.get(o, 0) >= LIMITS.deliveries}
        pending = self._take(self.share.recover(LIMITS))
        assert offsets(pending.parts) == worn
        self._check_dead(pending)

    def fetch(
        self,
        member: str,
        read: Read,
        max_records: int,
        batch_size: int,
        *,
        is_strict: bool,
        onto: Pending | None = None,
    ) -> None:
        """It is part of a change, `onto`, that was made just before, if there is one."""
        fetch_offset, batches = read
        if not batches:
            return
        available, old_end = self._open(), self.end
        had_room = self.end - self.start < LIMITS.in_flight
        acquired, change = self.share.acquire(
            member,
            batches,
            fetch_offset=fetch_offset,
            max_records=max_records,
            batch_size=batch_size,
            is_strict=is_strict,
            aborted=self.log.aborted,
            limits=LIMITS,
            now=self.now,
            onto=None if onto is None else onto.change,
        )
        before: list[Part] = []
        if onto is not None:
            assert change is onto.change
            before = self._untake(onto)
        if self.start == self.end:
            self.start = self.end = max(self.end, batches[0].base)
        self.end = max([self.end, *(part.end for part in change.parts)])
        available |= set(range(old_end, self.end))
        pending = self._take(change, member=member)
        assert pending.parts[: len(before)] == before
        parts = pending.parts[len(before) :]
        self._check_acquired(acquired, pending, parts, available, batches, max_records, is_strict)
        present = (offsets(batches) - offsets(self.log.aborted)) & (
            available | (set(range(old_end, batches[-1].end)) if had_room else set())
        )
        fresh = {o for o in present if self.counts.get(o, 0) < LIMITS.deliveries}
        taken = [each.first_offset for each in acquired]
        assert taken[:1] == sorted(fresh)[:1], "the first that can be had is had"

    def _check_acquired(
        self,
        acquired: list[Acquired],
        pending: Pending,
        parts: list[Part],
        available: set[int],
        batches: Sequence[Span],
        max_records: int,
        is_strict: bool,
    ) -> None:
        taken = {o: a.delivery_count for a in acquired for o in range(a[0], a[1] + 1)}
        assert len(taken) == sum(a.last_offset - a.first_offset + 1 for a in acquired)
        assert taken.keys() <= available
        assert taken.keys() <= offsets(batches) - offsets(self.log.aborted)
        assert all(count == self.counts.get(o, 0) + 1 for o, count in taken.items())
        largest = max(span.end - span.base for span in batches)
        assert len(taken) <= max_records + (0 if is_strict else largest - 1)
        if any(count > SUSPICIOUS for count in taken.values()):
            assert len(acquired) == 1, "what was delivered often is delivered by itself"
        if LIMITS.deliveries in taken.values():
            assert len(taken) == 1, "who gets a record for the last time gets it alone"
        assert taken.keys() == pending.acquiring
        given_up = offsets(p for p in parts if p.after.is_complete)
        dead = offsets(pending.change.dead)
        assert given_up <= available
        assert not (given_up - dead) & self.log.records(), "only what is not there is archived"
        self._check_dead(pending)

    def _check_dead(self, pending: Pending) -> None:
        for base, end, count, reason in pending.change.dead:
            assert reason is Reason.REJECTED or count >= LIMITS.deliveries
            assert all(self.counts[o] == count for o in range(base, end))

    def acknowledge(self, member: str, acknowledgements: list[Acknowledgement]) -> Pending | None:
        """What is to be written, if anything is."""
        wanted = [
            (offset, each.types[0 if len(each.types) == 1 else offset - each.first_offset])
            for each in acknowledgements
            for offset in range(each.first_offset, each.last_offset + 1)
            if offset >= self.start
        ]
        is_allowed = all(
            offset in self.held and self.held[offset].member == member and offset not in self.busy
            for offset, _ in wanted
        )
        before = self.figures()
        try:
            change = self.share.acknowledge(member, acknowledgements, LIMITS, self.now)
        except KafkaError:
            assert not is_allowed
            assert self.figures() == before
            return None
        assert is_allowed
        kinds = dict(wanted)
        renewed = {o for o, kind in kinds.items() if kind == Acknowledge.RENEW}
        for offset in renewed:
            self.held[offset].deadline = self.now + LIMITS.lock_duration
        pending = self._take(change, member=member)
        assert offsets(pending.parts) == kinds.keys() - renewed
        rejected = {o for o, kind in kinds.items() if kind == Acknowledge.REJECT}
        assert rejected == offsets(d for d in change.dead if d.reason is Reason.REJECTED)
        self._check_dead(pending)
        accepted = {o for o, kind in kinds.items() if kind in (Acknowledge.ACCEPT, Acknowledge.GAP)}
        assert self.share.is_accepting(change) == (
            bool(accepted) and accepted == kinds.keys() - renewed
        )
        return pending if pending.parts else None

    def release(self, member: str) -> None:
        pending = self._take(self.share.release(member, LIMITS))
        mine = {o for o, held in self.held.items() if held.member == member}
        assert offsets(pending.parts) == {o for o in mine if self.busy.get(o) in (None, pending)}
        worn = {o for o in offsets(pending.parts) if self.counts[o] >= LIMITS.deliveries}
        assert offsets(pending.change.dead) == worn
        self._check_dead(pending)

    def expire(self) -> None:
        due = {o for o, h in self.held.items() if h.deadline <= self.now and o not in self.busy}
        pending = self._take(self.share.expire(LIMITS, self.now))
        assert offsets(pending.parts) == due
        self._check_dead(pending)
        worn = {o for o in due if self.counts[o] >= LIMITS.deliveries}
        assert offsets(pending.change.dead) == worn

    def delete_before(self, offset: int) -> None:
        self.log.delete_before(offset)
        assert self.share.on_log_start(offset).is_empty
        self.start = max(self.start, offset)
        self.end = max(self.start, self.end)
        for known in (self.held, self.busy, self.counts):
            for each in [o for o in known if o < self.start]:
                del known[each]
        self._advance()

    def write(self, *, reaches: bool, is_heard: bool) -> None:
        """Persist the next change, or fail to, or do not hear that it was."""
        if not self.unwritten:
            return
        pending = self.unwritten.pop(0)
        pending.is_persisted = reaches and is_heard
        self.unsettled.append(pending)
        if not reaches:
            return
        for offset in pending.acquiring:
            self.written[offset] = self.written.get(offset, 0) + 1
        left = self.store.write(pending.change)
        assert not left & self.log.records(), "the start passes over what nobody has done with"
        self.is_muddled = self.is_muddled or not is_heard
        if pending.is_alone and not self.is_muddled:
            loaded = self.store.load()
            assert loaded.start_offset == pending.change.start_offset
            assert loaded.delivery_complete_count == pending.change.delivery_complete_count

    def settle(self, at: int) -> None:
        if not self.unsettled:
            return
        pending = self.unsettled.pop(at % len(self.unsettled))
        old_open, old_start = self._open(), self.start
        is_woken = self.share.settle(pending.change, is_persisted=pending.is_persisted)
        for part in pending.parts:
            for offset in range(max(part.base, self.start), part.end):
                del self.busy[offset]
                if pending.is_persisted:
                    self._keep(offset, part, pending)
        self._advance()
        assert is_woken == bool(self._open() - old_open or self.start > old_start)

    def _keep(self, offset: int, part: Part, pending: Pending) -> None:
        if offset in self.held:
            assert part.after.delivery_count == self.counts.get(offset, 0)
        self.counts[offset] = part.after.delivery_count
        if part.after.is_complete:
            self.held.pop(offset, None)
            self.complete.add(offset)
            if part.after.state == 2:
                self.accepted.add(offset)
        elif offset in pending.acquiring:
            assert offset not in self.held, "it is somebody else's"
            assert offset not in self.accepted, "it was done with"
            self.held[offset] = Held(pending.member, pending.now + LIMITS.lock_duration)
            self.deliveries[offset] = self.deliveries.get(offset, 0) + 1
            assert self.deliveries[offset] <= LIMITS.deliveries
        else:
            del self.held[offset]

    def _take(self, change: Change, *, member: str = "") -> Pending:
        is_alone = not self.unwritten and not self.unsettled
        pending = Pending(change, list(change.parts), member, self.now, is_alone=is_alone)
        pending.acquiring = offsets(part for part in change.parts if part.after.owner)
        assert change.is_empty == (not pending.parts)
        if pending.parts:
            self.unwritten.append(pending)
            for offset in sorted(o for o in offsets(pending.parts) if o >= self.start):
                assert offset not in self.busy, "two changes at once"
                self.busy[offset] = pending
        return pending

    def _untake(self, pending: Pending) -> list[Part]:
        """More is added to a change, which is taken anew then. What it had so far."""
        assert self.unwritten.pop() is pending
        for offset in offsets(pending.parts):
            self.busy.pop(offset, None)
        return pending.parts

    def _open(self) -> set[int]:
        window = set(range(self.start, self.end))
        return window - self.complete - self.held.keys() - self.busy.keys()

    def _advance(self) -> None:
        while self.start < self.end and self.start in self.complete:
            self.start += 1

    def figures(self) -> tuple[int, ...]:
        share = self.share
        return (
            share.start_offset,
            share.end_offset,
            share.delivery_complete_count,
            share.acquired,
            share.next_fetch_offset(),
        )

    def check(self) -> None:
        share, window = self.share, range(self.start, self.end)
        assert (share.start_offset, share.end_offset) == (self.start, self.end)
        assert share.delivery_complete_count == len(self.complete.intersection(window))
        locked = {o for o in self.held if o not in self.busy}
        locked |= {o for o, pending in self.busy.items() if o in pending.acquiring}
        assert share.acquired == len(locked)
        assert share.next_fetch_offset() == min(self._open(), default=self.end)
        idle = [h.deadline for o, h in self.held.items() if o not in self.busy]
        assert share.deadline() == min(idle, default=None)
        assert share.run_count <= len(window)
        has_room = len(window) < LIMITS.in_flight
        assert share.can_acquire(LIMITS) == (has_room or bool(self._open()))

    def drain(self) -> None:
        """All works from now on: one more member gets what nobody has done with."""
        self.calm()
        self.now += 2 * LIMITS.lock_duration
        self.expire()
        self.calm()
        for _ in range(10 * self.log.end + 10):
            read = self.log.read(self.share.next_fetch_offset(), 3)
            if not read.batches:
                break
            self.fetch("last", read, 5, 5, is_strict=False)
            self.calm()
            for offset in sorted(self.held):
                self.acknowledge("last", [Acknowledgement(offset, offset, [Acknowledge.ACCEPT])])
            self.calm()
        assert self.share.start_offset >= self.log.end

    def calm(self) -> None:
        while self.unwritten or self.unsettled:
            self.write(reaches=True, is_heard=True)
            self.settle(0)
