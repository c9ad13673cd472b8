"""A transactional producer in terms of requests: what it asks, answer by answer.

A transaction is a generator of requests, which is sent their answers. So one connection can be
driven by waiting, and many of them by whichever answers first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from time import perf_counter
from typing import Any, Final, TypeAlias

from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from pyk.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from pyk.wire.messages.end_txn import EndTxnRequest
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.init_producer_id import InitProducerIdRequest
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pyk.wire.records import Record, build_batch
from tests.clients.raw import RawClient

Asked: TypeAlias = tuple[ApiKey, int]
Steps: TypeAlias = Generator[tuple[ApiKey, int, Any], Any, None]
Copied: TypeAlias = tuple[str, str, int]
"""The topic of a record that is read, the group that reads, and the offset."""

PATIENCE: Final = 60.0
NOW_MS: Final = 1_700_000_000_000
VALUE: Final = bytes(1000)
_LATER: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""What is only a matter of asking again."""


class WireProducer:
    def __init__(self, transactional_id: str, topic: str, version: int) -> None:
        """`version` is that of transactions: 1 or 2."""
        self._id = transactional_id
        self._topic = topic
        self._is_v2 = version == 2
        self._producer_id = self._epoch = -1
        self._sequences: dict[int, int] = {}

    def begin(self) -> Steps:
        """Find the coordinator, and get a producer id."""
        find = FindCoordinatorRequest(key=self._id, key_type=1)
        yield from _insist(ApiKey.FIND_COORDINATOR, 3, find, _code)
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=60_000)
        answer = yield from _insist(ApiKey.INIT_PRODUCER_ID, 4, request, _code)
        self._enter(answer.producer_id, answer.producer_epoch)

    def find_group(self, group_id: str) -> Steps:
        find = FindCoordinatorRequest(key=group_id, key_type=0)
        yield from _insist(ApiKey.FIND_COORDINATOR, 3, find, _code)

    def transaction(self, partitions: Sequence[int], copied: Copied | None = None) -> Steps:
        """One record for each partition, and the offset after the one that is copied."""
        if copied is not None:
            yield from self._read(copied)
        if not self._is_v2:
            yield from self._add(partitions)
        yield from self._produce(partitions)
        if copied is not None:
            yield from self._commit_offset(copied)
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )
        answer = yield from _insist(ApiKey.END_TXN, 5 if self._is_v2 else 4, request, _code)
        if self._is_v2:
            self._enter(answer.producer_id, answer.producer_epoch)

    def _enter(self, producer_id: int, epoch: int) -> None:
        self._producer_id, self._epoch, self._sequences = producer_id, epoch, {}

    def _read(self, copied: Copied) -> Steps:
        topic, _, offset = copied
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
        topics = [FetchTopic(topic=topic, partitions=[partition])]
        answer = yield ApiKey.FETCH, 11, FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics)
        assert answer.responses[0].partitions[0].records

    def _add(self, partitions: Sequence[int]) -> Steps:
        topic = AddPartitionsToTxnTopic(name=self._topic, partitions=list(partitions))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[topic],
        )
        yield from _insist(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            request,
            lambda answer: (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            ),
        )

    def _produce(self, partitions: Sequence[int]) -> Steps:
        data = [PartitionProduceData(index=each, records=self._batch(each)) for each in partitions]
        request = ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=data)],
        )
        yield from _insist(
            ApiKey.PRODUCE,
            12 if self._is_v2 else 11,
            request,
            lambda answer: max(each.error_code for each in answer.responses[0].partition_responses),
        )

    def _batch(self, partition: int) -> bytes:
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + 1
        return build_batch(
            [Record(0, NOW_MS, None, VALUE)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )

    def _commit_offset(self, copied: Copied) -> Steps:
        topic, group_id, offset = copied
        if not self._is_v2:
            added = AddOffsetsToTxnRequest(
                transactional_id=self._id,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                group_id=group_id,
            )
            yield from _insist(ApiKey.ADD_OFFSETS_TO_TXN, 3, added, _code)
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset + 1, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        yield from _insist(
            ApiKey.TXN_OFFSET_COMMIT,
            5 if self._is_v2 else 3,
            request,
            lambda answer: answer.topics[0].partitions[0].error_code,
        )


def answer_all(client: RawClient, steps: Steps) -> None:
    """Ask one after the other."""
    asked = next_step(client, steps, None)
    while asked is not None:
        asked = next_step(client, steps, client.receive(*asked))


def next_step(client: RawClient, steps: Steps, answer: Any) -> Asked | None:
    """Send the next request. What is to be received, or None if that was all."""
    try:
        key, version, request = steps.send(answer)
    except StopIteration:
        return None
    client.send(key, version, request)
    return key, version


def _insist(
    key: ApiKey, version: int, request: Any, code_of: Callable[[Any], int]
) -> Generator[tuple[ApiKey, int, Any], Any, Any]:
    """The answer, once it is not that one has to ask again. One asks at once."""
    ends = perf_counter() + PATIENCE
    while True:
        answer = yield key, version, request
        code = ErrorCode(code_of(answer))
        if code is ErrorCode.NONE:
            return answer
        assert code in _LATER, code
        assert perf_counter() < ends, code


def _code(answer: Any) -> int:
    code: int = answer.error_code
    return code
