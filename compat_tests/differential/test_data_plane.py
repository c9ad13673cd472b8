"""Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and Metadata, in every version."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import pytest

from compat_tests.differential.sides import Side, Sides
from pyk.types import Uuid
from pyk.wire.apis import ApiKey, request_type
from pyk.wire.compression import Compression
from pyk.wire.message import layout
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.init_producer_id import InitProducerIdRequest
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyk.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pyk.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pyk.wire.records import Record, build_batch

TOPIC, MISSING = "topic", "missing"
NOBODY = Uuid(b"there is no such")
NOW = 1_700_000_000_000
OPTIONS = {"num.partitions": "2"}
UNKNOWN_ISOLATION = 9
LISTED = {
    # Kafka fails over it, with UNKNOWN_SERVER_ERROR. Here it is as good as uncommitted.
    f"isolation {UNKNOWN_ISOLATION}": ".*",
}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    with Sides.open(tmp_path_factory.mktemp("data"), OPTIONS) as sides:
        for side in (sides.kafka, sides.pyk):
            wait_until_there(side)
        yield sides


def wait_until_there(side: Side) -> None:
    """Make the topic by asking for it. Kafka tells of it before it leads it, and has no ids for
    producers at first."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
    wanted = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)

    deadline = time.monotonic() + 60
    while (found := side.ask(ApiKey.METADATA, 12, request).topics[0]).error_code:
        assert time.monotonic() < deadline
    side.topic_ids[found.topic_id] = TOPIC
    ends = [ListOffsetsPartition(partition_index=i, timestamp=-1) for i in range(2)]
    asked = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=ends)]
    )
    while any(
        each.error_code for each in side.ask(ApiKey.LIST_OFFSETS, 5, asked).topics[0].partitions
    ):
        assert time.monotonic() < deadline
    while side.ask(ApiKey.INIT_PRODUCER_ID, 4, wanted).error_code:
        assert time.monotonic() < deadline


def versions(key: ApiKey) -> range:
    of = layout(request_type(key))
    return range(of.versions.lowest, min(of.versions.highest, of.advertised.highest) + 1)


def id_of(side: Side, topic: str) -> Uuid:
    return next((found for found, name in side.topic_ids.items() if name == topic), NOBODY)


class Comparison:
    """Asks both sides the same in all versions, and gathers where they differ."""

    def __init__(self, sides: Sides, key: ApiKey) -> None:
        self._sides = sides
        self._key = key
        self.differences: list[str] = []
        self.compared = 0

    def add(
        self, case: str, make: Callable[[int, Side], Any], since: int = 0, until: int = 99
    ) -> None:
        for version in versions(self._key):
            if since <= version <= until:
                known = [LISTED[case]] if case in LISTED else []
                found = self._sides.compare(self._key, version, partial(make, version), known)
                self.differences += [f"v{version} {case}: {line}" for line in found]
                self.compared += 1


@pytest.fixture
def compare(
    sides: Sides, report: Callable[[str], None], request: pytest.FixtureRequest
) -> Iterator[Comparison]:
    comparison = Comparison(sides, request.param)
    yield comparison
    assert comparison.differences == []
    report(f"{request.param.name}: {comparison.compared} answers are the same")


def of_api(key: ApiKey) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("compare", [key], indirect=True, ids=[key.name])


def a_batch(count: int = 1, size: int = 10, **more: Any) -> bytes:
    records = [
        Record(offset=i, timestamp=NOW + i, key=None, value=bytes(size)) for i in range(count)
    ]
    return build_batch(records, **more)


def from_producer(producer_id: int, sequence: int, **more: Any) -> bytes:
    return a_batch(1, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, **more)


def produce(
    *batches: bytes, topic: str = TOPIC, acks: int = -1, first: int = 0
) -> Callable[[int, Side], ProduceRequest]:
    data = [PartitionProduceData(index=first + i, records=b) for i, b in enumerate(batches)]

    def make(version: int, side: Side) -> ProduceRequest:
        named = {"topic_id": id_of(side, topic)} if version >= 13 else {"name": topic}
        topics = [TopicProduceData(partition_data=data, **named)]
        return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=topics)

    return make


@of_api(ApiKey.PRODUCE)
def test_produce_is_answered_alike(compare: Comparison) -> None:
    broken = bytearray(a_batch(2))
    broken[-1] ^= 1
    compare.add("one partition", produce(a_batch(2)))
    compare.add("two partitions", produce(a_batch(2), a_batch(1)))
    compare.add("acks 1", produce(a_batch(2), acks=1))
    compare.add("acks 5", produce(a_batch(2), acks=5))
    compare.add("a partition that is missing", produce(a_batch(2), first=7))
    compare.add("a topic that is missing", produce(a_batch(2), topic=MISSING))
    compare.add("no partitions", produce())
    compare.add("a wrong CRC", produce(bytes(broken)))
    compare.add("no batch", produce(b""))
    compare.add("zstd", produce(a_batch(compression=Compression.ZSTD)))
    compare.add("too large", produce(a_batch(size=2_000_000)))
    compare.add("too far ahead", produce(build_batch([Record(0, 2**50, None, b"")])))
    compare.add("transactional", produce(from_producer(77, 0, is_transactional=True)))
    for version in versions(ApiKey.PRODUCE):
        producer_id = 900 + version
        only = {"since": version, "until": version}
        compare.add("a new producer", produce(from_producer(producer_id, 0)), **only)
        compare.add("a gap", produce(from_producer(producer_id, 9)), **only)
        compare.add("a repetition", produce(from_producer(producer_id, 0)), **only)


def wanted(partition: int = 0, offset: int = 0, **more: Any) -> FetchPartition:
    options = {"partition_max_bytes": 10**6, **more}
    return FetchPartition(partition=partition, fetch_offset=offset, **options)


