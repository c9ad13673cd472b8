"""Requests that the tests of faults send, word by word."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from pyk.testing import ApiKey, Record
from pyk.testing.record import to_batch
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.clients.raw import RawClient


def produce(client: RawClient, topic: str, *partitions: int, acks: int = 1) -> dict[int, int]:
    """Error codes by partition."""
    response = client.ask(ApiKey.PRODUCE, 12, production(topic, *partitions, acks=acks))
    (answered,) = response.responses
    return {each.index: each.error_code for each in answered.partition_responses}


def production(topic: str, *partitions: int, acks: int = 1) -> ProduceRequest:
    batch = to_batch([Record(value=b"v")], 1_000)
    data = [PartitionProduceData(index=number, records=batch) for number in partitions]
    named = TopicProduceData(name=topic, partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[named])


def fetch(
    client: RawClient,
    topic: str,
    *partitions: int,
    session: tuple[int, int] = (0, -1),
    wait_ms: int = 0,
) -> Any:
    asked = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1_000_000)
        for number in partitions
    ]
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1_000_000,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, partitions=asked)] if asked else [],
        forgotten_topics_data=[],
    )
    return client.ask(ApiKey.FETCH, 12, request)


def fetch_errors(response: Any) -> dict[int, int]:
    return {
        each.partition_index: each.error_code
        for topic in response.responses
        for each in topic.partitions
    }


def metadata(client: RawClient, *topics: str) -> dict[str, tuple[int, int]]:
    """Error codes and numbers of partitions by topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics])
    found = client.ask(ApiKey.METADATA, 9, request).topics
    return {each.name: (each.error_code, len(each.partitions)) for each in found}


def write_transactions(address: str, topic: str) -> None:
    """One that is aborted, one that is committed, and one that stays open, with a record each."""
    for value in ("aborted", "committed", "open"):
        producer = Producer(
            {"bootstrap.servers": address, "transactional.id": f"{topic}-{value}", "log_level": 0}
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce(topic, value.encode())
        assert producer.flush(60) == 0
        if value == "aborted":
            producer.abort_transaction(60)
        if value == "committed":
            producer.commit_transaction(60)
