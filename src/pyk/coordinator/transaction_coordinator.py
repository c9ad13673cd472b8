"""The coordinator of transactions: shards of `__transaction_state`, and telling partitions.

    end -> prepared, on the log -> a marker to each partition -> complete, on the log

Markers are written once the outcome is committed, until every partition has its own or is gone.
That is after the answer to who ended it, and before anything else that its id is asked for: one
that comes next is not sent away for what takes no waiting. What does, waits in a task of its own.
A partition that another broker leads would be told by WriteTxnMarkers, in place of `Markers.write`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import trio

from pyk.coordinator.internal_topics import TRANSACTION_TOPIC
from pyk.coordinator.journal import JournalOptions, record_types
from pyk.coordinator.machine import Decision, Ticket
from pyk.coordinator.markers import Markers, Written
from pyk.coordinator.shard import Shard
from pyk.coordinator.shards import Parts, Shards
from pyk.coordinator.transactions.ending import ProducerIdNeeded
from pyk.coordinator.transactions.transactions import (
    Marking,
    Surroundings,
    Transactions,
)
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage
from pyk.metadata.producer_ids import ProducerIdBlocks
from pyk.replication.partition import Marker
from pyk.turns import Work, at_once, in_turns
from pyk.types import TopicPartition
from pyk.wire.compression import Compression
from pyk.wire.payloads import transaction_records
from pyk.wire.prefixed import ControlType

if TYPE_CHECKING:
    from pyk.coordinator.group_coordinator import GroupShards

logger = logging.getLogger(__name__)

TransactionShards = Shards[Transactions]

RECORD_TYPES: Final = record_types(transaction_records)
FEATURE: Final = "transaction.version"
RETRY_MIN: Final = 0.1
RETRY_MAX: Final = 5.0
"""Seconds until partitions that refused a marker are told again: twice as many each time."""

TOLD_AT_ONCE: Final = 50
"""How many partitions are told before others have their turn."""

_NEVER: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""Refusals of a partition that knows of a later end: somebody else has told it, such as an
operator. There is nothing to end any more."""


class _Ending:
    """A transaction whose outcome is on the log: who is to be told of it still."""

    __slots__ = ("end_offset", "left", "marker", "marking", "shard", "waits")

    def __init__(self, shard: Shard[Transactions], marking: Marking) -> None:
        self.shard = shard
        self.marking = marking
        self.end_offset = shard.journal.end_offset
        """Where the log has the outcome."""
        self.left = list(marking.partitions)
        self.waits: list[tuple[TopicPartition, Written]] = []
        """Those that have it on their logs, and not committed."""
        self.marker = Marker(
            producer_id=marking.producer_id,
            producer_epoch=marking.producer_epoch,
            outcome=ControlType.COMMIT if marking.is_commit else ControlType.ABORT,
            coordinator_epoch=shard.journal.leader_epoch,
            transaction_version=marking.transaction_version,
        )


