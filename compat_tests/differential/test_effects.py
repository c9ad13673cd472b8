"""What follows from a change: of records, of topics, of partitions, of configurations."""

from __future__ import annotations

from collections.abc import Sequence

from compat_tests.differential.comparison import Comparison, Listed, Make, comparing, versions
from compat_tests.differential.listed import SAYS_WHY, WHY_IT_IS_REFUSED
from compat_tests.differential.requests import NOW, a_batch, fetch, list_offsets, produce, wanted
from compat_tests.differential.sides import Side, Sides
from pyk.wire.apis import ApiKey
from pyk.wire.compression import Compression
from pyk.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from pyk.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pyk.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pyk.wire.messages.list_offsets import ListOffsetsPartition
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyk.wire.records import Record, build_batch

PRODUCE, FETCH, LIST = ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS
DELETE, FORGET = ApiKey.DELETE_TOPICS, ApiKey.DELETE_RECORDS
METADATA, EXTEND = ApiKey.METADATA, ApiKey.CREATE_PARTITIONS
EARLIEST, LATEST = -2, -1


def forget(*topics: tuple[str, Sequence[tuple[int, int]]], timeout_ms: int = 30_000) -> Make:
    request = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=offset)
                    for index, offset in partitions
                ],
            )
            for name, partitions in topics
        ],
        timeout_ms=timeout_ms,
    )
    return lambda version, side: request


def offset_at(timestamp: int, topic: str) -> Make:
    return list_offsets(ListOffsetsPartition(partition_index=0, timestamp=timestamp), topic=topic)


FORGOTTEN_DIFFERENTLY = {
    "the latest time of what is deleted": Listed(
        "LIST_OFFSETS v7 at -3",
        "",
        "Kafka names a record of the segment, deleted or not. Here it is one that can be read.",
    ),
}


@comparing("DELETE_RECORDS", FORGOTTEN_DIFFERENTLY, ["topics", "partitions"])
def test_records_are_deleted_alike(compare: Comparison, sides: Sides) -> None:
    sides.create(*[f"shrinking-{version}" for version in versions(FORGET)])
    sides.create("compacted", cleanup_policy="compact")
    sides.create("both-ways", cleanup_policy="compact,delete")
    for topic in ("both-ways", *(f"shrinking-{version}" for version in versions(FORGET))):
        for _ in range(3):
            compare.ask(PRODUCE, 12, "three batches of four", produce(a_batch(4), topic=topic))
    for version in versions(FORGET):
        topic = f"shrinking-{version}"
        for offset in (0, 3, 3, 1, 4, -2, -9, 99, 13, 12):
            case = f"below {offset}"
            compare.ask(FORGET, version, case, forget((topic, [(0, offset)])))
            for at in (0, 2, 3, 4, 11, 12):
                compare.ask(FETCH, 12, f"from {at}, {case}", fetch(wanted(0, at), topic=topic))
            for time in (EARLIEST, LATEST, -3, NOW, NOW + 3):
                compare.ask(LIST, 7, f"at {time}, {case}", offset_at(time, topic))
        compare.ask(PRODUCE, 12, "one more", produce(a_batch(2), topic=topic))
        compare.ask(FORGET, version, "all", forget((topic, [(0, -1)])))
        compare.ask(FETCH, 12, "the end", fetch(wanted(0, 14), topic=topic))
        compare.ask(PRODUCE, 12, "the next", produce(a_batch(2), topic=topic))
        compare.ask(FETCH, 12, "after the end", fetch(wanted(0, 14), topic=topic))
    compare.add(FORGET, "nothing", forget())
    compare.add(FORGET, "no partitions", forget(("both-ways", [])))
    compare.add(FORGET, "of a compacted topic", forget(("compacted", [(0, 0)])))
    compare.add(FORGET, "of one that is both", forget(("both-ways", [(0, 2)])))
    compare.add(FORGET, "a partition that is missing", forget(("both-ways", [(7, 0), (-1, 0)])))
    compare.add(FORGET, "a topic that is missing", forget(("missing", [(0, 0)])))
    compare.add(FORGET, "bad names", forget(("", [(0, 0)]), ("a b", [(0, 0)])))
    compare.add(FORGET, "the same twice", forget(("both-ways", [(0, 3), (0, 4)])))
    compare.add(FORGET, "the same topic twice", forget(*[("both-ways", [(0, 4)])] * 2))
    for timeout_ms in (0, -1):
        asked = forget(("both-ways", [(0, 4)]), timeout_ms=timeout_ms)
        compare.add(FORGET, f"within {timeout_ms} ms", asked)