def fetch(
    *partitions: FetchPartition, topic: str = TOPIC, **more: Any
) -> Callable[[int, Side], FetchRequest]:
    def make(version: int, side: Side) -> FetchRequest:
        named = {"topic_id": id_of(side, topic)} if version >= 13 else {"topic": topic}
        topics = [FetchTopic(partitions=list(partitions), **named)]
        options = {"max_wait_ms": 0, "min_bytes": 0, **more}
        return FetchRequest(topics=topics if partitions else [], **options)

    return make


@of_api(ApiKey.FETCH)
def test_fetch_is_answered_alike(compare: Comparison) -> None:
    compare.add("one partition", fetch(wanted()))
    compare.add("two partitions", fetch(wanted(), wanted(1)))
    compare.add("nothing", fetch())
    compare.add("committed", fetch(wanted(), isolation_level=1))
    unknown = fetch(wanted(), isolation_level=UNKNOWN_ISOLATION)
    compare.add(f"isolation {UNKNOWN_ISOLATION}", unknown)
    for offset in (-1, 1, 10**6):
        compare.add(f"offset {offset}", fetch(wanted(1, offset)))
    compare.add("a partition that is missing", fetch(wanted(9)))
    compare.add("a topic that is missing", fetch(wanted(), topic=MISSING))
    compare.add("a byte of a partition", fetch(wanted(partition_max_bytes=1)))
    compare.add("a byte in all", fetch(wanted(), wanted(1), max_bytes=1))
    compare.add("no bytes", fetch(wanted(partition_max_bytes=0), max_bytes=0))
    for epoch in (0, 5):
        compare.add(f"epoch {epoch}", fetch(wanted(current_leader_epoch=epoch)), since=9)
    for epoch, offset in ((0, 1), (9, 1), (0, 10**6)):
        asked = wanted(0, offset, last_fetched_epoch=epoch)
        compare.add(f"diverging at {offset} of {epoch}", fetch(asked), since=12)
    for epoch in (0, 3):
        options: dict[str, Any] = {"session_id": 77, "session_epoch": epoch}
        compare.add(f"a session that is not there, {epoch}", fetch(wanted(), **options), since=7)


def list_offsets(
    *partitions: ListOffsetsPartition, topic: str = TOPIC, isolation: int = 0, replica: int = -1
) -> Callable[[int, Side], ListOffsetsRequest]:
    def make(version: int, side: Side) -> ListOffsetsRequest:
        topics = [ListOffsetsTopic(name=topic, partitions=list(partitions))]
        return ListOffsetsRequest(replica_id=replica, isolation_level=isolation, topics=topics)

    return make


@of_api(ApiKey.LIST_OFFSETS)
def test_list_offsets_is_answered_alike(compare: Comparison) -> None:
    times = (*range(-8, 1), NOW, NOW + 1, NOW + 10**6)
    for timestamp, partition, isolation in product(times, (0, 5), (0, 1)):
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        case = f"{timestamp} of {partition}"
        compare.add(case, list_offsets(asked, isolation=isolation), since=2 * isolation)
    latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
    compare.add("a topic that is missing", list_offsets(latest, topic=MISSING))
    compare.add("twice the same", list_offsets(latest, latest))
    compare.add("for debugging", list_offsets(latest, replica=-2))
    for epoch in (0, 5):
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
        compare.add(f"epoch {epoch}", list_offsets(asked), since=4)


@of_api(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def test_offset_for_leader_epoch_is_answered_alike(compare: Comparison) -> None:
    def ask(topic: str, *asked: OffsetForLeaderPartition) -> Callable[[int, Side], Any]:
        topics = [OffsetForLeaderTopic(topic=topic, partitions=list(asked))]
        return lambda version, side: OffsetForLeaderEpochRequest(topics=topics)

    for epoch, current in product((-1, 0, 1, 5), (-1, 0, 3)):
        asked = OffsetForLeaderPartition(
            partition=0, current_leader_epoch=current, leader_epoch=epoch
        )
        compare.add(f"{epoch} in {current}", ask(TOPIC, asked))
    missing = OffsetForLeaderPartition(partition=9, leader_epoch=0)
    compare.add("a partition that is missing", ask(TOPIC, missing))
    compare.add("a topic that is missing", ask(MISSING, missing))


@of_api(ApiKey.METADATA)
def test_metadata_is_answered_alike(compare: Comparison) -> None:
    def ask(*names: str, **more: Any) -> Callable[[int, Side], MetadataRequest]:
        topics = [MetadataRequestTopic(name=name) for name in names]
        return lambda version, side: MetadataRequest(topics=topics, **more)

    def by_id(topic: str) -> Callable[[int, Side], MetadataRequest]:
        def make(version: int, side: Side) -> MetadataRequest:
            name = None if version >= 12 else ""
            asked = MetadataRequestTopic(name=name, topic_id=id_of(side, topic))
            return MetadataRequest(topics=[asked])

        return make

    compare.add("a topic", ask(TOPIC))
    compare.add("no topics", ask(), since=1)
    compare.add("twice the same", ask(TOPIC, TOPIC))
    compare.add("missing", ask(MISSING, allow_auto_topic_creation=False), since=4)
    for name in ("", "..", "a b", "x" * 250):
        compare.add(f"the name {name[:5]!r}", ask(name))
    compare.add("with operations", ask(TOPIC, include_topic_authorized_operations=True), since=8)
    compare.add("by id", by_id(TOPIC), since=12)
    compare.add("by an id that is missing", by_id(MISSING), since=12)
    operations = {"include_cluster_authorized_operations": True}
    compare.add("with those of the cluster", ask(TOPIC, **operations), since=8, until=10)
