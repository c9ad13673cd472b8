"""What clients cannot show: topics made without them, and batches as they are stored."""

from __future__ import annotations

import time

from pyk.wire.apis import ApiKey
from pyk.wire.batch import BatchHeader, iterate_batches
from pyk.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pyk.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyk.wire.prefixed import ControlType, decode_control_type
from pyk.wire.records import read_records
from tests.clients.raw import RawClient

KNOWN_SECONDS = 90.0


def create_topic(address: str, topic: str, partitions: int = 1, **configs: str) -> None:
    """The keys of configurations have underscores for dots."""
    asked = CreatableTopic(
        name=topic,
        num_partitions=partitions,
        replication_factor=1,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=name.replace("_", "."), value=value)
            for name, value in configs.items()
        ],
    )
    with RawClient(address) as raw:
        answer = raw.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[asked]))
    assert [each.error_code for each in answer.topics] == [0]


def create_partitions(address: str, topic: str, count: int) -> None:
    """So that there are this many."""
    asked = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    with RawClient(address) as raw:
        request = CreatePartitionsRequest(topics=[asked], timeout_ms=20_000, validate_only=False)
        answer = raw.ask(ApiKey.CREATE_PARTITIONS, 3, request)
    assert [each.error_code for each in answer.results] == [0]


def wait_until_known(address: str, topic: str, partitions: int) -> None:
    """A controller may answer before the brokers have heard of what it has made."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    deadline = time.monotonic() + KNOWN_SECONDS
    with RawClient(address) as raw:
        while True:
            (found,) = raw.ask(ApiKey.METADATA, 12, request).topics
            if sum(each.error_code == 0 for each in found.partitions) == partitions:
                return
            assert time.monotonic() < deadline, found


def stored_batches(address: str, topic: str, partition: int = 0) -> list[BatchHeader]:
    with RawClient(address) as raw:
        records = _fetched(raw, topic, partition, 0)
    return [header for _, header in iterate_batches(records, torn_tail_allowed=True)]


def stored_markers(
    address: str, topic: str, partition: int = 0
) -> list[tuple[BatchHeader, ControlType]]:
    """All ends of transactions in a partition, and what they say."""
    found, offset = [], 0
    with RawClient(address) as raw:
        while records := _fetched(raw, topic, partition, offset):
            for position, header in iterate_batches(records, torn_tail_allowed=True):
                offset = header.next_offset
                if header.is_control:
                    [marker] = read_records(records, position, header)
                    found.append((header, ControlType(decode_control_type(marker.key))))
    return found


def _fetched(raw: RawClient, topic: str, partition: int, offset: int) -> bytes:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=2**30)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=2**30,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    ((found,),) = [each.partitions for each in raw.ask(ApiKey.FETCH, 12, request).responses]
    assert found.error_code == 0
    return bytes(found.records or b"")
