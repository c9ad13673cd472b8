"""What is in a row."""

from __future__ import annotations

from compat_tests.spark.rows import Reader

MOMENT_MS = 1_700_000_000_123
HEADERS = [("a", b"1"), ("b", None), ("a", b""), ("\N{SNOWMAN}", b"\xff\x00")]


def test_a_row_tells_what_was_sent_and_where_it_is(reader: Reader) -> None:
    topic = reader.topics.create("rows", partitions=2)
    reader.topics.write(topic, [b"\xff\x00v"], partition=1, key=b"k", timestamp=MOMENT_MS)
    table = reader.table(subscribe=topic)
    assert table.columns == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    [row] = table.selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    assert (bytes(row.key), bytes(row.value)) == (b"k", b"\xff\x00v")
    assert (row.topic, row.partition, row.offset) == (topic, 1, 0)
    assert (row.ms, row.timestampType) == (MOMENT_MS, 0)


def test_nulls_and_empty_bytes_are_told_apart(reader: Reader) -> None:
    topic = reader.topics.create("nulls")
    reader.topics.write(topic, [None, b""])
    reader.topics.write(topic, [None, b""], key=b"")
    rows = reader.table(subscribe=topic).orderBy("offset").collect()
    found = [(none_or_bytes(row.key), none_or_bytes(row.value)) for row in rows]
    assert found == [(None, None), (None, b""), (b"", None), (b"", b"")]


def none_or_bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def test_headers_keep_their_order_their_nulls_and_their_doubles(reader: Reader) -> None:
    topic = reader.topics.create("headers")
    reader.topics.write(topic, ["with"], headers=HEADERS)
    reader.topics.write(topic, ["without"])
    rows = reader.table(subscribe=topic, includeHeaders=True).orderBy("offset").collect()
    found = [[(h.key, none_or_bytes(h.value)) for h in row.headers or []] for row in rows]
    assert found == [HEADERS, []]


def test_the_time_may_be_the_brokers(reader: Reader) -> None:
    configs = {"message.timestamp.type": "LogAppendTime"}
    topic = reader.topics.create("appended", configs=configs)
    reader.topics.write(topic, ["v"], timestamp=MOMENT_MS)
    [row] = reader.table(subscribe=topic).selectExpr("*", "unix_millis(timestamp) AS ms").collect()
    assert row.timestampType == 1
    assert row.ms > MOMENT_MS


def test_records_of_every_codec_are_read(reader: Reader) -> None:
    topic = reader.topics.create("codecs")
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    for codec in codecs:
        [line] = [f"{codec} " * 200]
        table = reader.spark.createDataFrame([(line.encode(),)], "value binary")
        options = reader.options({"topic": topic, "kafka.compression.type": codec})
        table.write.format("kafka").options(**options).save()
    assert reader.values(subscribe=topic) == [f"{codec} " * 200 for codec in codecs]


def test_a_megabyte_is_one_row(reader: Reader) -> None:
    topic = reader.topics.create("large")
    large = b"x" * 990_000
    reader.topics.write(topic, [large, b"small"])
    assert reader.values(subscribe=topic) == [large.decode(), "small"]
