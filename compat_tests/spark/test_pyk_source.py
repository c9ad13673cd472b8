"""Spark reads a data directory itself: the rows are those of its Kafka source and a broker."""

from __future__ import annotations

import shutil
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from pyk.disk import RealDisk
from pyk.log.checkpoints import CLEANER_OFFSETS, read_offsets
from pyk.spark import kafka_options
from pyk.spark.bounds import Interval
from pyk.spark.columns import TIMESTAMP_MS_MAX, Columns, Rows
from pyk.spark.splits import Found
from pyk.testing import SubprocessBroker, serve_in_subprocess
from pyk.types import TopicPartition
from pyk.wire.batch import HEADER_BYTES, iterate_batches, read_header
from pyk.wire.records import Record, build_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEGAN = 1_700_000_000_000
WAIT = 60.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL = {"segment.index.bytes": "60", "index.interval.bytes": "512", "retention.ms": "-1"}
"""Segments of some kilobytes: their indexes are full then. The records are some years old."""


def producer_for(broker: SubprocessBroker, **more: Any) -> Producer:
    settings = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, **more}
    return Producer(settings)


def produce(producer: Producer, topic: str, count: int, *, partitions: int = 1) -> None:
    failed: list[object] = []
    for i in range(count):
        headers: Any = [("twice", b"%d" % i), ("twice", None)] if i % 3 == 0 else None
        producer.produce(
            topic,
            key=None if i % 7 == 0 and topic != "compacted" else b"k%d" % (i % 20),
            value=None if i % 11 == 0 else b"%d:" % i + b"v" * (i % 150),
            headers=headers,
            timestamp=BEGAN + 1000 * i - (i % 3 == 0) * 5000,
            partition=i % partitions,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        if i % 9 == 0:
            producer.flush(WAIT)
    assert producer.flush(WAIT) == 0
    assert not failed


@pytest.fixture(scope="module")
def filled(broker: SubprocessBroker) -> SubprocessBroker:
    """Topics with all there is: codecs, headers, transactions, append times, gaps."""
    broker.create_topic("codecs", 2, SMALL)
    for codec in CODECS:
        produce(
            producer_for(broker, **{"compression.type": codec, "linger.ms": 5}),
            "codecs",
            200,
            partitions=2,
        )
    appended = SMALL | {"message.timestamp.type": "LogAppendTime"}
    broker.create_topic("appended", 1, appended)
    produce(producer_for(broker), "appended", 100)
    broker.create_topic("transactions", 1, SMALL)
    fill_transactions(broker)
    compacted = SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    broker.create_topic("compacted", 1, compacted)
    produce(producer_for(broker, **{"compression.type": "lz4"}), "compacted", 1200)
    wait_until_compacted(broker)
    return broker


def fill_transactions(broker: SubprocessBroker) -> None:
    first, second = (
        producer_for(broker, **{"transactional.id": name, "transaction.timeout.ms": 600_000})
        for name in ("first", "second")
    )
    for producer in (first, second):
        producer.init_transactions(WAIT)
    for turn in range(12):
        second.begin_transaction()
        first.begin_transaction()
        produce(second, "transactions", 30)
        produce(first, "transactions", 40)
        (first.abort_transaction if turn % 3 else first.commit_transaction)(WAIT)
        (second.abort_transaction if turn % 4 == 0 else second.commit_transaction)(WAIT)
    second.begin_transaction()
    produce(second, "transactions", 5)
    produce(producer_for(broker), "transactions", 5)


def wait_until_compacted(broker: SubprocessBroker) -> None:
    """All of it, so that nothing more goes while it is compared."""
    deadline = time.monotonic() + WAIT
    partition, checkpoint = TopicPartition("compacted", 0), broker.data_dir / CLEANER_OFFSETS
    while read_offsets(RealDisk(), checkpoint).get(partition, 0) < max(
        int(path.stem) for path in segments(broker.data_dir, "compacted-0")
    ):
        assert time.monotonic() < deadline, "it was not compacted"
        time.sleep(0.1)


def stored(spark: SparkSession, root: Path | str, **options: str) -> DataFrame:
    return spark.read.format("pyk").options(**options).load(str(root))


def served(spark: SparkSession, broker: SubprocessBroker, **options: str) -> DataFrame:
    committed = options.pop("isolation", "read_committed") == "read_committed"
    about = kafka_options(broker.bootstrap_servers, committed=committed)
    return spark.read.format("kafka").options(**about, **options).load()


def rows(frame: DataFrame) -> list[Any]:
    """In an order that does not depend on tasks."""
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "codecs,appended"},
        {"subscribe": "transactions"},
        {"subscribe": "transactions", "isolation": "read_uncommitted"},
        {"subscribe": "compacted"},
        {"subscribePattern": "t"},
        {
            "assign": '{"codecs": [1]}',
            "startingOffsets": '{"codecs": {"1": 111}}',
            "endingOffsets": '{"codecs": {"1": 222}}',
        },
        {
            "subscribe": "codecs",
            "startingTimestamp": str(BEGAN + 50_000),
            "endingTimestamp": str(BEGAN + 150_000),
        },
    ],
    ids=lambda options: " ".join(options.values())[:60],
)
def test_the_rows_are_those_of_the_kafka_source(
    spark: SparkSession, filled: SubprocessBroker, options: dict[str, str]
) -> None:
    options = options | {"includeHeaders": "true"}
    theirs = served(spark, filled, **options)
    ours = stored(spark, filled.data_dir, **options, minPartitions="5")
    assert ours.schema == theirs.schema
    expected = rows(theirs)
    assert len(expected) > 15
    assert rows(ours) == expected


