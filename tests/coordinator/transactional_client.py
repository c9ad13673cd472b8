"""A transactional producer, and a look at the logs, for tests of a broker without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, cast

import trio
import trio.testing

from pyk.disk import File
from pyk.errors import ErrorCode
from pyk.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    find_coordinator,
    init_producer_id,
    offset_fetch,
    produce,
    txn_offset_commit,
)
from pyk.handlers.context import Context
from pyk.log.log import Log
from pyk.offload import Elsewhere, at_once
from pyk.types import TopicPartition
from pyk.wire.batch import iterate_batches
from pyk.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pyk.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pyk.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pyk.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from pyk.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from pyk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pyk.wire.prefixed import ControlType, decode_control_type
from pyk.wire.records import Record, build_batch, read_records
from tests.handlers.brokers import ask, call, create, open_context
from tests.simulated_disk import SimulatedDisk

ID, TOPIC, GROUP = "copy", "orders", "readers"
V1, V2 = 1, 2
_BUSY = (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Client:
    """It has an epoch, and counts its batches by partition as clients do."""

    def __init__(self, broker: Context, version: int = V2, transactional_id: str = ID) -> None:
        self.broker, self.version, self.transactional_id = broker, version, transactional_id
        self.producer_id = self.epoch = -1
        self._sequences: dict[TopicPartition, int] = {}

    async def init(self, timeout_ms: int = 60_000) -> InitProducerIdResponse:
        """Ask until there is an answer."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms
        )
        while True:
            answer = await ask(
                init_producer_id.handle, init_producer_id.refuse, request, self.broker, 4
            )
            if answer.error_code not in _BUSY:
                break
            await trio.testing.wait_all_tasks_blocked()
        if not answer.error_code:
            self._enter(answer.producer_id, answer.producer_epoch)
        return answer

    async def write(
        self, value: bytes, partition: int = 0, topic: str = TOPIC
    ) -> PartitionProduceResponse:
        if self.version == V1:
            await self.add(partition, topic)
        return await self.send(value, partition, topic)

    async def add(self, partition: int, topic: str = TOPIC) -> int:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )
        answer = await ask(
            add_partitions_to_txn.handle, add_partitions_to_txn.refuse, request, self.broker, 3
        )
        return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

    def batch(
        self,
        value: bytes,
        partition: int = 0,
        topic: str = TOPIC,
        sequence: int | None = None,
    ) -> bytes:
        """Its next, or the one with this sequence."""
        if sequence is None:
            sequence = self._sequences.get(TopicPartition(topic, partition), 0)
        return build_batch(
            [Record(0, 0, None, value)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    async def send(
        self,
        value: bytes,
        partition: int = 0,
        topic: str = TOPIC,
        sequence: int | None = None,
    ) -> PartitionProduceResponse:
        batch = self.batch(value, partition, topic, sequence)
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        version = 11 if self.version == V1 else 12
        answer: Any = await ask(produce.handle, produce.refuse, request, self.broker, version)
        [found] = answer.responses[0].partition_responses
        if not found.error_code:
            key = TopicPartition(topic, partition)
            self._sequences[key] = self._sequences.get(key, 0) + 1
        return cast("PartitionProduceResponse", found)

    async def commit_offset(self, offset: int, group_id: str = GROUP) -> int:
        if self.version == V1:
            added = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                group_id=group_id,
            )
            await ask(add_offsets_to_txn.handle, add_offsets_to_txn.refuse, added, self.broker, 3)
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        )
        version = 3 if self.version == V1 else 5
        answer = await ask(
            txn_offset_commit.handle, txn_offset_commit.refuse, request, self.broker, version
        )
        return answer.topics[0].partitions[0].error_code

    async def end(self, *, commit: bool) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        version = 4 if self.version == V1 else 5
        answer = await ask(end_txn.handle, end_txn.refuse, request, self.broker, version)
        if not answer.error_code and self.version == V2:
            self._enter(answer.producer_id, answer.producer_epoch)
        return answer

    async def commit(self) -> None:
        assert (await self.end(commit=True)).error_code == ErrorCode.NONE
        await settled(self.broker)

    async def abort(self) -> None:
        assert (await self.end(commit=False)).error_code == ErrorCode.NONE
        await settled(self.broker)

    def _enter(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch, self._sequences = producer_id, epoch, {}


async def find_coordinators(broker: Context) -> None:
    """As clients do, who make the topics by it."""
    for key_type in (0, 1):
        request = FindCoordinatorRequest(key="any", key_type=key_type)
        await ask(find_coordinator.handle, find_coordinator.refuse, request, broker, 3)


async def settled(broker: Context) -> None:
    """Return when nothing happens any more."""
    await trio.testing.wait_all_tasks_blocked()


def status(broker: Context, transactional_id: str = ID) -> str | None:
    found = broker.transactions.shards.of(transactional_id).machine.get(transactional_id)
    return None if found is None else found.status.title


class Seen(NamedTuple):
    """What a log has of transactions."""

    values: list[bytes]
    """What a reader of committed records sees."""
    markers: list[tuple[int, int, ControlType]]
    """Producer ids, epochs and outcomes."""
    is_open: bool


def seen(broker: Context, partition: int = 0, topic: str = TOPIC) -> Seen:
    log = broker.leader_of(topic, partition).log
    values, markers = [], []
    aborted = {(each.producer_id, each.first_offset): each.last_offset for each in _aborted(log)}
    for position, header, data in _batches(log):
        records = list(read_records(data, position, header))
        if header.is_control:
            outcome = ControlType(decode_control_type(records[0].key))
            markers.append((header.producer_id, header.producer_epoch, outcome))
            continue
        is_aborted = any(
            producer_id == header.producer_id and first <= header.base_offset < last
            for (producer_id, first), last in aborted.items()
        )
        if header.last_offset < log.last_stable_offset and not is_aborted:
            values += [bytes(record.value or b"") for record in records]
    return Seen(values, markers, log.producers.first_undecided_offset is not None)


def _aborted(log: Log) -> Any:
    return log.aborted(log.start_offset, log.end_offset)


def _batches(log: Log) -> list[Any]:
    offset, found = log.start_offset, []
    while offset < log.end_offset:
        piece = log.read(offset, 10**6, log.end_offset)
        assert piece is not None
        records = piece.records
        data = cast("File", records.file).read(records.position, records.size)
        for position, header in iterate_batches(data, torn_tail_allowed=False):
            found.append((position, header, data))
        offset = piece.end_offset
    return found


async def committed_offset(
    broker: Context, *, stable: bool = True, group_id: str = GROUP
) -> tuple[int, int]:
    """The error and the offset."""
    topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
    request = OffsetFetchRequest(group_id=group_id, topics=[topic], require_stable=stable)
    answer = await ask(offset_fetch.handle, offset_fetch.refuse, request, broker, 7)
    if answer.error_code:
        return answer.error_code, -1
    found = answer.topics[0].partitions[0]
    return found.error_code, found.committed_offset


@asynccontextmanager
async def opened(
    disk: SimulatedDisk | None = None, logs_elsewhere: Elsewhere = at_once, **static: str
) -> AsyncIterator[Context]:
    settings = {k.replace("_", "."): v for k, v in static.items()}
    async with open_context(settings, disk=disk, logs_elsewhere=logs_elsewhere) as it:
        if TOPIC not in it.image.topics:
            await create(it, TOPIC, partitions=3)
        await find_coordinators(it)
        await settled(it)
        yield it


def end_at_once(client: Client, *, commit: bool) -> None:
    """Decide the end, and give nobody the time to tell the partitions."""
    request = EndTxnRequest(
        transactional_id=ID,
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        committed=commit,
    )
    version = 4 if client.version == V1 else 5
    response = end_txn.handle(request, call(version), client.broker)
    assert getattr(response, "error_code", None) == ErrorCode.NONE
