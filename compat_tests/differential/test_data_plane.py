"""Produce, Fetch, ListOffsets, OffsetForLeaderEpoch and Metadata, in every version."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest

from compat_tests.differential import requests
from compat_tests.differential.comparison import Comparison, Listed, comparing, versions
from compat_tests.differential.listed import SAYS_WHY, WHY_IT_IS_REFUSED
from compat_tests.differential.requests import NOW, a_batch, from_producer, wanted
from compat_tests.differential.sides import Side, Sides
from pyk.wire.apis import ApiKey
from pyk.wire.compression import Compression
from pyk.wire.messages.list_offsets import ListOffsetsPartition
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyk.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pyk.wire.records import Record, build_batch

TOPIC, UNUSED, MISSING = "data-plane", "unused", "missing"
UNKNOWN_ISOLATION = 9
FETCH_DIFFERENCES = {
    "an isolation level that is none": Listed(
        f"isolation {UNKNOWN_ISOLATION}$",
        "",
        "Kafka fails over it, with UNKNOWN_SERVER_ERROR. Here it is as good as uncommitted.",
    ),
}

produce = partial(requests.produce, topic=TOPIC)
fetch = partial(requests.fetch, topic=TOPIC)
list_offsets = partial(requests.list_offsets, topic=TOPIC)

EMPTY = 2
"""A partition that nobody writes to."""


@pytest.fixture(scope="module", autouse=True)
def topic(sides: Sides) -> None:
    sides.create(TOPIC, partitions=3)
    sides.create(UNUSED, partitions=1)


@comparing("PRODUCE", {SAYS_WHY: WHY_IT_IS_REFUSED}, ["partition_responses"])
def test_produce_is_answered_alike(compare: Comparison) -> None:
    broken = bytearray(a_batch(2))
    broken[-1] ^= 1
    compare.add(ApiKey.PRODUCE, "one partition", produce(a_batch(2)))
    compare.add(ApiKey.PRODUCE, "two partitions", produce(a_batch(2), a_batch(1)))
    compare.add(ApiKey.PRODUCE, "acks 1", produce(a_batch(2), acks=1))
    compare.add(ApiKey.PRODUCE, "acks 5", produce(a_batch(2), acks=5))
    compare.add(ApiKey.PRODUCE, "a partition that is missing", produce(a_batch(2), first=7))
    compare.add(ApiKey.PRODUCE, "a topic that is missing", produce(a_batch(2), topic=MISSING))
    compare.add(ApiKey.PRODUCE, "no partitions", produce())
    compare.add(ApiKey.PRODUCE, "a wrong CRC", produce(bytes(broken)))
    compare.add(ApiKey.PRODUCE, "no batch", produce(b""))
    compare.add(ApiKey.PRODUCE, "zstd", produce(a_batch(compression=Compression.ZSTD)))
    compare.add(ApiKey.PRODUCE, "too large", produce(a_batch(size=2_000_000)))
    compare.add(
        ApiKey.PRODUCE, "too far ahead", produce(build_batch([Record(0, 2**50, None, b"")]))
    )
    compare.add(
        ApiKey.PRODUCE, "transactional", produce(from_producer(77, 0, is_transactional=True))
    )
    for version in versions(ApiKey.PRODUCE):
        producer_id = 900 + version
        only = {"since": version, "until": version}
        compare.add(
            ApiKey.PRODUCE, "a new producer", produce(from_producer(producer_id, 0)), **only
        )
        compare.add(ApiKey.PRODUCE, "a gap", produce(from_producer(producer_id, 9)), **only)
        compare.add(ApiKey.PRODUCE, "a repetition", produce(from_producer(producer_id, 0)), **only)


@comparing("FETCH", FETCH_DIFFERENCES)
def test_fetch_is_answered_alike(compare: Comparison) -> None:
    compare.add(ApiKey.FETCH, "one partition", fetch(wanted()))
    compare.add(ApiKey.FETCH, "two partitions", fetch(wanted(), wanted(1)))
    compare.add(ApiKey.FETCH, "nothing", fetch())
    compare.add(ApiKey.FETCH, "committed", fetch(wanted(), isolation_level=1))
    unknown = fetch(wanted(), isolation_level=UNKNOWN_ISOLATION)
    compare.add(ApiKey.FETCH, f"isolation {UNKNOWN_ISOLATION}", unknown)
    for offset in (-1, 1, 10**6):
        compare.add(ApiKey.FETCH, f"offset {offset}", fetch(wanted(1, offset)))
    compare.add(ApiKey.FETCH, "a partition that is missing", fetch(wanted(9)))
    compare.add(ApiKey.FETCH, "a topic that is missing", fetch(wanted(), topic=MISSING))
    compare.add(ApiKey.FETCH, "a byte of a partition", fetch(wanted(partition_max_bytes=1)))
    compare.add(ApiKey.FETCH, "a byte in all", fetch(wanted(), wanted(1), max_bytes=1))
    compare.add(ApiKey.FETCH, "no bytes", fetch(wanted(partition_max_bytes=0), max_bytes=0))
    for epoch in (0, 5):
        compare.add(
            ApiKey.FETCH, f"epoch {epoch}", fetch(wanted(current_leader_epoch=epoch)), since=9
        )
    for epoch, offset in ((0, 1), (9, 1), (0, 10**6)):
        asked = wanted(0, offset, last_fetched_epoch=epoch)
        compare.add(ApiKey.FETCH, f"diverging at {offset} of {epoch}", fetch(asked), since=12)
    for epoch in (0, 3):
        options: dict[str, Any] = {"session_id": 77, "session_epoch": epoch}
        compare.add(
            ApiKey.FETCH,
            f"a session that is not there, {epoch}",
            fetch(wanted(), **options),
            since=7,
        )


@comparing("LIST_OFFSETS")
def test_list_offsets_is_answered_alike(compare: Comparison) -> None:
    times = (*range(-8, 1), NOW, NOW + 1, NOW + 10**6)
    for timestamp, partition, isolation in product(times, (0, EMPTY, 5), (0, 1)):
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        case = f"{timestamp} of {partition}"
        compare.add(
            ApiKey.LIST_OFFSETS, case, list_offsets(asked, isolation=isolation), since=2 * isolation
        )
    for timestamp in times:
        asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        compare.add(
            ApiKey.LIST_OFFSETS, f"{timestamp} of nothing", list_offsets(asked, topic=UNUSED)
        )
    latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
    compare.add(ApiKey.LIST_OFFSETS, "a topic that is missing", list_offsets(latest, topic=MISSING))
    compare.add(ApiKey.LIST_OFFSETS, "twice the same", list_offsets(latest, latest))
    compare.add(ApiKey.LIST_OFFSETS, "for debugging", list_offsets(latest, replica=-2))
    for epoch in (0, 5):
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1, current_leader_epoch=epoch)
        compare.add(ApiKey.LIST_OFFSETS, f"epoch {epoch}", list_offsets(asked), since=4)


@comparing("OFFSET_FOR_LEADER_EPOCH")
def test_offset_for_leader_epoch_is_answered_alike(compare: Comparison) -> None:
    def ask(topic: str, *asked: OffsetForLeaderPartition) -> Callable[[int, Side], Any]:
        topics = [OffsetForLeaderTopic(topic=topic, partitions=list(asked))]
        return lambda version, side: OffsetForLeaderEpochRequest(topics=topics)

    for epoch, current in product((-1, 0, 1, 5), (-1, 0, 3)):
        asked = OffsetForLeaderPartition(
            partition=0, current_leader_epoch=current, leader_epoch=epoch
        )
        compare.add(ApiKey.OFFSET_FOR_LEADER_EPOCH, f"{epoch} in {current}", ask(TOPIC, asked))
    missing = OffsetForLeaderPartition(partition=9, leader_epoch=0)
    compare.add(ApiKey.OFFSET_FOR_LEADER_EPOCH, "a partition that is missing", ask(TOPIC, missing))
    compare.add(ApiKey.OFFSET_FOR_LEADER_EPOCH, "a topic that is missing", ask(MISSING, missing))


@comparing("METADATA")
def test_metadata_is_answered_alike(compare: Comparison) -> None:
    def ask(*names: str, **more: Any) -> Callable[[int, Side], MetadataRequest]:
        topics = [MetadataRequestTopic(name=name) for name in names]
        return lambda version, side: MetadataRequest(topics=topics, **more)

    def by_id(topic: str) -> Callable[[int, Side], MetadataRequest]:
        def make(version: int, side: Side) -> MetadataRequest:
            name = None if version >= 12 else ""
            asked = MetadataRequestTopic(name=name, topic_id=side.id_of(topic))
            return MetadataRequest(topics=[asked])

        return make

    compare.add(ApiKey.METADATA, "a topic", ask(TOPIC))
    compare.add(ApiKey.METADATA, "no topics", ask(), since=1)
    compare.add(ApiKey.METADATA, "twice the same", ask(TOPIC, TOPIC))
    compare.add(ApiKey.METADATA, "missing", ask(MISSING, allow_auto_topic_creation=False), since=4)
    for name in ("", "..", "a b", "x" * 250):
        compare.add(ApiKey.METADATA, f"the name {name[:5]!r}", ask(name))
    compare.add(
        ApiKey.METADATA,
        "with operations",
        ask(TOPIC, include_topic_authorized_operations=True),
        since=8,
    )
    compare.add(ApiKey.METADATA, "by id", by_id(TOPIC), since=12)
    compare.add(ApiKey.METADATA, "by an id that is missing", by_id(MISSING), since=12)
    operations = {"include_cluster_authorized_operations": True}
    compare.add(
        ApiKey.METADATA, "with those of the cluster", ask(TOPIC, **operations), since=8, until=10
    )
