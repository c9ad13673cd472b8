"""What is done to topics that a group reads."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from pyk.wire.apis import ApiKey
from pyk.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pyk.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.clients.groups.programs.member import Partition
from tests.clients.raw import RawClient

WAIT = 90.0
LINGER_MS = 10_000
"""Longer than it takes to fill a batch."""


def write_batch(
    address: str, partition: Partition, records: Iterable[tuple[str | None, str]]
) -> None:
    """Keys and values, all in one batch, and acknowledged."""
    failures: list[object] = []
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": LINGER_MS, "acks": "all", "log_level": 0}
    )
    for key, value in records:
        producer.produce(
            partition.topic,
            value,
            key,
            partition=partition.number,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(WAIT) == 0
    assert failures == []


def offsets_left(address: str, partition: Partition, end: int) -> list[int]:
    """Of the records before `end`."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "nobody", "log_level": 0})
    consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING)])
    found: list[int] = []
    while not found or found[-1] < end - 1:
        for message in consumer.consume(end, 0.1):
            offset = message.offset()
            if message.error() is None and offset is not None:
                found.append(offset)
    consumer.close()
    return found


def wait_until_compacted(address: str, partition: Partition, left: list[int]) -> None:
    """Until these offsets are left."""
    deadline = time.monotonic() + WAIT
    while (found := offsets_left(address, partition, left[-1] + 1)) != left:
        assert time.monotonic() < deadline, found


def delete_topic(address: str, topic: str) -> None:
    """Return when nobody knows it any more."""
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=20_000)
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    deadline = time.monotonic() + WAIT
    with RawClient(address) as raw:
        answer = raw.ask(ApiKey.DELETE_TOPICS, 6, request)
        assert [each.error_code for each in answer.responses] == [0], answer
        while True:
            (found,) = raw.ask(ApiKey.METADATA, 12, asked).topics
            if found.error_code:
                return
            assert time.monotonic() < deadline, found


def delete_records(address: str, partition: Partition, before: int) -> None:
    asked = DeleteRecordsTopic(
        name=partition.topic,
        partitions=[DeleteRecordsPartition(partition_index=partition.number, offset=before)],
    )
    with RawClient(address) as raw:
        request = DeleteRecordsRequest(topics=[asked], timeout_ms=20_000)
        ((found,),) = [
            each.partitions for each in raw.ask(ApiKey.DELETE_RECORDS, 2, request).topics
        ]
    assert found.error_code == 0, found
