"""Requests of the data plane, for a version and a side."""

from __future__ import annotations

from typing import Any

from compat_tests.differential.comparison import Make
from compat_tests.differential.sides import Side
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.records import Record, build_batch

NOW = 1_700_000_000_000


def a_batch(count: int = 1, size: int = 10, **more: Any) -> bytes:
    records = [
        Record(offset=i, timestamp=NOW + i, key=None, value=bytes(size)) for i in range(count)
    ]
    return build_batch(records, **more)


def from_producer(producer_id: int, sequence: int, epoch: int = 0, **more: Any) -> bytes:
    given = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    return a_batch(**{"count": 1, **given, **more})


def produce(*batches: bytes, topic: str, acks: int = -1, first: int = 0) -> Make:
    data = [PartitionProduceData(index=first + i, records=b) for i, b in enumerate(batches)]

    def make(version: int, side: Side) -> ProduceRequest:
        named = {"topic_id": side.id_of(topic)} if version >= 13 else {"name": topic}
        topics = [TopicProduceData(partition_data=data, **named)]
        return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)

    return make


def wanted(partition: int = 0, offset: int = 0, **more: Any) -> FetchPartition:
    options = {"partition_max_bytes": 10**6, **more}
    return FetchPartition(partition=partition, fetch_offset=offset, **options)


def fetch(*partitions: FetchPartition, topic: str, **more: Any) -> Make:
    def make(version: int, side: Side) -> FetchRequest:
        named = {"topic_id": side.id_of(topic)} if version >= 13 else {"topic": topic}
        topics = [FetchTopic(partitions=list(partitions), **named)]
        options = {"max_wait_ms": 0, "min_bytes": 0, **more}
        return FetchRequest(topics=topics if partitions else [], **options)

    return make


def list_offsets(
    *partitions: ListOffsetsPartition, topic: str, isolation: int = 0, replica: int = -1
) -> Make:
    def make(version: int, side: Side) -> ListOffsetsRequest:
        topics = [ListOffsetsTopic(name=topic, partitions=list(partitions))]
        return ListOffsetsRequest(replica_id=replica, isolation_level=isolation, topics=topics)

    return make