class TransactionCoordinator:
    def __init__(
        self,
        parts: Parts,
        producer_ids: ProducerIdBlocks,
        groups: Callable[[], GroupShards],
    ) -> None:
        self._parts = parts
        self._producer_ids = producer_ids
        self.markers = Markers(parts.mirror, parts.replicas, groups, parts.now_ms)
        self._due: dict[str, _Ending] = {}
        """By transactional id: those that nobody has begun to tell."""
        self._unfinished: list[_Ending] = []
        """Those that have to wait for something."""
        self._woken = trio.Event()
        self._completed = trio.lowlevel.ParkingLot()
        self.shards: TransactionShards = Shards(
            parts, TRANSACTION_TOPIC, RECORD_TYPES, self._options, self._machine, self._note_change
        )

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.shards.run)
            while True:
                await self._woken.wait()
                self._woken = trio.Event()
                while self._due:
                    self._begin(next(iter(self._due.values())))
                    await trio.lowlevel.checkpoint()
                while self._unfinished:
                    nursery.start_soon(self._finish, self._unfinished.pop())

    def on_image(self, image: ClusterImage) -> None:
        self.shards.on_image(image)

    def execute(
        self, transactional_id: str, decide: Callable[[Transactions, Ticket, float], Decision]
    ) -> Any | Awaitable[Any]:
        """What the id's shard says, or an awaitable of it. Raise KafkaError."""
        self.settle(transactional_id)
        return self.shards.execute(transactional_id, decide)

    def execute_with_spare(
        self,
        transactional_id: str,
        decide: Callable[[Transactions, int | None, Ticket, float], Decision],
    ) -> Any | Awaitable[Any]:
        """The same for what may need a new producer id."""

        def ask(spare: int | None) -> Any | Awaitable[Any]:
            return self.execute(
                transactional_id,
                lambda machine, ticket, now: decide(machine, spare, ticket, now),
            )

        outcome = ask(None)
        if isinstance(outcome, Awaitable):
            return self._ask_again_later(outcome, ask)
        if not isinstance(outcome, ProducerIdNeeded):
            return outcome
        producer_id = self._producer_ids.take()
        return self._ask_later(ask) if producer_id is None else ask(producer_id)

    def settle(self, transactional_id: str) -> None:
        """Let the last transaction of the id be complete, unless that has to wait for something."""
        ending = self._due.get(transactional_id)
        if ending is not None:
            self._begin(ending)

    async def wait_for_completion(self) -> None:
        """Return when any transaction is complete."""
        await self._completed.park()

    async def _ask_again_later(
        self, outcome: Awaitable[Any], ask: Callable[[int], Any | Awaitable[Any]]
    ) -> Any:
        """Every answer waits where each record is to be durable, also that there is none yet."""
        found = await outcome
        return await self._ask_later(ask) if isinstance(found, ProducerIdNeeded) else found

    async def _ask_later(self, ask: Callable[[int], Any | Awaitable[Any]]) -> Any:
        outcome = ask(await self._producer_ids.take_or_wait())
        return await outcome if isinstance(outcome, Awaitable) else outcome

    def _options(self) -> JournalOptions:
        config = self._parts.settings().config
        return JournalOptions(Compression.NONE, timeout=config.request_timeout_ms / 1000)

    def _machine(self) -> Transactions:
        return Transactions(
            Surroundings(
                config=lambda: self._parts.settings().config,
                now_ms=self._parts.now_ms,
                transaction_version=lambda: transaction_version(self._parts.mirror.image),
            )
        )

    def _note_change(self, shard: Shard[Transactions]) -> None:
        for marking in shard.machine.take_prepared():
            self._due[marking.transactional_id] = _Ending(shard, marking)
            self._woken.set()

    def _begin(self, ending: _Ending) -> None:
        try:
            is_over = ending.shard.is_over or self._completes_at_once(ending)
        except Exception:
            logger.exception("%s is not told after a bug", ending.marking.transactional_id)
            is_over = False
        del self._due[ending.marking.transactional_id]
        if not is_over:
            self._unfinished.append(ending)

    def _completes_at_once(self, ending: _Ending) -> bool:
        if len(ending.left) > TOLD_AT_ONCE or not self.markers.have_logs(ending.left):
            return False
        if not ending.shard.journal.is_committed(ending.end_offset):
            return False
        partitions, ending.left = ending.left, []
        at_once(self._tell_each(partitions, ending))
        return not ending.left and not ending.waits and self._completes(ending)

    def _completes(self, ending: _Ending) -> bool:
        """Whether the log has taken it that all partitions know, or somebody else has said so."""
        shard, marking = ending.shard, ending.marking
        with suppress(KafkaError):  # It is outstanding still.
            shard.perform(lambda machine, now: machine.written(marking, marking.partitions, now))
        if shard.machine.is_outstanding(marking):
            return False
        self._completed.unpark_all()
        return True

    async def _finish(self, ending: _Ending) -> None:
        shard, patience = ending.shard, RETRY_MIN
        while not shard.is_over:
            try:
                if not shard.journal.is_committed(ending.end_offset):
                    await shard.journal.wait_committed(ending.end_offset)
                await self._tell_all(ending)
            except KafkaError as refusal:
                logger.warning("%s is not told yet: %s", ending.marking.transactional_id, refusal)
            except Exception:
                logger.exception("%s is not told after a bug", ending.marking.transactional_id)
            else:
                if not ending.left and self._completes(ending):
                    return
            await trio.sleep(patience)
            patience = min(2 * patience, RETRY_MAX)

    async def _tell_all(self, ending: _Ending) -> None:
        """Those that do not know then are left."""
        untold = len(ending.left)
        while untold > 0:
            portion = ending.left[: min(untold, TOLD_AT_ONCE)]
            await self.markers.ensure_logs(portion)
            del ending.left[: len(portion)]
            untold -= len(portion)
            await in_turns(self._tell_each(portion, ending))
            await trio.lowlevel.checkpoint()
        while ending.waits:
            partition, written = ending.waits.pop()
            try:
                await written.wait_committed()
            except KafkaError as refusal:
                if not _is_nothing_to_end(partition, ending, refusal):
                    ending.left.append(partition)

    def _tell_each(self, partitions: list[TopicPartition], ending: _Ending) -> Work[None]:
        """Write to their logs. Who refuses is left."""
        for partition in partitions:
            self._tell(partition, ending)
            yield

    def _tell(self, partition: TopicPartition, ending: _Ending) -> None:
        try:
            written = None
            if ending.marking.is_resumed:
                written = self.markers.written_before(partition, ending.marker)
            if written is None:
                written = self.markers.write(partition, ending.marker)
        except KafkaError as refusal:
            if not _is_nothing_to_end(partition, ending, refusal):
                ending.left.append(partition)
        except Exception:
            logger.exception("%s is not told of its end after a bug", partition)
            ending.left.append(partition)
        else:
            if not written.is_committed:
                ending.waits.append((partition, written))


def _is_nothing_to_end(partition: TopicPartition, ending: _Ending, refusal: KafkaError) -> bool:
    """Whether a partition that refuses a marker needs none: its topic was deleted, or it knows of
    a later end."""
    if refusal.code in _NEVER:
        logger.warning("%s of %s: %s", partition, ending.marking.transactional_id, refusal)
        return True
    return refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def transaction_version(image: ClusterImage) -> int:
    """The version of transactions that the cluster has agreed on."""
    return image.features.levels.get(FEATURE, 0)
