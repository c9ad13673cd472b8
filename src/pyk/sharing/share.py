"""A group's share of a partition, at the partition's leader: the machine, and what it needs.

    fetch        log -> acquire ---+
    acknowledge  ------------------+--> change -> dead letters -> persisted -> settled -> answer
    lock over    ------------------+                                               |
    member gone  ------------------+                       those who wait are woken

A change is decided at once and settled when it is persisted: until then nobody else can do anything
with its records. That is before the answer, also for what is handed out, so that after a crash a
record has been delivered at most as often as its count says.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, Final, NoReturn, ParamSpec, Protocol, TypeVar

import trio

from pyk.coordinator.share_coordinator import Persister, ShareState
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.errors import ErrorCode, KafkaError
from pyk.log.timestamps import TimestampSearch
from pyk.offload import in_thread
from pyk.replication.partition import Partition, Wakeable
from pyk.sharing.dead_letters import Burial
from pyk.sharing.delivery import Acknowledgement, Change, Dead
from pyk.sharing.handout import Handed, Seen, Terms, Wish
from pyk.sharing.reading import covering, find_batches
from pyk.sharing.refusals import DAMAGE, OVER, as_heard, as_refusal
from pyk.sharing.share_partition import SharePartition
from pyk.sharing.start import end_search
from pyk.sharing.tally import Tally

logger = logging.getLogger(__name__)

NOT_INITIALISED: Final = -1


class Surroundings(Protocol):
    """What shares have of their broker."""

    persister: Persister

    def terms_of(self, group_id: str) -> Terms: ...
    def tally_of(self, key: SharePartitionKey) -> Tally: ...
    def now_ms(self) -> int: ...
    def start_soon(self, run: Callable[[], Awaitable[None]]) -> None: ...
    def note_deadline(self, share: Share) -> None: ...
    def forget(self, share: Share) -> None: ...
    def burial_of(self, share: Share, dead: Iterable[Dead], topic: str) -> Burial | None:
        """What writes dead letters to a topic, unless it is the one that the records are of."""


S = TypeVar("S", bound="Share")
P = ParamSpec("P")
T = TypeVar("T")


def _contained(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], T]:
    """Let it raise nothing but KafkaError. After anything else the share partition is given up, and
    whoever asks next gets another one, which begins with what is kept."""

    @wraps(method)
    def call(share: S, /, *args: P.args, **named: P.kwargs) -> T:
        try:
            return method(share, *args, **named)
        except KafkaError:
            raise
        except Exception as failure:
            raise share._fail(failure) from failure

    return call


class _Outcome:
    """That of something under way, for those who want to wait for it. It raises KafkaError."""

    __slots__ = ("done", "refusal")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.refusal: KafkaError | None = None

    def __await__(self) -> Generator[Any, Any, None]:
        yield from self.done.wait().__await__()
        if self.refusal is not None:
            raise self.refusal


class Share:
    def __init__(
        self, key: SharePartitionKey, partition: Partition, surroundings: Surroundings
    ) -> None:
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        """In which all that it keeps is written. With the next one comes another share."""
        self.machine: SharePartition | None = None
        """None until its state is read."""
        self.failure: KafkaError | None = None
        """Why it cannot be used any more."""
        self.tally = surroundings.tally_of(key)
        self._surroundings = surroundings
        self._waiters: dict[Wakeable, None] = {}
        self._unsettled = 0
        self._buried: set[Dead] = set()
        """What letters are written of, though it is not persisted yet that nobody gets it."""
        self._held_up: trio.Event | None = None
        """Set when the last of those changes is done that could not be persisted at once. Others
        come behind it: they are persisted in the order in which they are made."""

    # Beginning and end

    def begin(self) -> None:
        """Read the state, at once or in time. Raise KafkaError."""
        try:
            state = self._surroundings.persister.read(self.key, leader_epoch=self.leader_epoch)
            if isinstance(state, ShareState):
                start = self._start_of(state)
                if isinstance(start, int):
                    self._take(state, start)
                    return
        except Exception as failure:
            raise self._fail(failure) from failure

        async def take_later() -> None:
            try:
                known = state if isinstance(state, ShareState) else await state
                self._take(known, await self._find_start(known))
            except Exception as failure:
                self._fail(failure)

        self._surroundings.start_soon(take_later)

    def _start_of(self, state: ShareState) -> int | TimestampSearch:
        if state.start_offset != NOT_INITIALISED:
            return state.start_offset
        start = self._surroundings.terms_of(self.key.group_id).start
        return start.begin(self.partition, self._surroundings.now_ms())

    async def _find_start(self, state: ShareState) -> int:
        """In a thread where it takes long."""
        found = self._start_of(state)
        while isinstance(found, TimestampSearch):
            await in_thread(found.run)
            found = end_search(self.partition, found)
        return found

    def _take(self, state: ShareState, start_offset: int) -> None:
        terms = self._surroundings.terms_of(self.key.group_id)
        self.machine = SharePartition(state.state_epoch, start_offset, state.batches)
        self.carry_out(self.machine.on_log_start(self.partition.log.start_offset))
        self.carry_out(self.machine.recover(terms.limits))
        self.wake_all()

    @property
    def is_idle(self) -> bool:
        """Whether nothing would be lost with it that is not persisted."""
        machine = self.machine
        return machine is None or (not self._unsettled and not machine.acquired)

    def close(self, refusal: KafkaError) -> None:
        """It is not to be used any more, and who waits for it is told."""
        self.failure = self.failure or refusal
        self.wake_all()

    def check(self) -> None:
        """Raise KafkaError, also if the leader epoch is over to which this belongs."""
        if self.failure is not None:
            raise self.failure
        self.partition.check_leads(self.leader_epoch)

    def _give_up(self, refusal: KafkaError) -> KafkaError:
        """What a client hears if its state cannot be read or written, after which it is read anew
        by whoever asks next."""
        heard = as_heard(refusal)
        self._surroundings.forget(self)
        self.close(heard)
        return heard

    def _fail(self, failure: Exception) -> KafkaError:
        """What a client hears of a failure after which nobody knows what is so here: what is kept
        is read anew by whoever asks next."""
        if isinstance(failure, KafkaError):
            return self.failure or self._give_up(failure)
        logger.error("the share partition %s failed", self.key.text, exc_info=failure)
        heard = as_refusal(self.partition.log.directory.name, failure)
        self._surroundings.forget(self)
        self.close(heard)
        return heard

    def _refuse(self, damage: Exception) -> KafkaError:
        """What a client hears if the log cannot be read. Whoever asks again tries again."""
        logger.warning("%s cannot be read: %s", self.key.text, damage)
        return as_refusal(self.partition.log.directory.name, damage)

    # Handing out

    @_contained
    def look(self, bytes_max: int) -> Seen | None:
        """What there is for members, if one may have more. Raise KafkaError."""
        self.check()
        terms = self._surroundings.terms_of(self.key.group_id)
        machine = self.machine
        if machine is None or not machine.can_acquire(terms.limits):
            return None
        if machine.start_offset < self.partition.log.start_offset:
            self.carry_out(machine.on_log_start(self.partition.log.start_offset))
        offset = machine.next_fetch_offset()
        if offset >= self.partition.visible_end(terms.isolation):
            return None
        try:
            piece, aborted = self.partition.read(offset, bytes_max, terms.isolation)
        except DAMAGE as damage:
            raise self._refuse(damage) from damage
        return None if piece is None else Seen(offset, piece, aborted or (), terms.limits)

    def offers(self, seen: Seen, records: int) -> bool:
        """Whether so many can be acquired of it, unless some are not there or for nobody."""
        assert self.machine is not None
        return self.machine.reach(seen.offset, records) <= seen.piece.end_offset

    @_contained
    def hand_out(
        self, seen: Seen, wish: Wish, accepted: Change | None = None
    ) -> tuple[Handed, Awaitable[None] | None]:
        """Acquire of what was seen, in the same breath. It may be sent when the awaitable is over,
        if there is one, unless that raises KafkaError. Raise KafkaError.

        What the member has `accepted` in the same breath, if it `may_join`, is persisted with it.
        """
        try:
            handed, change = self._acquire(seen, wish, accepted)
        except DAMAGE as damage:
            if accepted is not None:
                self._settle(accepted, is_persisted=False)
            raise self._refuse(damage) from damage
        return handed, self.carry_out(change)

    def _acquire(self, seen: Seen, wish: Wish, accepted: Change | None) -> tuple[Handed, Change]:
        machine = self.machine
        assert machine is not None
        records = seen.piece.records
        end = machine.reach(seen.offset, wish.records_max)
        batches = find_batches(seen.piece, end, seen.aborted)
        acquired, change = machine.acquire(
            wish.member_id,
            batches.spans,
            fetch_offset=seen.offset,
            max_records=wish.records_max,
            batch_size=wish.batch_size,
            is_strict=wish.is_strict,
            aborted=batches.unwanted,
            limits=seen.limits,
            now=trio.current_time(),
            onto=accepted,
        )
        if acquired:
            first, last = acquired[0].first_offset, acquired[-1].last_offset
            count = sum([end - start + 1 for start, end, _ in acquired])
            handed = Handed(
                tuple(acquired), covering(records, batches, first, last + 1), count, True
            )
            self.partition.bytes_out += len(handed.records)
        else:
            handed = Handed((), b"", 0, machine.next_fetch_offset() != seen.offset)
        return handed, change

    # Taking back

    @_contained
    def hear(self, member_id: str, acknowledgements: Sequence[Acknowledgement]) -> Change:
        """What follows from what a member says: it is to be carried out, or handed out with, in the
        same breath. Raise KafkaError."""
        self.check()
        machine = self.machine
        if machine is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE, "the group's records are not known here yet"
            )
        limits = self._surroundings.terms_of(self.key.group_id).limits
        change = machine.acknowledge(member_id, acknowledgements, limits, trio.current_time())
        self.tally.count_acknowledged(acknowledgements)
        return change

    def may_join(self, change: Change, records_max: int) -> bool:
        """Whether what a member says makes no difference to the so many records that it is handed
        in the same breath, so that both can be persisted at once."""
        assert self.machine is not None
        if records_max <= 0 or self._is_held_up or not self.machine.is_accepting(change):
            return False
        limits = self._surroundings.terms_of(self.key.group_id).limits
        return limits.in_flight - self.machine.in_flight >= records_max

    @_contained
    def release(self, member_id: str) -> Awaitable[None] | None:
        """What a member has is for others. Raise KafkaError."""
        machine = self.machine
        if machine is None or self.failure is not None:
            return None
        limits = self._surroundings.terms_of(self.key.group_id).limits
        return self.carry_out(machine.release(member_id, limits))

    def deadline(self) -> float | None:
        return None if self.machine is None or self.failure else self.machine.deadline()

    def expire(self) -> bool:
        """Take back what was held for too long. Whether that can be done."""
        try:
            self._expire()
        except KafkaError as refusal:
            logger.warning("the locks of %s stay: %s", self.key.text, refusal)
            return False
        return True

    @_contained
    def _expire(self) -> None:
        if self.machine is not None and self.failure is None:
            limits = self._surroundings.terms_of(self.key.group_id).limits
            self.carry_out(self.machine.expire(limits, trio.current_time()))

    # Changes

    @_contained
    def carry_out(self, change: Change) -> Awaitable[None] | None:
        """Persist what was decided, and settle it. Raise KafkaError if that fails."""
        if change.is_empty:
            self._settle(change, is_persisted=True)
            return None
        letters_to = None
        if change.dead:
            letters_to = self._surroundings.terms_of(self.key.group_id).dead_letter_topic
        if letters_to is not None or self._is_held_up:
            return self._queue(change, letters_to)
        pending = self._persist(change)
        return None if pending is None else self._later(pending)

    def _persist(self, change: Change) -> Awaitable[None] | None:
        """Keep it and settle it, at once or in time. Raise KafkaError, or let the awaitable, if it
        cannot be kept."""
        try:
            kept = self._keep(change)
        except KafkaError as refusal:
            self._take_back(change, refusal)
        if kept is not None:
            return self._settle_later(change, kept)
        self._settle(change, is_persisted=True)
        return None

    async def _settle_later(self, change: Change, kept: Awaitable[None]) -> None:
        try:
            await kept
        except KafkaError as refusal:
            self._take_back(change, refusal)
        self._settle(change, is_persisted=True)

    @property
    def _is_held_up(self) -> bool:
        return self._held_up is not None and not self._held_up.is_set()

    def _queue(self, change: Change, letters_to: str | None) -> Awaitable[None]:
        before = self._held_up

        async def run() -> None:
            if before is not None:
                await before.wait()
            self.check()
            # The letters first: after a crash in between there is one twice, and none is missing.
            lost = 0 if letters_to is None else await self._bury(change.dead, letters_to)
            pending = self._persist(change)
            if pending is not None:
                await pending
            self._buried.difference_update(change.dead)
            self.tally.dead_letters_lost += lost

        outcome = self._later(run())
        self._held_up = outcome.done
        return outcome

    async def _bury(self, dead: Sequence[Dead], topic: str) -> int:
        """Write letters that were not written before, when their records could not be archived. How
        many are lost if they can be now."""
        new = [each for each in dead if each not in self._buried]
        burial = self._surroundings.burial_of(self, new, topic)
        if burial is None:
            return 0
        await burial.run()
        self.tally.dead_letters += burial.written
        if not burial.lost:
            self._buried.update(new)
        return burial.lost

    def _keep(self, change: Change) -> Awaitable[None] | None:
        assert self.machine is not None
        return self._surroundings.persister.write(
            self.key,
            state_epoch=self.machine.state_epoch,
            leader_epoch=self.leader_epoch,
            start_offset=change.start_offset,
            delivery_complete_count=change.delivery_complete_count,
            batches=change.batches,
        )

    def _later(self, pending: Awaitable[None]) -> _Outcome:
        """Have it done whether or not somebody waits for it, for a client may hang up."""
        outcome = _Outcome()
        self._unsettled += 1

        async def run_to_the_end() -> None:
            try:
                await pending
            except KafkaError as refusal:
                outcome.refusal = refusal
            except Exception as failure:
                outcome.refusal = self._fail(failure)
            # Not for what ends the broker, as a sync that failed: nobody is to take it for success.
            self._unsettled -= 1
            outcome.done.set()

        self._surroundings.start_soon(run_to_the_end)
        return outcome

    def _settle(self, change: Change, *, is_persisted: bool) -> None:
        assert self.machine is not None
        if is_persisted:
            self.tally.count_delivered(change.parts)
        is_news = self.machine.settle(change, is_persisted=is_persisted)
        self._surroundings.note_deadline(self)
        if is_news:
            self.wake_all()

    def _take_back(self, change: Change, refusal: KafkaError) -> NoReturn:
        """Nothing of it has happened, and whoever asked for it hears that."""
        self._settle(change, is_persisted=False)
        if refusal.code in OVER:
            raise self._give_up(refusal) from refusal
        raise as_heard(refusal) from refusal

    # Who waits

    def add_waiter(self, waiter: Wakeable) -> None:
        """Have it woken when there may be more to hand out: of the log, or of what came back."""
        self._waiters[waiter] = None
        self.partition.add_waiter(waiter)

    def remove_waiter(self, waiter: Wakeable) -> None:
        self._waiters.pop(waiter, None)
        self.partition.remove_waiter(waiter)

    def wake_all(self) -> None:
        for waiter in self._waiters:
            waiter.wake()
