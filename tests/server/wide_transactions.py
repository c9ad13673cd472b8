"""Transactions of many partitions, logs of many segments, and batches that inflate: rows of the
table that `tests.server.wide_groups` prints."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.compression import Compression
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
from tests.server.wide_requests import Asked, Rows, create, produce_batch, produce_batches

INFLATED_BYTES: Final = 15 * 1024**2
READ_COMMITTED: Final = 1
ENDED_SECONDS: Final = 60
TRANSACTION: Final = 1
"""Of the kinds of keys that have a coordinator."""


@dataclass(slots=True)
class Transactions:
    """Those of one producer, one after the other."""

    asked: Asked
    transactional_id: str
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0

    def init(self) -> None:
        """Return when no transaction of before is left: its markers are written."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=60_000
        )

        deadline = time.monotonic() + ENDED_SECONDS
        while True:
            answer = self.asked.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
            if answer.error_code == ErrorCode.NONE:
                break
            assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            assert time.monotonic() < deadline, "the transaction before does not end"
            time.sleep(0.001)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequence = 0

    def add(self, topic: str, numbers: Sequence[int]) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(numbers))],
        )
        answer = self.asked.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
        (found,) = answer.results_by_topic_v3_and_below
        assert {each.partition_error_code for each in found.results_by_partition} == {0}

    def produce(self, topic: str, numbers: Sequence[int]) -> None:
        record = Record(0, time.time_ns() // 10**6, b"key", bytes(100))
        batch = build_batch(
            [record],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        self.sequence += 1
        data = [PartitionProduceData(index=number, records=batch) for number in numbers]
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=60_000,
            topic_data=[TopicProduceData(name=topic, partition_data=data)],
        )
        answer = self.asked.ask(ApiKey.PRODUCE, 11, request)
        assert {each.error_code for each in answer.responses[0].partition_responses} == {0}

    def commit_offsets(self, group: str) -> None:
        """For all partitions of the topic."""
        asked = self.asked
        added = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        assert asked.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, added).error_code == 0
        partitions = [
            TxnOffsetCommitRequestPartition(
                partition_index=number, committed_offset=1, committed_metadata=""
            )
            for number in asked.numbers
        ]
        topic = TxnOffsetCommitRequestTopic(name=asked.topic, partitions=partitions)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[topic],
        )
        answer = asked.ask(ApiKey.TXN_OFFSET_COMMIT, 3, request)
        assert {each.error_code for each in answer.topics[0].partitions} == {0}

    def end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        assert self.asked.ask(ApiKey.END_TXN, 3, request).error_code == 0


def begun(asked: Asked, kind: str) -> Transactions:
    found = Transactions(asked, f"{kind}-{asked.size}")
    found.init()
    return found


def find_coordinators(asked: Asked) -> None:
    """The first time, its topic is made."""
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=asked.named("written"))
    answer = asked.ask(ApiKey.FIND_COORDINATOR, 4, request)
    assert {each.error_code for each in answer.coordinators} == {0}


def add_partitions_to_txn(asked: Asked) -> None:
    transactions = begun(asked, "written")
    transactions.add(asked.topic, asked.numbers)
    transactions.end(committed=True)
    transactions.init()


def txn_offset_commit(asked: Asked) -> None:
    transactions = begun(asked, "read")
    for committed in (False, True):
        transactions.commit_offsets(f"transactional-{asked.size}")
        transactions.end(committed=committed)
        transactions.init()


def make_segments(asked: Asked) -> None:
    """The first has an aborted transaction, and those after it are to be asked whether it has one
    more."""
    name = _segmented(asked)
    create(asked, [name], 1, segment_ms="1")
    transactions = begun(asked, "segments")
    transactions.add(name, [0])
    transactions.produce(name, [0])
    transactions.end(committed=False)
    transactions.init()
    now_ms = time.time_ns() // 10**6
    for number in range(asked.size):
        record = Record(0, now_ms + number * 10, None, b"value")
        produce_batch(asked, name, build_batch([record]), 1)


def read_committed(asked: Asked) -> None:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50_000_000)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=50_000_000,
        isolation_level=READ_COMMITTED,
        topics=[FetchTopic(topic=_segmented(asked), partitions=[wanted])],
    )
    ((found,),) = [each.partitions for each in asked.ask(ApiKey.FETCH, 12, request).responses]
    assert found.error_code == 0
    assert found.aborted_transactions


def _segmented(asked: Asked) -> str:
    return f"segmented-{asked.size}"


def produce_inflating(asked: Asked) -> None:
    for codec in (Compression.GZIP, Compression.ZSTD):
        produce_batches(asked, f"inflating-{codec.name}", _inflating(codec))


def produce_inflating_to_compacted(asked: Asked) -> None:
    for codec in (Compression.GZIP, Compression.ZSTD):
        name = f"inflating-compacted-{codec.name}"
        produce_batches(asked, name, _inflating(codec), cleanup_policy="compact")


def _inflating(codec: Compression) -> bytes:
    value = bytes(INFLATED_BYTES)
    return build_batch([Record(0, time.time_ns() // 10**6, b"k", value)], compression=codec)


ROWS: Final[Rows] = (
    ("FindCoordinator of transactions", find_coordinators),
    ("AddPartitionsToTxn, EndTxn", add_partitions_to_txn),
    ("TxnOffsetCommit, EndTxn", txn_offset_commit),
    ("Transactions: segments are made", make_segments),
    ("Fetch of committed, many segments", read_committed),
    ("Fetch of committed, once more", read_committed),
    ("Produce: batches that inflate", produce_inflating),
    ("Produce: inflate, to be read", produce_inflating_to_compacted),
)
