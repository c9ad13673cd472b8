"""Members of a share group, each on a connection of its own, for the tests of handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any, TypeVar, cast

from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.disk import File
from pyk.errors import KafkaError
from pyk.handlers import share_acknowledge, share_fetch
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.offload import Elsewhere, at_once
from pyk.replication.partition import Isolation, Partition
from pyk.types import Uuid
from pyk.wire.messages.share_acknowledge import (
    AcknowledgementBatch as Said,
)
from pyk.wire.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from pyk.wire.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)
from pyk.wire.records import Record, read_records
from tests.handlers.brokers import call, create, open_context, sent
from tests.simulated_disk import SimulatedDisk

Q = TypeVar("Q")
A = TypeVar("A", ShareFetchResponse, ShareAcknowledgeResponse)

GROUP = "workers"
TOPIC = "jobs"
LOCKS = {"group.share.record.lock.duration.ms": "30000"}
Batch = tuple[int, int, list[int]]
"""The first offset and the last, and what is said of them."""


@asynccontextmanager
async def open_queue(
    disk: SimulatedDisk | None = None, logs_elsewhere: Elsewhere = at_once
) -> AsyncIterator[Context]:
    """A new broker, whose topic the group is about to begin with."""
    async with open_context(LOCKS, disk=disk, logs_elsewhere=logs_elsewhere) as broker:
        await create(broker, TOPIC)
        await initialise(broker, TOPIC)
        yield broker


async def initialise(
    broker: Context, topic: str, partition: int = 0, start_offset: int = 0
) -> None:
    """Let the group begin with a partition, as its coordinator does."""
    key = SharePartitionKey(GROUP, broker.topic_named(topic).topic_id, partition)
    kept = broker.share_coordinator.persister.initialize(
        key, state_epoch=0, start_offset=start_offset
    )
    if kept is not None:
        await kept


class Worker:
    """It fetches from one partition of one topic."""

    def __init__(self, broker: Context, name: str, topic: str, partition: int = 0) -> None:
        self.broker, self.name, self.partition = broker, name, partition
        self.topic_id: Uuid = broker.topic_named(topic).topic_id
        self.epoch = 0
        self.call = call(2)

    async def fetch(self, *said: Batch, **wanted: Any) -> ShareFetchResponse:
        """As `request` asks for."""
        return await self.ask(self.request(*said, **wanted))

    async def ask(self, request: ShareFetchRequest) -> ShareFetchResponse:
        return await self._ask(share_fetch.handle, share_fetch.refuse, request)

    def request(
        self,
        *said: Batch,
        max_records: int = 500,
        is_strict: bool = False,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        max_bytes: int = 2**20,
        is_renewal: bool = False,
        batch_size: int = 500,
    ) -> ShareFetchRequest:
        batches = [
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in said
        ]
        partition = FetchPartition(partition_index=self.partition, acknowledgement_batches=batches)
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch,
            max_wait_ms=0 if is_renewal else max_wait_ms,
            min_bytes=0 if is_renewal else min_bytes,
            max_bytes=0 if is_renewal else max_bytes,
            max_records=0 if is_renewal else max_records,
            batch_size=batch_size,
            share_acquire_mode=int(is_strict),
            is_renew_ack=is_renewal,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=[partition])],
            forgotten_topics_data=[],
        )
        return sent(request, 2)

    async def acknowledge(self, *said: Batch) -> ShareAcknowledgeResponse:
        batches = [
            Said(first_offset=first, last_offset=last, acknowledge_types=types)
            for first, last, types in said
        ]
        partition = AcknowledgePartition(
            partition_index=self.partition, acknowledgement_batches=batches
        )
        request = sent(
            ShareAcknowledgeRequest(
                group_id=GROUP,
                member_id=self.name,
                share_session_epoch=self.epoch,
                topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=[partition])],
            ),
            2,
        )
        return await self.ask_to_acknowledge(request)

    async def ask_to_acknowledge(
        self, request: ShareAcknowledgeRequest
    ) -> ShareAcknowledgeResponse:
        return await self._ask(share_acknowledge.handle, share_acknowledge.refuse, request)

    async def _ask(
        self,
        handle: Callable[[Q, Call, Context], A | Awaitable[A]],
        refuse: Callable[[Q, KafkaError], A],
        request: Q,
    ) -> A:
        """The response, after which the session is an epoch further unless it was refused."""
        try:
            outcome = handle(request, self.call, self.broker)
            response = await outcome if isawaitable(outcome) else outcome
        except KafkaError as refusal:
            response = refuse(request, refusal)
        self.epoch += self.epoch >= 0 and not response.error_code
        return sent(response, 2)

    async def leave(self) -> ShareFetchResponse:
        self.epoch = -1
        return await self.fetch()

    def die(self) -> None:
        """Its connection is gone, without a word."""
        self.call.peer.leave()


def of_partition(response: ShareFetchResponse) -> PartitionData:
    ((data,),) = [topic.partitions for topic in response.responses]
    return data


def acquired(response: ShareFetchResponse) -> list[tuple[int, int, int]]:
    """First offset, last offset, and which delivery it is; nothing if nothing is said."""
    if not response.responses:
        return []
    data = of_partition(response)
    assert data.error_code == 0, (data.error_code, data.error_message)
    return [(a.first_offset, a.last_offset, a.delivery_count) for a in data.acquired_records]


def offsets_sent(response: ShareFetchResponse) -> list[int]:
    """Of all records in the answer, acquired or not."""
    records = of_partition(response).records
    assert isinstance(records, bytes | memoryview)
    found: list[int] = []
    position = 0
    while position < len(records):
        size = 12 + int.from_bytes(records[position + 8 : position + 12], "big")
        found += [each.offset for each in read_records(records[position : position + size])]
        position += size
    return found


def spans(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Neighbours together."""
    found: list[tuple[int, int]] = []
    for offset in offsets:
        if found and found[-1][1] + 1 == offset:
            found[-1] = (found[-1][0], offset)
        else:
            found.append((offset, offset))
    return found


def state_end(broker: Context) -> int:
    """How much was ever written of share groups' state."""
    shards = broker.share_coordinator.shards
    return sum(shard.journal.end_offset for shard in shards)


def records_of(partition: Partition, base: int, end: int) -> list[Record]:
    """Those that are in a log from `base` on and before `end`."""
    found: list[Record] = []
    offset = base
    while offset < min(end, partition.log.high_watermark):
        piece, _ = partition.read(offset, 1, Isolation.READ_UNCOMMITTED)
        if piece is None:
            break
        data = cast("File", piece.records.file).read(piece.records.position, piece.records.size)
        found += [each for each in read_records(data) if base <= each.offset < end]
        offset = piece.end_offset
    return found