@pytest.fixture
def stopped(filled: SubprocessBroker, tmp_path: Path) -> Path:
    """A copy of the data, as a stopped broker leaves it, to be damaged."""
    filled.stop()
    shutil.copytree(filled.data_dir, tmp_path / "data")
    filled.start()
    return tmp_path / "data"


def segments(root: Path, partition: str) -> list[Path]:
    return sorted((root / partition).glob("*.log"))


def has_pushdown() -> bool:
    """Since Spark 4.1 sources are told of conditions."""
    from pyspark.sql import datasource

    return hasattr(datasource, "Filter")


def break_starts(paths: list[Path]) -> None:
    """Whoever reads them from the start fails. What the indexes point at stays."""
    for path in paths:
        data = bytearray(path.read_bytes())
        data[:HEADER_BYTES] = bytes(HEADER_BYTES)
        path.write_bytes(data)


def test_bounds_keep_from_reading_what_is_outside_of_them(
    spark: SparkSession, stopped: Path
) -> None:
    files = segments(stopped, "codecs-0")
    start, end = int(files[2].stem), int(files[3].stem)
    break_starts([*files[:2], *files[3:-1]])
    everything = stored(spark, stopped, assign='{"codecs": [0]}')
    with pytest.raises(Exception, match="is damaged at 0"):
        everything.collect()
    by_option = stored(
        spark,
        stopped,
        assign='{"codecs": [0]}',
        startingOffsets=f'{{"codecs": {{"0": {start}}}}}',
        endingOffsets=f'{{"codecs": {{"0": {end}}}}}',
    )
    assert [row.offset for row in rows(by_option)] == list(range(start, end))
    if has_pushdown():
        where = f"topic = 'codecs' AND partition = 0 AND offset >= {start} AND offset < {end}"
        pushed = stored(spark, stopped, assign='{"codecs": [0]}', pushdown="true").where(where)
        assert [row.offset for row in rows(pushed)] == list(range(start, end))


def test_conditions_on_topic_partition_and_time_keep_from_reading(
    spark: SparkSession, stopped: Path
) -> None:
    def queried(where: str) -> list[Any]:
        # Once for each load: Spark keeps what it planned.
        loaded = stored(spark, stopped, subscribePattern=".*", pushdown="true")
        return rows(loaded.where(where))

    first = "topic IN ('codecs', 'appended') AND partition = 0"
    expected = queried(first)
    newest = max(row.timestamp for row in expected if row.topic == "appended")
    late = f"topic = 'appended' AND timestamp >= timestamp'{newest}'"
    assert {row.timestamp for row in queried(late)} == {newest}
    break_starts([*segments(stopped, "codecs-1"), *segments(stopped, "compacted-0")])
    with pytest.raises(Exception, match="is damaged at 0"):
        queried("offset >= 0")
    if has_pushdown():
        assert queried(first) == expected
        break_starts(segments(stopped, "appended-0")[:-1])
        assert {row.timestamp for row in queried(late)} == {newest}
        with pytest.raises(Exception, match="is damaged at 0"):
            queried(first)


def test_a_query_does_not_narrow_those_after_it(
    spark: SparkSession, filled: SubprocessBroker
) -> None:
    loaded = stored(spark, filled.data_dir, subscribe="codecs")
    count = loaded.count()
    assert 0 < loaded.where("partition = 0 AND offset < 10").count() == 10
    assert loaded.count() == count


