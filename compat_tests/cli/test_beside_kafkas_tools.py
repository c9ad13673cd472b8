"""What our commands write, Kafka's tools read, and what both tell of a file is the same."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from compat_tests.cli.sides import Side
from compat_tests.kafka.jars import java_command, run_java
from tests.cli.commands import pyk

Both = tuple[Side, Side]
TOOLS = "org.apache.kafka.tools"
KEYS = [f"key-{number}" for number in range(200)] + ["", "ä", "x" * 300]
COUNTED = {
    "baseOffset": "base_offset",
    "lastOffset": "last_offset",
    "count": "count",
    "baseSequence": "base_sequence",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "partitionLeaderEpoch": "leader_epoch",
    "position": "position",
    "size": "size",
}


def consumed_by_java(side: Side, topic: str, *options: str) -> list[str]:
    shown = ("timestamp", "partition", "offset", "key", "headers")
    properties = [word for each in shown for word in ("--formatter-property", f"print.{each}=true")]
    found = run_java(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", side.address, "--topic", topic, "--partition", "0"),
        *("--offset", "earliest", "--timeout-ms", "60000", *properties, *options),
    )
    return [line for line in found.splitlines() if "CreateTime" in line]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_javas_consumer_reads_what_produce_sends(both: Both, codec: str) -> None:
    for side in both:
        name = f"for-java-{codec}"
        # The records are of 1970, and retention may look for such at any moment.
        side.pyk("topic", "create", name, "-c", "retention.ms=-1")
        options = ("-f", r"%T %k:%v\n", "-H", "a=1", "-H", "b=2", "-z", codec)
        assert side.pyk("produce", name, *options, stdin=b"5 k1:v1\n6 k2:\n7 :v3\n").code == 0
        lines = consumed_by_java(side, name, "--max-messages", "3")
        assert [line.split("\t") for line in lines] == [
            ["CreateTime:5", "Partition:0", "Offset:0", "a:1,b:2", "k1", "v1"],
            ["CreateTime:6", "Partition:0", "Offset:1", "a:1,b:2", "k2", ""],
            ["CreateTime:7", "Partition:0", "Offset:2", "a:1,b:2", "", "v3"],
        ]


def test_keys_go_where_javas_producer_sends_them(both: Both) -> None:
    for side in both:
        side.pyk("topic", "create", "by-java", "by-us", "-p", "7")
        lines = "".join(f"{key}:v\n" for key in KEYS).encode()
        produce_with_java(side, "by-java", lines)
        assert side.pyk("produce", "by-us", "-K", ":", stdin=lines).code == 0
        template = ("-e", "-f", r"%p %k\n")
        placed = [
            sorted(side.pyk("consume", name, *template).lines) for name in ("by-java", "by-us")
        ]
        assert len(placed[0]) == len(KEYS)
        assert placed[1] == placed[0]


def produce_with_java(side: Side, topic: str, lines: bytes) -> None:

    where = ("--bootstrap-server", side.address, "--topic", topic)
    reader = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    command = java_command(f"{TOOLS}.ConsoleProducer", *where, *reader)
    subprocess.run(command, input=lines, check=True, timeout=120, capture_output=True)


def dumped_by_java(file: Path, *options: str) -> list[str]:
    found = run_java(f"{TOOLS}.DumpLogSegments", "--files", str(file), *options)
    return found.splitlines()


def dumped_by_us(file: Path, *options: str) -> list[dict[str, Any]]:
    done = pyk("log", "dump", str(file), "--format", "json", *options)
    return [json.loads(line) for line in done.lines]


def fields(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+): (\S+)", line))


def compare_batches(file: Path) -> int:
    """How many batches both tell the same of."""
    theirs = [line for line in dumped_by_java(file) if line.startswith("baseOffset")]
    ours = dumped_by_us(file)
    assert len(theirs) == len(ours)
    for line, batch in zip(theirs, ours, strict=True):
        told = fields(line)
        assert {name: int(told[name]) for name in COUNTED} == {
            name: batch[of] for name, of in COUNTED.items()
        }
        assert told["compresscodec"] == batch["compression"]
        assert told["isvalid"] == str(batch["valid"]).lower()
        assert (told["isTransactional"] == "true") == ("transactional" in batch["flags"])
        assert (told["isControl"] == "true") == ("control" in batch["flags"])
        assert int(told["CreateTime"]) == batch["max_timestamp"]
    return len(ours)


def write_transactions(side: Side, topic: str) -> None:
    producer = Producer({"bootstrap.servers": side.address, "transactional.id": topic})
    producer.init_transactions()
    for number in range(6):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, f"{number}".encode(), partition=0)
        producer.flush()
        if number % 2:
            producer.commit_transaction()
        else:
            producer.abort_transaction()


def committed(side: Side, topic: str) -> list[str]:
    """As librdkafka sees it."""
    consumer = Consumer(
        {
            "bootstrap.servers": side.address,
            "group.id": "judge",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )

    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if error := message.error():
            assert error.code() == KafkaError._PARTITION_EOF
            break
        values.append((message.value() or b"").decode())
    consumer.close()
    return values


def test_transactions_are_read_and_dumped_as_others_do(both: Both) -> None:
    kafka, _ = both
    kafka.pyk("topic", "create", "transactions")
    write_transactions(kafka, "transactions")
    template = ("-e", "-f", r"%v\n")
    seen = kafka.pyk("consume", "transactions", *template, "--isolation", "read_committed").lines
    assert seen == committed(kafka, "transactions")
    assert seen == [str(number) for number in (1, 3, 5) for _ in range(3)]
    everything = kafka.pyk("consume", "transactions", *template).lines
    assert everything == [str(number) for number in range(6) for _ in range(3)]
    directory = kafka.data_dir / "transactions-0"
    assert compare_batches(directory / f"{0:020}.log") == 12
    ended = [
        record["control"]
        for batch in dumped_by_us(directory / f"{0:020}.log", "--records")
        for record in batch["records"]
        if "control" in record
    ]
    assert ended == ["ABORT", "COMMIT"] * 3
    theirs = [
        fields(line)
        for line in dumped_by_java(directory / f"{0:020}.txnindex")
        if "producerId" in line
    ]
    ours = dumped_by_us(directory / f"{0:020}.txnindex")
    names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
    own = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    assert [[int(each[n]) for n in names] for each in theirs] == [
        [each[n] for n in own] for each in ours
    ]
    assert len(ours) == 3


def test_segments_and_indexes_are_dumped_as_kafka_dumps_them(both: Both) -> None:
    for side in both:
        side.pyk("topic", "create", "segments", "-c", "segment.bytes=1048576")
        lines = b"".join(b"%d" % number * 20 + b"\n" for number in range(30_000))
        for codec in ("none", "lz4"):
            side.pyk("produce", "segments", "-z", codec, "-k", "k", stdin=lines)
        directory = side.data_dir / "segments-0"
        logs = sorted(directory.glob("*.log"))
        assert len(logs) > 2
        assert sum(map(compare_batches, logs)) > 10
        first = directory / f"{0:020}"
        # pyk writes an index when its segment is flushed: what is there by then is all the same.
        count = compare_entries(first.with_suffix(".index"), ("offset", "position"))
        count += compare_entries(first.with_suffix(".timeindex"), ("timestamp", "offset"))
        assert count or side.name == "pyk"
        snapshot = min(directory.glob("*.snapshot"))
        theirs = [fields(line) for line in dumped_by_java(snapshot) if "producerId" in line]
        ours = dumped_by_us(snapshot)
        assert [int(each["producerId"]) for each in theirs] == [
            each["producer_id"] for each in ours
        ]
        assert [int(each["lastSequence"]) for each in theirs if "lastSequence" in each] == [
            each["last_sequence"] for each in ours
        ]


def compare_entries(file: Path, names: Sequence[str]) -> int:
    """How many entries both tell the same of."""
    lines = [fields(line) for line in dumped_by_java(file)]
    theirs = [[int(each[name]) for name in names] for each in lines if names[0] in each]
    ours = [[each[name] for name in names] for each in dumped_by_us(file)]
    # Kafka's tool prints the zeros at the end of an index as entries, once.
    assert [each for each in theirs if each[0]] == ours
    return len(ours)


def test_records_are_dumped_as_kafka_dumps_them(both: Both) -> None:
    for side in both:
        side.pyk("topic", "create", "records", "-c", "retention.ms=-1")
        side.pyk("produce", "records", "-f", r"%T %k:%v\n", stdin=b"5 a:1\n6 b:2\n")
        side.pyk("produce", "records", "-z", "gzip", "-Z", "-k", "c", stdin=b"3\n\n")
        file = side.data_dir / "records-0" / f"{0:020}.log"
        lines = [line for line in dumped_by_java(file, "--print-data-log") if line.startswith("|")]
        theirs = []
        for line in lines:
            told = fields(line)
            size = int(told["valueSize"])
            theirs.append((int(told["offset"]), told.get("key"), told.get("payload"), size))
        ours = [
            (
                record["offset"],
                record["key"],
                record["value"],
                -1 if record["value"] is None else len(record["value"]),
            )
            for batch in dumped_by_us(file, "--records")
            for record in batch["records"]
        ]
        assert ours == theirs
