"""How many tasks read a topic, whatever its partitions are."""

from __future__ import annotations

from compat_tests.spark.rows import Reader, texts, values

RECORDS = 2_000


def sizes(table: object) -> list[int]:
    """How many rows each task has read."""
    counted = table.selectExpr("spark_partition_id() AS task").groupBy("task").count()  # type: ignore[attr-defined]
    return sorted(row["count"] for row in counted.collect())


def test_a_partition_is_read_by_as_many_tasks_as_are_asked_for(reader: Reader) -> None:
    topic = reader.topics.create("split")
    reader.topics.write(topic, range(RECORDS))
    table = reader.table(subscribe=topic, minPartitions=8)
    # Ranges begin in the middle of batches, where each reader skips what is not its own.
    assert values(table) == texts(range(RECORDS))
    assert sizes(table) == [RECORDS // 8] * 8


def test_a_stream_is_split_likewise(reader: Reader) -> None:
    topic = reader.topics.create("split", partitions=2)
    reader.topics.write(topic, range(RECORDS))
    stream = reader.stream(subscribe=topic, startingOffsets="earliest", minPartitions=6)
    with reader.begin(stream) as found:
        assert found.values() == texts(range(RECORDS))