@comparing("topics that are made anew", {SAYS_WHY: WHY_IT_IS_REFUSED})
def test_topics_are_made_anew_alike(compare: Comparison, sides: Sides) -> None:
    sides.create("reborn")
    compare.ask(PRODUCE, 12, "before", produce(a_batch(5), topic="reborn"))

    def delete(version: int, side: Side) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topics=[DeleteTopicState(name="reborn")], timeout_ms=30_000)

    def by_id(called: str) -> Make:
        def make(version: int, side: Side) -> MetadataRequest:
            asked = MetadataRequestTopic(name=None, topic_id=side.id_of(called))
            return MetadataRequest(topics=[asked], allow_auto_topic_creation=False)

        return make

    def by_name(version: int, side: Side) -> MetadataRequest:
        asked = MetadataRequestTopic(name="reborn")
        return MetadataRequest(topics=[asked], allow_auto_topic_creation=False)

    def look(when: str, called: str) -> None:
        compare.add(PRODUCE, f"{when}, {called}", produce(a_batch(2), topic=called), since=13)
        compare.add(FETCH, f"{when}, {called}", fetch(wanted(), topic=called), since=13)
        compare.add(METADATA, f"{when}, {called}", by_id(called), since=12)

    compare.ask(DELETE, 6, "delete it", delete)
    sides.settle()
    compare.add(METADATA, "gone", by_name, since=4)
    compare.add(FETCH, "gone", fetch(wanted(), topic="reborn"))
    compare.add(LIST, "gone", offset_at(LATEST, "reborn"))
    look("gone", "reborn")
    sides.each(lambda side: side.create("reborn", called="the new one"))
    sides.settle()
    compare.add(METADATA, "back", by_name, since=4)
    compare.add(LIST, "back", offset_at(LATEST, "reborn"))
    compare.add(FETCH, "back", fetch(wanted(), topic="reborn"), until=12)
    look("back", "reborn")
    look("back", "the new one")


@comparing("partitions that are added", {SAYS_WHY: WHY_IT_IS_REFUSED}, ["partitions"])
def test_added_partitions_serve_alike(compare: Comparison, sides: Sides) -> None:
    sides.create("added")

    def ask(version: int, side: Side) -> MetadataRequest:
        return MetadataRequest(topics=[MetadataRequestTopic(name="added")])

    def extend(version: int, side: Side) -> CreatePartitionsRequest:
        wanted = CreatePartitionsTopic(name="added", count=3, assignments=None)
        return CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000, validate_only=False)

    compare.ask(PRODUCE, 12, "before", produce(a_batch(2), topic="added", first=2))
    compare.ask(FETCH, 12, "before", fetch(wanted(2), topic="added"))
    compare.ask(EXTEND, 3, "two more", extend)
    sides.settle()
    compare.add(METADATA, "after", ask)
    compare.add(FETCH, "after, empty", fetch(wanted(2), topic="added"))
    compare.add(PRODUCE, "after", produce(a_batch(2), topic="added", first=2))
    compare.add(FETCH, "after, with records", fetch(wanted(2, 2), topic="added"))


STAMPED_DIFFERENTLY = {
    SAYS_WHY: WHY_IT_IS_REFUSED,
    "the broker's own time": Listed(
        "stamped", r"log_append_time_ms|\.records", "The two clocks tell other milliseconds."
    ),
}


def keyed(key: bytes | None) -> bytes:
    return build_batch([Record(0, NOW, key, b"value" * 100)])


@comparing("configurations that producers notice", STAMPED_DIFFERENTLY)
def test_producers_notice_configurations_alike(compare: Comparison, sides: Sides) -> None:
    sides.create("changing")

    def add(case: str, *batches: bytes) -> None:
        for number, batch in enumerate(batches):
            asked = produce(batch, topic="changing")
            compare.add(PRODUCE, f"{case}, batch {number}", asked)

    def configure(**values: str) -> None:
        sides.each(lambda side: side.configure("changing", **values))
        sides.settle()

    add("plain", a_batch(2), keyed(None))
    configure(max_message_bytes="200")
    add("small", a_batch(1, 100), a_batch(1, 200), keyed(b"k"), a_batch(3, 60))
    configure(max_message_bytes="0")
    add("none", a_batch(1))
    configure(max_message_bytes="1000000")
    add("large again", a_batch(1, 200))
    configure(cleanup_policy="compact")
    add("compacted", keyed(None), keyed(b"k"), a_batch(3))
    mixed = build_batch([Record(i, NOW, key, b"") for i, key in enumerate((b"k", None, b"j"))])
    add("compacted, one of three", mixed)
    configure(cleanup_policy="delete")
    add("not compacted any more", keyed(None))
    configure(message_timestamp_before_max_ms="1000")
    add("old", a_batch(2))
    configure(message_timestamp_before_max_ms=str(2**62))
    configure(message_timestamp_type="LogAppendTime")
    add("stamped", a_batch(2), build_batch([Record(0, 2**50, None, b"")]))
    configure(message_timestamp_type="CreateTime")
    add("not stamped", a_batch(2))


@comparing("codecs that the broker is configured with")
def test_configured_codecs_are_used_alike(compare: Comparison, sides: Sides) -> None:
    codecs = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")
    for codec in codecs:
        sides.create(f"codec-{codec}", compression_type=codec)
    for codec in codecs:
        topic = f"codec-{codec}"
        for sent in Compression:
            batch = build_batch([Record(0, NOW, b"k", b"value" * 100)], compression=sent)
            compare.ask(PRODUCE, 12, f"{sent.name} to {codec}", produce(batch, topic=topic))
