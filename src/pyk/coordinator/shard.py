"""The shell around a machine: it makes decisions happen, and answers when they are committed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeAlias, TypeVar

import trio

from pyk.coordinator.journal import Journal
from pyk.coordinator.machine import Decision, Machine, Record, Ticket, TransactionEnd
from pyk.coordinator.topic_changes import TopicChanges, topic_changes
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage
from pyk.replication.partition import Marker, Produced
from pyk.turns import Work, at_once, in_turns
from pyk.wire.prefixed import ControlType

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)

Changes: TypeAlias = Callable[[ClusterImage, ClusterImage], TopicChanges]


class Shard(Generic[M]):
    def __init__(
        self,
        machine: M,
        journal: Journal,
        now_ms: Callable[[], int],
        image: Callable[[], ClusterImage] = ClusterImage,
        note_deadline: Callable[[float], None] = lambda _: None,
        note_change: Callable[[Shard[M]], None] = lambda _: None,
        note_failure: Callable[[Shard[M]], None] = lambda _: None,
        *,
        has_failed: bool = False,
    ) -> None:
        """`image` is the newest one. `note_change` is told whenever a decision was carried out, and
        `note_failure` if the machine cannot go on with what is in the log already. `has_failed` is
        said of a shard that takes the place of one which could not be loaded."""
        self.machine = machine
        self._journal = journal
        self._now_ms = now_ms
        self._image = image
        self._seen = image()
        """The image that the machine knows of, once it is loaded."""
        self._note_deadline = note_deadline
        self._note_change = note_change
        self._note_failure = note_failure
        self._waiters: dict[Ticket, _Waiter] = {}
        self._last_ticket = 0
        self.is_loaded = False
        self.is_dropped = False
        self.has_failed = has_failed
        self._settled = trio.Event()

    async def load(self) -> None:
        """Bring the machine to where its log ends, and serve. Raise LogUnreadable."""
        await self.replay()
        await self.serve_when_committed()

    async def replay(self) -> None:
        """Bring the machine to where its log ends, in turns. Raise LogUnreadable."""
        await in_turns(self._load())

    @property
    def is_replay_committed(self) -> bool:
        """Whether it may serve at once when it is replayed."""
        return self._journal.is_replay_committed

    async def serve_when_committed(self) -> None:
        """Serve, unless this broker stops leading before what was replayed is committed."""
        if not self._journal.is_replay_committed:
            try:
                await self._journal.wait_replay_committed()
            except KafkaError:
                return  # It is about to be dropped.
        if not self.is_dropped:
            self._serve()

    def _load(self) -> Work[None]:
        for record in self._journal.replay():
            if self.is_dropped:
                return
            self.machine.apply(record)
            yield
        self._seen = self._image()
        yield from self.machine.check_topics(self._seen)

    def begin(self) -> None:
        """Serve at once: there is nothing to load."""
        at_once(self._load())
        self._serve()

    def _serve(self) -> None:
        now = trio.current_time()
        self.machine.on_loaded(now)
        self.is_loaded, self.has_failed = True, False
        self._settled.set()
        self.on_image(self._image(), topic_changes)
        self._tell_deadline()
        self._tell_change()

    def on_image(self, image: ClusterImage, changes: Changes) -> None:
        """Tell the machine how the topics have changed. One that is loading looks at them when it
        is done."""
        if self.is_loaded and image is not self._seen:
            before, self._seen = self._seen, image
            self.machine.on_image(image, changes(before, image), trio.current_time())
            self._tell_deadline()

    def fail(self) -> None:
        """It cannot be loaded, or not go on. Who waits is told, and another takes its place."""
        self.has_failed, self.is_loaded = True, False
        self._send_away()

    @property
    def is_over(self) -> bool:
        """Whether it will not serve any more, or never."""
        return self.is_dropped or (self.has_failed and self._settled.is_set())

    async def wait_loaded(self) -> None:
        """Until it answers, or never will."""
        await self._settled.wait()

    @property
    def leader_epoch(self) -> int:
        return self._journal.leader_epoch

    @property
    def unreadable(self) -> int:
        return self._journal.unreadable

    @property
    def waiting(self) -> int:
        """How many have asked and have no answer yet."""
        return len(self._waiters)

    def execute(self, decide: Callable[[M, Ticket, float], Decision]) -> Any | Awaitable[Any]:
        """The response, or an awaitable of it if it is not decided yet, or not committed. Raise
        KafkaError, or have it raised by the awaitable."""
        self.check_loaded()
        self._last_ticket += 1
        ticket = Ticket(self._last_ticket)
        waiter = self._waiters[ticket] = _Waiter()
        try:
            self._perform(decide(self.machine, ticket, trio.current_time()))
        except BaseException:
            self._waiters.pop(ticket, None)
            raise
        if waiter.is_answered and self._is_committed(waiter):
            return waiter.result()
        return self._wait(waiter)

    def check_loaded(self) -> None:
        """Raise KafkaError."""
        if not self.is_loaded:
            raise KafkaError(
                ErrorCode.NOT_COORDINATOR
                if self.is_dropped or self.has_failed
                else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )

    @property
    def journal(self) -> Journal:
        return self._journal

    def end_transaction(self, marker: Marker) -> Produced:
        """What its producer wrote here counts from now on, or never. Raise KafkaError."""
        self.check_loaded()
        produced = self._journal.end_transaction(marker, self._now_ms())
        is_commit = marker.outcome is ControlType.COMMIT
        self.machine.apply(Record(TransactionEnd(marker.producer_id, is_commit), None))
        return produced

    def perform(self, decide: Callable[[M, float], Decision]) -> None:
        """Carry out what nobody asked for. Raise KafkaError if the log refuses it, and the decision
        says nothing else and answers nobody."""
        if self.is_loaded:
            self._perform(decide(self.machine, trio.current_time()))

    def deadline(self) -> float | None:
        return self.machine.deadline() if self.is_loaded else None

    def expire(self, moment: float) -> bool:
        """Do one of the things that were due then. Whether there was one. Raise KafkaError as
        `perform` does."""
        deadline = self.deadline()
        if deadline is None or deadline > moment:
            return False
        self._perform(self.machine.expire(trio.current_time()))
        return True

    def drop(self) -> None:
        """This broker is no longer the one to ask. Who waits is told, also for a commit."""
        self.is_dropped, self.is_loaded = True, False
        self._send_away()
        self._journal.close()

    def _send_away(self) -> None:
        self._settled.set()
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.answer(KafkaError(ErrorCode.NOT_COORDINATOR), None)

    def _perform(self, decision: Decision) -> None:
        # Not async, so nothing can come between deciding, logging and applying.
        if decision.records:
            try:
                self._journal.append(
                    decision.records, self._now_ms(), decision.transaction, decision.payload
                )
            except KafkaError as refusal:
                if decision.otherwise is None:
                    if not decision.replies:
                        raise
                    self._refuse(decision, refusal)
                    return
                decision = decision.otherwise(refusal)
                assert not decision.records, "the log has refused already"
            transaction = decision.transaction
            producer_id = None if transaction is None else transaction.producer_id
            offset = self._journal.end_offset - len(decision.records)
            try:
                for number, (key, value, version, *_) in enumerate(decision.records, start=offset):
                    self.machine.apply(Record(key, value, version, producer_id, number))
            except Exception:
                # The log is ahead of the machine, which has to be loaded from it.
                self._note_failure(self)
                raise
        for ticket, response in decision.replies:
            waiter = self._waiters.pop(ticket, None)
            if waiter is not None:
                waiter.answer(response, self._journal.end_offset)
        self._tell_deadline()
        self._tell_change()

    def _refuse(self, decision: Decision, refusal: KafkaError) -> None:
        for ticket, _ in decision.replies:
            waiter = self._waiters.pop(ticket, None)
            if waiter is not None:
                waiter.answer(refusal, None)

    def _tell_deadline(self) -> None:
        deadline = self.machine.deadline()
        if deadline is not None:
            self._note_deadline(deadline)

    def _tell_change(self) -> None:
        # What follows from a decision is another matter than the decision.
        try:
            self._note_change(self)
        except Exception:
            logger.exception("what follows from a decision is not done after a bug")

    async def _wait(self, waiter: _Waiter) -> Any:
        while not waiter.is_answered:
            await waiter.wait()
        if waiter.end_offset is not None and not self._is_committed(waiter):
            await self._journal.wait_committed(waiter.end_offset)
        return waiter.result()

    def _is_committed(self, waiter: _Waiter) -> bool:
        return waiter.end_offset is None or self._journal.is_committed(waiter.end_offset)


class _Waiter:
    """Somebody who has asked."""

    __slots__ = ("_answered", "_response", "end_offset", "is_answered")

    def __init__(self) -> None:
        self.is_answered = False
        self.end_offset: int | None = None
        """The answer may be given when the log is committed up to there. None if it rests on
        nothing in the log."""
        self._response: Any = None
        self._answered: trio.Event | None = None

    def answer(self, response: Any, end_offset: int | None) -> None:
        """A KafkaError is raised where the response would be returned."""
        self.is_answered, self.end_offset = True, end_offset
        self._response = response
        if self._answered is not None:
            self._answered.set()

    async def wait(self) -> None:
        self._answered = trio.Event()
        await self._answered.wait()

    def result(self) -> Any:
        if isinstance(self._response, KafkaError):
            raise self._response
        return self._response