def test_a_topic_is_read_by_as_many_tasks_as_are_asked_for(
    spark: SparkSession, filled: SubprocessBroker
) -> None:
    one = stored(spark, filled.data_dir, subscribe="transactions")
    assert one.rdd.getNumPartitions() == 1
    many = stored(spark, filled.data_dir, subscribe="transactions", minPartitions="12")
    assert 12 <= many.rdd.getNumPartitions() <= 2 * 12 + 1, (
        "two that are neighbours are more than one"
    )
    assert rows(many) == rows(one)


def test_damage_fails_the_query_or_is_skipped(spark: SparkSession, stopped: Path) -> None:
    path = segments(stopped, "codecs-0")[1]
    whole = rows(stored(spark, stopped, subscribe="codecs"))
    data = bytearray(path.read_bytes())
    position, header = list(iterate_batches(data, torn_tail_allowed=False))[2]
    data[position + 70] ^= 1
    path.write_bytes(data)
    with pytest.raises(Exception, match=f"{path.name} is damaged at {position}: the CRC"):
        stored(spark, stopped, subscribe="codecs").collect()
    lost = range(header.base_offset, header.next_offset)
    expected = [row for row in whole if row.partition != 0 or row.offset not in lost]
    assert rows(stored(spark, stopped, subscribe="codecs", damage="skip")) == expected


def test_what_is_wrong_with_options_is_said(spark: SparkSession, filled: SubprocessBroker) -> None:
    root = str(filled.data_dir)
    with pytest.raises(Exception, match="there is no option startingoffset"):
        stored(spark, root, subscribe="codecs", startingOffset="earliest")
    with pytest.raises(Exception, match="has no topic nowhere"):
        stored(spark, root, subscribe="nowhere").collect()
    with pytest.raises(Exception, match="path is to be a data directory"):
        stored(spark, f"{root}/none", subscribe="codecs").collect()
    with pytest.raises(Exception, match="the columns are"):
        spark.read.format("pyk").schema("offset string").load(root, subscribe="codecs").collect()


def arrow(tmp_path: Path, record: Record) -> dict[str, Any]:
    batch = build_batch([record])
    found = Found(tmp_path, 0, read_header(batch), batch, Interval(0, 1))
    columns = Columns(TopicPartition("t", 0), has_headers=True)
    columns.add(Rows(found, has_headers=True))
    (row,) = columns.arrow().to_pylist()
    assert isinstance(row, dict)
    return row


def test_a_record_without_a_time_has_that_of_the_kafka_source(tmp_path: Path) -> None:
    row = arrow(tmp_path, Record(0, -1, None, None, (("\udcff", None),)))
    assert row["timestamp"] == datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)
    assert row["headers"] == [{"key": "\ufffd", "value": None}]
    assert (row["key"], row["value"], row["timestampType"]) == (None, None, 0)


@pytest.mark.parametrize("time", [TIMESTAMP_MS_MAX, -TIMESTAMP_MS_MAX])
def test_the_last_times_that_there_are_fit_into_a_column(time: int) -> None:
    batch = build_batch([Record(0, time, b"k", b"v")])
    found = Found(Path(), 0, read_header(batch), batch, Interval(0, 1))
    columns = Columns(TopicPartition("t", 0), has_headers=False)
    columns.add(Rows(found, has_headers=False))
    (value,) = columns.arrow()["timestamp"]
    assert value.value == time * 1000


def test_what_nobody_has_used_is_read_beside_what_is(spark: SparkSession) -> None:
    with serve_in_subprocess(topics={"used": 4, "unused": 2}) as broker:
        producer = producer_for(broker)
        producer.produce("used", b"v", partition=3)
        assert producer.flush(WAIT) == 0
        root = broker.data_dir
        assert len(rows(stored(spark, root, subscribe="used,unused"))) == 1
        assert rows(stored(spark, root, subscribe="unused")) == []
        assert rows(stored(spark, root, assign='{"used": [0, 1]}')) == []


def test_large_keys_come_in_many_batches_of_rows(spark: SparkSession) -> None:
    with serve_in_subprocess(topics=["keys"]) as broker:
        producer = producer_for(broker, **{"compression.type": "zstd", "linger.ms": 50})
        for _ in range(60):
            producer.produce("keys", None, key=b"k" * 900_000)
        assert producer.flush(WAIT) == 0
        sizes = stored(spark, broker.data_dir, subscribe="keys").selectExpr("length(key) AS size")
        assert [row.size for row in sizes.collect()] == [900_000] * 60
