"""Queries that go on: triggers, limits, and topics that change under them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.spark.rows import Reader, texts

SECONDS = 60.0


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_is_available_now_is_read_and_nothing_after_it(reader: Reader) -> None:
    topic = reader.topics.create("now", partitions=2)
    reader.topics.write(topic, range(50))
    reader.topics.write(topic, range(50, 100), partition=1)
    stream = reader.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    found = reader.begin(stream, availableNow=True)
    reader.topics.write(topic, ["late"] * 100)
    seen = found.at_its_end()
    # The end is fixed when the query first looks, which may be before or after the late ones.
    assert [text for text in seen if text != "late"] == texts(range(100))
    assert max(found.batches()) <= 30


def test_a_batch_is_no_larger_than_it_may_be(reader: Reader) -> None:
    topic = reader.topics.create("limited", partitions=2)
    reader.topics.write(topic, range(70))
    reader.topics.write(topic, range(70, 100), partition=1)
    stream = reader.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    found = reader.begin(stream, availableNow=True)
    assert found.at_its_end() == texts(range(100))
    assert sum(found.batches()) == 100
    assert max(found.batches()) <= 20


def test_a_batch_waits_for_enough(reader: Reader) -> None:
    topic = reader.topics.create("patient")
    reader.topics.write(topic, range(5))
    stream = reader.stream(
        subscribe=topic,
        startingOffsets="earliest",
        minOffsetsPerTrigger=20,
        maxTriggerDelay="10m",
    )
    with reader.begin(stream) as found:
        # The first batch does not wait, since nothing was read before it.
        assert found.values() == texts(range(5))
        reader.topics.write(topic, range(5, 20))
        wait_until(lambda: len(found.query.recentProgress) > 1)
        assert found.so_far() == texts(range(5))
        reader.topics.write(topic, range(20, 30))
        wait_until(lambda: len(found.so_far()) == 30)


def test_a_query_looks_again_and_again(reader: Reader) -> None:
    topic = reader.topics.create("steady")
    stream = reader.stream(subscribe=topic, startingOffsets="earliest")
    with reader.begin(stream, processingTime="200 milliseconds") as found:
        for number in range(3):
            reader.topics.write(topic, [number])
            wait_until(lambda count=number + 1: len(found.so_far()) == count)  # type: ignore[misc]
        assert found.so_far() == texts(range(3))


def test_a_query_that_was_stopped_goes_on_where_it_was(reader: Reader, tmp_path: Path) -> None:
    topic = reader.topics.create("resumed")
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    def run() -> list[str]:
        stream = reader.stream(subscribe=topic, startingOffsets="earliest")
        writer = stream.selectExpr("CAST(value AS STRING) AS text").writeStream
        query = (
            writer.format("parquet")
            .option("path", out)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return sorted(row.text for row in reader.spark.read.parquet(out).collect())

    reader.topics.write(topic, range(3))
    assert run() == texts(range(3))
    reader.topics.write(topic, range(3, 6))
    assert run() == texts(range(6))
    assert run() == texts(range(6))


def test_partitions_that_are_added_are_read_from_their_beginning(reader: Reader) -> None:
    topic = reader.topics.create("growing")
    reader.topics.write(topic, ["first"])
    with reader.begin(reader.stream(subscribe=topic, startingOffsets="earliest")) as found:
        assert found.values() == ["first"]
        reader.topics.add_partitions(topic, 3)
        reader.topics.write(topic, ["second"], partition=2)
        assert found.values() == ["first", "second"]


def test_records_that_were_deleted_before_they_were_read_are_a_loss(reader: Reader) -> None:
    topic = reader.topics.create("trimmed")
    reader.topics.write(topic, range(5))
    reader.topics.delete_records(topic, before=3)
    begin = f'{{"{topic}": {{"0": 0}}}}'
    with (
        reader.begin(reader.stream(subscribe=topic, startingOffsets=begin)) as found,
        pytest.raises(Exception, match=r"(?i)data.?loss|may have been lost"),
    ):
        found.values()


def test_a_loss_may_be_taken(reader: Reader) -> None:
    topic = reader.topics.create("trimmed")
    reader.topics.write(topic, range(5))
    reader.topics.delete_records(topic, before=3)
    begin = f'{{"{topic}": {{"0": 0}}}}'
    asked = {"subscribe": topic, "startingOffsets": begin, "failOnDataLoss": False}
    assert reader.values(**asked) == texts([3, 4])
    with reader.begin(reader.stream(**asked)) as found:
        assert found.values() == texts([3, 4])


def recreated(reader: Reader, tmp_path: Path, *, fails: bool) -> list[str]:
    """What a query finds which has read five records of a topic, when it goes on with a topic of
    the same name that has two, and then four more."""
    topic = reader.topics.create("recreated")
    reader.topics.write(topic, range(5))

    def stream() -> object:
        found = reader.stream(subscribe=topic, startingOffsets="earliest", failOnDataLoss=fails)
        return (
            found.selectExpr("CAST(value AS STRING) AS text")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )

    def read(query: object) -> None:
        try:
            query.processAllAvailable()  # type: ignore[attr-defined]
        finally:
            query.stop()  # type: ignore[attr-defined]

    read(stream())
    reader.topics.delete(topic)
    reader.topics.create_named(topic)
    reader.topics.write(topic, ["new"] * 2)
    query = stream()
    read(query)
    reader.topics.write(topic, ["newer"] * 4)
    read(stream())
    found = reader.spark.read.parquet(str(tmp_path / "out")).collect()
    return sorted(row.text for row in found)


def test_a_topic_that_is_made_anew_is_a_loss(reader: Reader, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"(?i)data.?loss|may have been lost|offset was changed"):
        recreated(reader, tmp_path, fails=True)


def test_a_topic_that_is_made_anew_may_be_gone_on_with(reader: Reader, tmp_path: Path) -> None:
    found = recreated(reader, tmp_path, fails=False)
    assert [text for text in found if text.isdecimal()] == texts(range(5))
    assert found.count("newer") == 4


def test_a_stream_of_continuous_processing_is_read(reader: Reader) -> None:
    topic = reader.topics.create("continuous")
    stream = reader.stream(subscribe=topic, startingOffsets="earliest")
    with reader.begin(stream, continuous="200 milliseconds") as found:
        reader.topics.write(topic, range(3))
        wait_until(lambda: len(found.so_far()) == 3)
        assert found.so_far() == texts(range(3))
