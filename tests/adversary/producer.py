"""A transactional producer that does what it is told, of either version of transactions.

What it asks goes one way or another through the network. When there is no answer, it has given up:
its connection is gone, what it asked may still be on the way, and it goes on with a new connection.
"""

from __future__ import annotations

import time
from itertools import count
from typing import Any, Final, NamedTuple

import trio

from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.frames import FrameReader
from pyk.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pyk.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pyk.wire.messages.end_txn import EndTxnRequest
from pyk.wire.messages.init_producer_id import InitProducerIdRequest
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pyk.wire.records import Record, build_batch
from pyk.wire.request import decode_response, encode_request
from tests.adversary.proxy import FRAME_BYTES_MAX, Adversary, Caught, Way

V1, V2 = 1, 2
NONE: Final = -1
SOON: Final = 0.002
"""Seconds until a busy broker is asked again."""
PATIENCE: Final = 20.0
BUSY: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Refusals over which every client asks again."""

_names = count(1)


class Asker:
    """One client of a broker, with one connection at a time."""

    def __init__(self, adversary: Adversary) -> None:
        self.adversary = adversary
        self.client_id = f"asker-{next(_names)}"
        self.caught: list[Caught] = []
        """What the network holds of what it asked."""
        self._stream: trio.SocketStream | None = None
        self._frames = FrameReader(FRAME_BYTES_MAX)
        self._sent = 0

    async def ask(
        self, key: ApiKey, version: int, request: Any, way: Way = Way.PROMPT
    ) -> Any | None:
        """The answer, or None if it gave up on it."""
        if way is Way.PROMPT:
            await self._send(key, version, request)
            with trio.fail_after(PATIENCE):
                return await self._receive(key, version)
        trap = self.adversary.trap(key, way, client_id=self.client_id)
        await self._send(key, version, request)
        with trio.fail_after(PATIENCE):
            caught = await trap.caught()
            if way is Way.UNANSWERED:
                await caught.answered()
            else:
                self.caught.append(caught)
        await self.hang_up()
        return None

    async def hang_up(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()
            self._stream = None

    async def _send(self, key: ApiKey, version: int, request: Any) -> None:
        if self._stream is None:
            self._stream = await trio.open_tcp_stream("127.0.0.1", self.adversary.port)
            self._frames = FrameReader(FRAME_BYTES_MAX)
        self._sent += 1
        chunks = encode_request(key, version, self._sent, self.client_id, request)
        await self._stream.send_all(b"".join(chunks))  # type: ignore[arg-type]

    async def _receive(self, key: ApiKey, version: int) -> Any:
        assert self._stream is not None
        while True:
            data = await self._stream.receive_some()
            assert data, f"the broker hung up on {key.name}"
            for frame in self._frames.feed(data):
                _, response = decode_response(key, version, frame)
                return response


class Batch(NamedTuple):
    """One record for a partition, which may be sent again as it is."""

    partition: int
    value: bytes
    data: bytes


class Producer:
    def __init__(
        self, adversary: Adversary, transactional_id: str, topic: str, version: int = V2
    ) -> None:
        self.asker = Asker(adversary)
        self.transactional_id, self.topic, self.version = transactional_id, topic, version
        self.producer_id = self.epoch = NONE
        self._sequences: dict[int, int] = {}
        self._added: set[int | str] = set()

    @property
    def caught(self) -> list[Caught]:
        return self.asker.caught

    async def init(
        self, way: Way = Way.PROMPT, *, goes_on: bool = False, timeout_ms: int = 60_000
    ) -> int | None:
        """Get an epoch, as somebody new, or as who it is (KIP-360). The error, or None for no
        answer."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=self.producer_id if goes_on else NONE,
            producer_epoch=self.epoch if goes_on else NONE,
        )
        answer = await self._ask_until_idle(ApiKey.INIT_PRODUCER_ID, 4, request, way)
        if answer is None:
            return None
        if not answer.error_code:
            self._enter(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    def batch(self, value: str, partition: int = 0) -> Batch:
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + 1
        data = build_batch(
            [Record(0, int(time.time() * 1000), None, value.encode())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        return Batch(partition, value.encode(), data)

    async def add(self, partition: int, way: Way = Way.PROMPT) -> int | None:
        """What the first version of transactions does before it writes."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.topic, partitions=[partition])],
        )

        def code(answer: Any) -> int:
            [topic] = answer.results_by_topic_v3_and_below
            return int(topic.results_by_partition[0].partition_error_code)

        refused = await self._coded(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request, way, code)
        if refused == ErrorCode.NONE:
            self._added.add(partition)
        return refused

    async def send(self, batch: Batch, way: Way = Way.PROMPT) -> int | None:
        """Write. In v1 the partition is added first, the same way."""
        if self.version == V1 and batch.partition not in self._added:
            refused = await self.add(batch.partition, way)
            if refused != ErrorCode.NONE:
                return refused
        data = PartitionProduceData(index=batch.partition, records=batch.data)
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=5000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
        )

        def code(answer: Any) -> int:
            return int(answer.responses[0].partition_responses[0].error_code)

        version = 11 if self.version == V1 else 12
        return await self._coded(ApiKey.PRODUCE, version, request, way, code)

    async def commit_offset(self, group_id: str, offset: int, way: Way = Way.PROMPT) -> int | None:
        """Of partition 0, in the transaction."""
        if self.version == V1 and group_id not in self._added:
            refused = await self._add_offsets(group_id, way)
            if refused != ErrorCode.NONE:
                return refused
            self._added.add(group_id)
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[partition])],
        )

        def code(answer: Any) -> int:
            return int(answer.topics[0].partitions[0].error_code)

        version = 3 if self.version == V1 else 5
        return await self._coded(ApiKey.TXN_OFFSET_COMMIT, version, request, way, code)

    async def _add_offsets(self, group_id: str, way: Way) -> int | None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group_id,
        )
        return await self._coded(ApiKey.ADD_OFFSETS_TO_TXN, 3, request, way, _error_code)

    async def end(self, *, commit: bool, way: Way = Way.PROMPT) -> int | None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        version = 4 if self.version == V1 else 5
        answer = await self._ask_until_idle(ApiKey.END_TXN, version, request, way)
        if answer is None:
            return None
        if not answer.error_code:
            self._added.clear()
            if self.version == V2:
                self._enter(answer.producer_id, answer.producer_epoch)
        return int(answer.error_code)

    async def _coded(
        self, key: ApiKey, version: int, request: Any, way: Way, code: Any
    ) -> int | None:
        answer = await self._ask_until_idle(key, version, request, way, code)
        return None if answer is None else int(code(answer))

    async def _ask_until_idle(
        self, key: ApiKey, version: int, request: Any, way: Way, code: Any = None
    ) -> Any | None:
        code = code or _error_code
        with trio.fail_after(PATIENCE):
            while True:
                answer = await self.asker.ask(key, version, request, way)
                if answer is None or code(answer) not in BUSY:
                    return answer
                await trio.sleep(SOON)

    def _enter(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self._sequences, self._added = {}, set()


def _error_code(answer: Any) -> int:
    return int(answer.error_code)
