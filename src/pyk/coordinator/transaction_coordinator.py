"""The coordinator of transactions: shards of `__transaction_state`, and telling partitions.

    end -> prepared, on the log -> a marker to each partition -> complete, on the log

Markers are written once the outcome is committed, by a task for each transaction, until every
partition has its own or is gone. A partition that another broker leads would be told by
WriteTxnMarkers, in place of `Markers.write`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import trio

from pyk.coordinator.internal_topics import TRANSACTION_TOPIC
from pyk.coordinator.journal import JournalOptions, record_types
from pyk.coordinator.machine import Decision, Ticket
from pyk.coordinator.markers import Markers
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
RETRY_AFTER: Final = 0.1
"""Seconds until a partition that refused a marker is told again."""

TOLD_AT_ONCE: Final = 50
"""How many partitions are told before others have their turn."""

_NEVER: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)
"""Refusals of a partition that knows of a later end: somebody else has told it, such as an
operator. There is nothing to end any more."""


class _Due(NamedTuple):
    shard: Shard[Transactions]
    marking: Marking
    end_offset: int
    """Where the log has the outcome."""


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
        self._due, self._dues = trio.open_memory_channel[_Due](math.inf)
        self._completed = trio.lowlevel.ParkingLot()
        self.shards: TransactionShards = Shards(
            parts, TRANSACTION_TOPIC, RECORD_TYPES, self._options, self._machine, self._note_change
        )

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.shards.run)
            async for due in self._dues:
                nursery.start_soon(self._finish, due)

    def on_image(self, image: ClusterImage) -> None:
        self.shards.on_image(image)

    def execute(
        self, transactional_id: str, decide: Callable[[Transactions, Ticket, float], Decision]
    ) -> Any | Awaitable[Any]:
        """What the id's shard says, or an awaitable of it. Raise KafkaError."""
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
        if not isinstance(outcome, ProducerIdNeeded):
            return outcome
        producer_id = self._producer_ids.take()
        return self._ask_later(ask) if producer_id is None else ask(producer_id)

    async def wait_for_completion(self) -> None:
        """Return when any transaction is complete."""
        await self._completed.park()

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
            self._due.send_nowait(_Due(shard, marking, shard.journal.end_offset))

    async def _finish(self, due: _Due) -> None:
        shard, marking, end_offset = due
        left = list(marking.partitions)
        while not shard.is_dropped:
            try:
                if not shard.journal.is_committed(end_offset):
                    await shard.journal.wait_committed(end_offset)
                left = await self._tell_all(left, due)
                if not left:
                    shard.perform(
                        lambda machine, now: machine.written(marking, marking.partitions, now)
                    )
            except KafkaError as refusal:
                logger.warning("%s is not complete yet: %s", marking.transactional_id, refusal)
            if not shard.machine.is_outstanding(marking):
                self._completed.unpark_all()
                return
            await trio.sleep(RETRY_AFTER)

    async def _tell_all(self, partitions: list[TopicPartition], due: _Due) -> list[TopicPartition]:
        """Those that do not know yet."""
        left = []
        for count, partition in enumerate(partitions, start=1):
            if not await self._tell(partition, due):
                left.append(partition)
            if count % TOLD_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        return left

    async def _tell(self, partition: TopicPartition, due: _Due) -> bool:
        """Whether the partition knows, or never needs to."""
        marking = due.marking
        marker = Marker(
            producer_id=marking.producer_id,
            producer_epoch=marking.producer_epoch,
            outcome=ControlType.COMMIT if marking.is_commit else ControlType.ABORT,
            coordinator_epoch=due.shard.journal.leader_epoch,
            transaction_version=marking.transaction_version,
        )
        try:
            if not (marking.is_resumed and self.markers.has_ended(partition, marker)):
                await self.markers.write(partition, marker)
        except KafkaError as refusal:
            if refusal.code in _NEVER:
                logger.warning("%s of %s: %s", partition, marking.transactional_id, refusal)
                return True
            # Deleted topics have nothing to end.
            return refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return True


def transaction_version(image: ClusterImage) -> int:
    """The version of transactions that the cluster has agreed on."""
    return image.features.levels.get(FEATURE, 0)
