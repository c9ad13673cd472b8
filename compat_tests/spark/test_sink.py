"""What Spark writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from compat_tests.spark.rows import Reader

PATIENCE = {"kafka.max.block.ms": "10000"}


def write(reader: Reader, rows: list[tuple[object, ...]], schema: str, **asked: object) -> None:
    table = reader.spark.createDataFrame(rows, schema)
    table.write.format("kafka").options(**reader.options(dict(asked))).save()


def test_keys_and_values_are_written(reader: Reader) -> None:
    topic = reader.topics.create("sink")
    rows = [("k", "v"), (None, "w"), ("gone", None)]
    table = reader.spark.createDataFrame(rows, "key string, value string").coalesce(1)
    table.write.format("kafka").options(**reader.options({"topic": topic})).save()
    found = [(message.key(), message.value()) for message in reader.topics.read(topic)]
    assert found == [(b"k", b"v"), (None, b"w"), (b"gone", None)]


def test_headers_are_written(reader: Reader) -> None:
    topic = reader.topics.create("sink")
    schema = "value string, headers array<struct<key:string,value:binary>>"
    headers = [("a", b"1"), ("a", b"2"), ("n", None)]
    write(reader, [("v", headers)], schema, topic=topic, includeHeaders=True)
    [message] = reader.topics.read(topic)
    assert message.headers() == headers


def test_a_column_names_the_partition(reader: Reader) -> None:
    topic = reader.topics.create("sink", partitions=3)
    rows: list[tuple[object, ...]] = [(str(number), number % 3) for number in range(9)]
    write(reader, rows, "value string, partition int", topic=topic)
    for partition in range(3):
        found = {message.value() for message in reader.topics.read(topic, partition)}
        assert found == {b"%d" % number for number in range(partition, 9, 3)}


def test_a_column_names_the_topic(reader: Reader) -> None:
    first, second = reader.topics.create("sink"), reader.topics.create("sink")
    write(reader, [(first, "1"), (second, "2")], "topic string, value string")
    assert [message.value() for message in reader.topics.read(first)] == [b"1"]
    assert [message.value() for message in reader.topics.read(second)] == [b"2"]


def test_keys_go_where_javas_partitioner_puts_them(reader: Reader) -> None:
    first = reader.topics.create("sink", partitions=5)
    rows: list[tuple[object, ...]] = [(f"key-{number}", "v") for number in range(50)]
    write(reader, rows, "key string, value string", topic=first)
    write(reader, rows, "key string, value string", topic=first)
    for partition in range(5):
        keys = [message.key() for message in reader.topics.read(first, partition)]
        assert sorted(keys) == sorted([*set(keys)] * 2)  # type: ignore[type-var]


def test_a_topic_that_is_not_there_is_made(reader: Reader) -> None:
    topic = reader.topics.create("sink") + "-made"
    write(reader, [("v",)], "value string", topic=topic)
    assert [message.value() for message in reader.topics.read(topic)] == [b"v"]


def test_a_partition_that_is_not_there_is_an_error(reader: Reader) -> None:
    topic = reader.topics.create("sink")
    with pytest.raises(Exception, match="not present in metadata"):
        write(reader, [("v", 7)], "value string, partition int", topic=topic, **PATIENCE)
    assert reader.topics.read(topic) == []


def test_a_value_that_is_too_large_is_an_error(reader: Reader) -> None:
    topic = reader.topics.create("sink", configs={"max.message.bytes": "1000"})
    with pytest.raises(Exception, match=r"larger than the max message size|RecordTooLarge"):
        write(reader, [("v" * 5_000,)], "value string", topic=topic)


def test_a_stream_is_written_once_and_goes_on(reader: Reader, tmp_path: Path) -> None:
    source, copy = reader.topics.create("source"), reader.topics.create("copy")

    def run() -> list[bytes | str | None]:
        stream = reader.stream(subscribe=source, startingOffsets="earliest", includeHeaders=True)
        options = reader.options({"topic": copy, "checkpointLocation": tmp_path / "checkpoint"})
        query = (
            stream.select("key", "value", "headers")
            .writeStream.format("kafka")
            .options(**options)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return [message.value() for message in reader.topics.read(copy)]

    reader.topics.write(source, range(3), key=b"k", headers=[("h", b"1")])
    assert run() == [b"0", b"1", b"2"]
    reader.topics.write(source, [3])
    assert run() == [b"0", b"1", b"2", b"3"]
    assert [message.headers() for message in reader.topics.read(copy)][:1] == [[("h", b"1")]]
