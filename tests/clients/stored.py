"""What clients cannot show: topics made without them, and batches as they are stored."""

from __future__ import annotations

from pyk.wire.apis import ApiKey
from pyk.wire.batch import BatchHeader, iterate_batches
from pyk.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.clients.raw import RawClient


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


def stored_batches(address: str, topic: str, partition: int = 0) -> list[BatchHeader]:
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=2**30)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=2**30,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    with RawClient(address) as raw:
        ((found,),) = [each.partitions for each in raw.ask(ApiKey.FETCH, 12, request).responses]
    assert found.error_code == 0
    return [header for _, header in iterate_batches(found.records, torn_tail_allowed=True)]
