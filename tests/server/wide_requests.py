"""Requests of legal size that ask for much, and how long another client waits meanwhile: with 10,
100, 1,000 and 10,000 partitions, topics or configurations. A part of `make hostile`.

The broker is a process of its own, and so is a good client that writes and reads all the time.
Printed is the longest that one of its requests took. It is to be flat: 50 ms on a quiet machine.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pyk.wire.apis import ApiKey
from pyk.wire.compression import Compression
from pyk.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pyk.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pyk.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pyk.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from pyk.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyk.wire.messages.list_config_resources import ListConfigResourcesRequest
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pyk.wire.messages.metadata import MetadataRequest
from pyk.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.records import Record, build_batch
from tests.clients.raw import RawClient
from tests.server.hostile import FULL, Siege, besieged

SIZES: Final = (10, 100, 1_000, 10_000)
SLOW_MAX: Final = 64
"""How many batches that take long are sent at most: they are large."""
MADE_AT_ONCE: Final = 1_000
"""How many logs are to be made for one request: that takes a few milliseconds each."""
LIMIT_SECONDS: Final = 0.25
"""Nothing above it, on a busy machine either."""
TOPIC: Final = 2
"""Of the resources that have a configuration."""


class Asked(NamedTuple):
    """What a row has to work with: a topic of `size` partitions that nobody has used before the
    first row."""

    siege: Siege
    client: RawClient
    topic: str
    size: int

    @property
    def numbers(self) -> range:
        return range(self.size)

    def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        return self.client.ask(key, version, request)

    def named(self, kind: str) -> list[str]:
        return [f"{kind}-{self.size}-{number}" for number in self.numbers]


def small_batch() -> bytes:
    return build_batch([Record(0, time.time_ns() // 10**6, b"key", bytes(100))])


def create(asked: Asked, names: Sequence[str], partitions: int, **configs: str) -> None:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        for name in names
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=60_000)
    answer = asked.ask(ApiKey.CREATE_TOPICS, 7, request)
    assert {each.error_code for each in answer.topics} == {0}


def create_topic(asked: Asked) -> None:
    create(asked, [asked.topic], asked.size // 2)


def create_partitions(asked: Asked) -> None:
    wanted = CreatePartitionsTopic(name=asked.topic, count=asked.size, assignments=None)
    request = CreatePartitionsRequest(topics=[wanted], timeout_ms=60_000, validate_only=False)
    answer = asked.ask(ApiKey.CREATE_PARTITIONS, 3, request)
    assert answer.results[0].error_code == 0


def create_topics(asked: Asked) -> None:
    names = asked.named("topic")
    for start in range(0, len(names), 3000):
        create(asked, names[start : start + 3000], 1, retention_ms="1000000")


def fetch(asked: Asked, min_bytes: int = 1, max_wait_ms: int = 0) -> FetchRequest:
    wanted = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=1000)
        for number in asked.numbers
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=50_000_000,
        topics=[FetchTopic(topic=asked.topic, partitions=wanted)],
    )


def fetch_all(asked: Asked) -> None:
    answer = asked.ask(ApiKey.FETCH, 12, fetch(asked))
    assert len(answer.responses[0].partitions) == asked.size


def make_logs(asked: Asked) -> None:
    for start in range(0, asked.size, MADE_AT_ONCE):
        produce_to(asked, asked.numbers[start : start + MADE_AT_ONCE])


def produce_to_all(asked: Asked) -> None:
    produce_to(asked, asked.numbers)


def produce_to(asked: Asked, numbers: Sequence[int]) -> None:
    batch = small_batch()
    data = [PartitionProduceData(index=number, records=batch) for number in numbers]
    topic = TopicProduceData(name=asked.topic, partition_data=data)
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic])
    answer = asked.ask(ApiKey.PRODUCE, 11, request)
    assert {each.error_code for each in answer.responses[0].partition_responses} == {0}


def produce_to_who_waits(asked: Asked) -> None:
    """Three wait for more of all partitions than comes, while records come to each."""
    host = asked.client._socket.getpeername()
    waiting = [RawClient(f"{host[0]}:{host[1]}") for _ in range(3)]
    for client in waiting:
        client.send(ApiKey.FETCH, 12, fetch(asked, min_bytes=40_000_000, max_wait_ms=1_500))
    for number in asked.numbers[:200]:
        produce_to(asked, [number])
    produce_to_all(asked)
    for client in waiting:
        client.receive(ApiKey.FETCH, 12)
        client.__exit__(None, None, None)


def list_latest(asked: Asked) -> None:
    list_offsets(asked, [asked.topic], asked.numbers, -1)


def list_offsets(asked: Asked, topics: Sequence[str], numbers: Sequence[int], time: int) -> Any:
    wanted = [ListOffsetsPartition(partition_index=number, timestamp=time) for number in numbers]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=wanted) for name in topics]
    )
    return asked.ask(ApiKey.LIST_OFFSETS, 7, request)


def offsets_for_epochs(asked: Asked) -> None:
    wanted = [OffsetForLeaderPartition(partition=n, leader_epoch=0) for n in asked.numbers]
    topic = OffsetForLeaderTopic(topic=asked.topic, partitions=wanted)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
    asked.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, request)


def describe_producers(asked: Asked) -> None:
    topic = TopicRequest(name=asked.topic, partition_indexes=list(asked.numbers))
    asked.ask(ApiKey.DESCRIBE_PRODUCERS, 0, DescribeProducersRequest(topics=[topic]))


def describe_log_dirs(asked: Asked) -> None:
    asked.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None))


def metadata(asked: Asked) -> None:
    asked.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))


def delete_records(asked: Asked) -> None:
    wanted = [DeleteRecordsPartition(partition_index=n, offset=1) for n in asked.numbers]
    topic = DeleteRecordsTopic(name=asked.topic, partitions=wanted)
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=60_000)
    answer = asked.ask(ApiKey.DELETE_RECORDS, 2, request)
    assert {each.error_code for each in answer.topics[0].partitions} == {0}


def describe_configs(asked: Asked) -> None:
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
        for name in asked.named("topic")
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
    asked.ask(ApiKey.DESCRIBE_CONFIGS, 4, request)


def alter_configs(asked: Asked) -> None:
    config = AlterableConfig(name="retention.ms", config_operation=0, value="2000000")
    resources = [
        AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[config])
        for name in asked.named("topic")
    ]
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    answer = asked.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert {each.error_code for each in answer.responses} == {0}


def list_config_resources(asked: Asked) -> None:
    request = ListConfigResourcesRequest(resource_types=[])
    asked.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, request)


def delete_topics(asked: Asked) -> None:
    request = DeleteTopicsRequest(topic_names=asked.named("topic"), timeout_ms=60_000)
    asked.ask(ApiKey.DELETE_TOPICS, 5, request)
    time.sleep(0.5)  # Its logs go afterwards.


def delete_topic(asked: Asked) -> None:
    request = DeleteTopicsRequest(topic_names=[asked.topic], timeout_ms=60_000)
    asked.ask(ApiKey.DELETE_TOPICS, 5, request)
    time.sleep(0.5)


def produce_batches(asked: Asked, name: str, batch: bytes, **configs: str) -> None:
    count = min(asked.size, SLOW_MAX)
    name = f"{name}-{asked.size}"
    create(asked, [name], count, **configs)
    produce_batch(asked, name, batch, count)


def produce_batch(asked: Asked, name: str, batch: bytes, count: int) -> None:
    """To each of so many partitions."""
    data = [PartitionProduceData(index=number, records=batch) for number in range(count)]
    topic = TopicProduceData(name=name, partition_data=data)
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic])
    answer = asked.ask(ApiKey.PRODUCE, 11, request)
    assert {each.error_code for each in answer.responses[0].partition_responses} == {0}


def produce_to_compacted(asked: Asked) -> None:
    now_ms = time.time_ns() // 10**6
    records = [Record(offset, now_ms, b"k", b"") for offset in range(65_536)]
    batch = build_batch(records, compression=Compression.ZSTD)
    produce_batches(asked, "compacted", batch, cleanup_policy="compact")


def produce_to_recompressed(asked: Asked) -> None:
    now_ms = time.time_ns() // 10**6
    records = [Record(offset, now_ms, b"k", (b"%d" % offset) * 2000) for offset in range(1500)]
    batch = build_batch(records, compression=Compression.ZSTD)
    produce_batches(asked, "recompressed", batch, compression_type="gzip")


def find_by_time(asked: Asked) -> None:
    """In a batch of many records, named as often as that."""
    now_ms, name = time.time_ns() // 10**6, f"timed-{asked.size}"
    rng = random.Random(1)
    times = [now_ms + rng.randrange(50) for _ in range(200_000)]
    records = [
        Record(offset, each, None, b"v") for offset, each in enumerate([*times, now_ms + 99])
    ]
    create(asked, [name], 1)
    data = [
        PartitionProduceData(index=0, records=build_batch(records, compression=Compression.ZSTD))
    ]
    topic = TopicProduceData(name=name, partition_data=data)
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic])
    asked.ask(ApiKey.PRODUCE, 11, request)
    list_offsets(asked, [name] * asked.size, [0], now_ms + 98)
    list_offsets(asked, [name], [0], now_ms + 98)


Rows: TypeAlias = Sequence[tuple[str, Callable[[Asked], None]]]

ROWS: Final[Rows] = (
    ("CreateTopics: one with many partitions", create_topic),
    ("CreatePartitions", create_partitions),
    ("Metadata of all", metadata),
    ("Fetch of what nobody has used", fetch_all),
    ("ListOffsets of what nobody has used", list_latest),
    ("Produce: logs are made", make_logs),
    ("Fetch that waits, Produce", produce_to_who_waits),
    ("Fetch", fetch_all),
    ("ListOffsets", list_latest),
    ("OffsetForLeaderEpoch", offsets_for_epochs),
    ("DescribeProducers", describe_producers),
    ("DescribeLogDirs of all", describe_log_dirs),
    ("DeleteRecords", delete_records),
    ("CreateTopics: many", create_topics),
    ("DescribeConfigs", describe_configs),
    ("IncrementalAlterConfigs", alter_configs),
    ("ListConfigResources", list_config_resources),
    ("Metadata of many topics", metadata),
    ("DeleteTopics: many", delete_topics),
    ("DeleteTopics: one with many partitions", delete_topic),
    ("Produce: records that must be read", produce_to_compacted),
    ("Produce: to be compressed anew", produce_to_recompressed),
    ("ListOffsets by time, in a large batch", find_by_time),
)


def longest_waits(
    siege: Siege, rows: Rows, sizes: Sequence[int]
) -> Iterable[tuple[str, list[float]]]:
    """For each row, and each size, in seconds."""
    with RawClient(siege.address) as client:
        for name, row in rows:
            waits = []
            for size in sizes:
                siege.good.report()
                row(Asked(siege, client, f"wide-{size}", size))
                waits.append(siege.good.report()["broker_max"] / 1e6)
            yield name, waits


def show(rows: Rows) -> None:
    """The table, of the sizes that the command line names."""
    sizes = [int(each) for each in sys.argv[1:]] or SIZES
    with besieged(FULL) as siege:
        print(f"{'longest wait of another client, ms':40}", *(f"{size:>8,}" for size in sizes))
        slow = []
        for name, waits in longest_waits(siege, rows, sizes):
            print(f"{name:40}", *(f"{wait * 1000:>8.1f}" for wait in waits), flush=True)
            slow += [name] if max(waits) > LIMIT_SECONDS else []
        assert not slow, f"others had to wait for {', '.join(slow)}"


if __name__ == "__main__":
    show(ROWS)
