"""Compacted topics: offsets that are missing are no loss."""

from __future__ import annotations

import json
import time

import pytest

from compat_tests.spark.rows import Reader, values

COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "100",
    "delete.retention.ms": "0",
}
SECONDS = 60.0


@pytest.fixture
def compacted(reader: Reader) -> str:
    """A topic of which the broker has kept every tenth record, which has a key of its own, and the
    last of the others, which have the same."""
    topics = reader.topics
    topic = topics.create("compacted", configs=COMPACTED)
    for number in range(100):
        topics.write(topic, [number], key=b"%d" % number if number % 10 == 0 else b"the same")
    deadline = time.monotonic() + SECONDS
    while len(topics.read(topic)) > 50:
        assert time.monotonic() < deadline, "the broker does not compact"
        # What is still written to is not compacted: a record later than the segment's time ends it.
        topics.write(topic, ["filler"], key=b"filler")
    return topic


def test_a_table_has_what_is_left(reader: Reader, compacted: str) -> None:
    left = reader.topics.read(compacted)
    table = reader.table(subscribe=compacted)
    assert values(table) == [str(message.value(), "utf-8") for message in left]  # type: ignore[arg-type]
    offsets = [row.offset for row in table.select("offset").orderBy("offset").collect()]
    assert offsets == [message.offset() for message in left]
    assert offsets != list(range(offsets[0], offsets[0] + len(offsets))), "there is no gap"


def test_a_range_may_begin_and_end_in_a_gap(reader: Reader, compacted: str) -> None:
    left = {message.offset() for message in reader.topics.read(compacted)}
    first = next(offset for offset in range(100) if offset not in left)
    last = next(offset for offset in range(99, first, -1) if offset not in left)
    found = reader.table(
        subscribe=compacted,
        startingOffsets=json.dumps({compacted: {"0": first}}),
        endingOffsets=json.dumps({compacted: {"0": last}}),
    )
    offsets = {row.offset for row in found.select("offset").collect()}
    assert offsets == {offset for offset in left if offset is not None and first <= offset < last}


def test_tasks_share_what_is_left(reader: Reader, compacted: str) -> None:
    left = [message.offset() for message in reader.topics.read(compacted)]
    found = reader.table(subscribe=compacted, minPartitions=7).select("offset")
    assert sorted(row.offset for row in found.collect()) == left


def test_a_stream_passes_gaps(reader: Reader, compacted: str) -> None:
    left = [str(message.value(), "utf-8") for message in reader.topics.read(compacted)]  # type: ignore[arg-type]
    stream = reader.stream(subscribe=compacted, startingOffsets="earliest", maxOffsetsPerTrigger=9)
    found = reader.begin(stream, availableNow=True)
    assert found.at_its_end() == left
