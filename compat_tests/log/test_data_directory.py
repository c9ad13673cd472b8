"""A data directory changes hands: pyk finds in Kafka's what Kafka served, and the other way."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from compat_tests.kafka.server import KafkaServer, kafka_server, wait_until_it_leads
from pyk.disk import RealDisk
from pyk.log.checkpoints import CLEANER_OFFSETS, read_offsets, write_topic_id
from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.log.producers import Producers
from pyk.log.snapshots import decode_snapshot
from pyk.types import TopicPartition as Partition
from pyk.wire.batch import BatchHeader, iterate_batches
from pyk.wire.compression import Compression
from pyk.wire.records import Record, build_batch, read_records
from tests.log.readers import is_aborted

DISK = RealDisk()
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = [f"codec-{codec}" for codec in CODECS] + ["transactions", "compacted", "deleted"]
EAGER_CLEANER = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "100"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": str(1024**2),
}
BEGAN = 1_700_000_000_000
WAIT = 90.0


@dataclass
class Seen:
    """What Kafka showed its clients of a topic's only partition."""

    records: list[Record] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    """Offsets of what committed readers get."""
    start: int = 0
    end: int = 0
    by_time: dict[int, int] = field(default_factory=dict)


def quiet(server: KafkaServer, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": server.bootstrap_servers, "log_level": 0, **more}


def create_topics(server: KafkaServer) -> None:
    admin = AdminClient(quiet(server))
    topics = [NewTopic(name, 1, 1) for name in TOPICS if name != "compacted"]
    made = admin.create_topics([*topics, NewTopic("compacted", 1, 1, config=COMPACTED)])
    for future in made.values():
        future.result(WAIT)


def produce(producer: Producer, topic: str, count: int, *, keys: int = 50, size: int = 100) -> None:
    for i in range(count):
        # Every third goes back in time.
        timestamp = BEGAN + i * 10 - (i % 3 == 0) * 500
        producer.produce(
            topic,
            key=b"%d" % (i % keys),
            value=None if topic == "compacted" and i % 7 == 0 else b"%d:" % i + os.urandom(size),
            headers=[("number", b"%d" % i), ("none", None)] if i % 5 == 0 else None,
            timestamp=timestamp,
            partition=0,
        )
        producer.poll(0)
        if i % 17 == 0:
            producer.flush(WAIT)
    assert producer.flush(WAIT) == 0


def fill(server: KafkaServer) -> None:
    for codec in CODECS:
        producer = Producer(quiet(server, **{"compression.type": codec, "linger.ms": 20}))
        produce(producer, f"codec-{codec}", 300)
    fill_transactions(server)
    compacting = Producer(quiet(server, **{"compression.type": "lz4", "linger.ms": 5}))
    produce(compacting, "compacted", 900, size=5000)
    produce(Producer(quiet(server)), "deleted", 100)
    admin = AdminClient(quiet(server))
    for future in admin.delete_records([TopicPartition("deleted", 0, 42)]).values():
        future.result(WAIT)


def fill_transactions(server: KafkaServer) -> None:
    first, second = (
        Producer(quiet(server, **{"transactional.id": name, "compression.type": "zstd"}))
        for name in ("first", "second")
    )
    for producer in (first, second):
        producer.init_transactions(WAIT)
    for turn in range(10):
        second.begin_transaction()
        first.begin_transaction()
        produce(second, "transactions", 3)
        produce(first, "transactions", 5)
        (first.abort_transaction if turn % 3 else first.commit_transaction)(WAIT)
        (second.abort_transaction if turn % 4 == 0 else second.commit_transaction)(WAIT)
    # Markers are written some time after a client hears of the end, but before its successor hears
    # of its beginning.
    for name in ("first", "second"):
        Producer(quiet(server, **{"transactional.id": name})).init_transactions(WAIT)


def wait_until_compacted(server: KafkaServer) -> None:
    deadline = time.monotonic() + WAIT
    path = server.data_dir / CLEANER_OFFSETS
    while not read_offsets(DISK, path).get(Partition("compacted", 0)):
        assert time.monotonic() < deadline, "Kafka has not compacted"
        time.sleep(0.1)


def consume(server: KafkaServer, topic: str, isolation: str, end: int) -> Iterator[Message]:
    consumer = Consumer(
        quiet(
            server,
            **{
                "group.id": "reader",
                "isolation.level": isolation,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            },
        )
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        while consumer.position([TopicPartition(topic, 0)])[0].offset < end:
            message = consumer.poll(WAIT)
            assert message is not None
            if message.error() is None:
                yield message
            else:
                break
    finally:
        consumer.close()


def as_record(message: Message) -> Record:
    offset = message.offset()
    assert offset is not None
    headers: Any = tuple(message.headers() or [])
    key: Any = message.key()
    value: Any = message.value()
    return Record(offset, message.timestamp()[1], key, value, headers)


def look(server: KafkaServer, topic: str) -> Seen:
    consumer = Consumer(quiet(server, **{"group.id": "looker"}))
    here = TopicPartition(topic, 0)
    seen = Seen()
    seen.start, seen.end = consumer.get_watermark_offsets(here, timeout=WAIT)
    for timestamp in range(BEGAN - 600, BEGAN + 3_500, 137):
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=WAIT)
        seen.by_time[timestamp] = found.offset
    consumer.close()
    seen.records = [as_record(m) for m in consume(server, topic, "read_uncommitted", seen.end)]
    committed = consume(server, topic, "read_committed", seen.end)
    seen.committed = [as_record(message).offset for message in committed]
    return seen


@dataclass(frozen=True)
class Left:
    """What Kafka left behind, and had shown before."""

    data_dir: Path
    seen: dict[str, Seen]


@pytest.fixture(scope="module", params=["stopped", "killed"])
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Left:
    home = tmp_path_factory.mktemp("kafka")
    with kafka_server(EAGER_CLEANER, home=home) as server:
        create_topics(server)
        fill(server)
        wait_until_compacted(server)
        seen = {topic: look(server, topic) for topic in TOPICS}
        if request.param == "killed":
            os.kill(server.pid, signal.SIGKILL)
    return Left(home / "data", seen)


@pytest.fixture
def opened(left: Left, tmp_path: Path) -> DataDirectory:
    shutil.copytree(left.data_dir, tmp_path / "data")
    return DataDirectory.open(DISK, tmp_path / "data", lambda _: LogConfig())


def batches(log: Log) -> Iterator[tuple[BatchHeader, list[Record]]]:
    offset = log.start_offset
    while (piece := log.read(offset, 1024**2, log.end_offset)) is not None:
        data = piece.records.file.read(piece.records.position, piece.records.size)  # type: ignore[attr-defined]
        for position, header in iterate_batches(data, torn_tail_allowed=False):
            yield header, list(read_records(data, position, header))
        offset = piece.end_offset


def shown(log: Log) -> list[Record]:
    """What a reader of everything gets."""
    found = [r for header, records in batches(log) if not header.is_control for r in records]
    return [record for record in found if record.offset >= log.start_offset]


def committed(log: Log) -> list[int]:
    """What a reader of committed records gets, as clients filter it."""
    offsets: list[int] = []
    aborted = log.aborted(log.start_offset, log.last_stable_offset)
    for header, records in batches(log):
        if not header.is_control and not is_aborted(header, aborted):
            offsets += [record.offset for record in records]
    return [offset for offset in offsets if log.start_offset <= offset < log.last_stable_offset]


@pytest.mark.parametrize("topic", TOPICS)
def test_pyk_finds_in_kafkas_logs_what_kafka_served(
    topic: str, opened: DataDirectory, left: Left
) -> None:
    assert opened.failed == {}
    log, seen = opened.logs[Partition(topic, 0)], left.seen[topic]
    log.advance_high_watermark(log.end_offset)
    if opened.was_clean or topic != "deleted":
        assert log.start_offset == seen.start
    else:
        assert log.start_offset == 0, "a killed Kafka forgets what was deleted a moment ago"
        log.advance_start(seen.start)
    assert log.end_offset == seen.end
    assert shown(log) == seen.records
    assert committed(log) == seen.committed
    for timestamp, offset in seen.by_time.items():
        found = log.find_timestamp(timestamp)
        if topic == "compacted":
            assert offset == -1, "Kafka stops at a first segment that compaction has left empty"
            offset = next(r.offset for r in seen.records if r.timestamp >= timestamp)
        assert (found.offset if found else -1) == offset, timestamp


def test_pyk_knows_of_kafkas_producers_what_kafka_knew(opened: DataDirectory, left: Left) -> None:
    if not opened.was_clean:
        pytest.skip("a killed Kafka has not written down what it knew at the end")
    for topic in TOPICS:
        directory = left.data_dir / f"{topic}-0"
        *_, last = sorted(directory.glob("*.snapshot"))
        theirs = Producers()
        theirs.restore(decode_snapshot(last.read_bytes()))
        ours = opened.logs[Partition(topic, 0)].producers
        assert ours == theirs
        assert len(ours) == (2 if topic == "transactions" else 0)


def test_opening_kafkas_logs_without_its_snapshots_gives_the_same(
    opened: DataDirectory, left: Left, tmp_path: Path
) -> None:
    for topic in TOPICS:
        bare = tmp_path / f"{topic}-0"
        shutil.copytree(left.data_dir / bare.name, bare, ignore=shutil.ignore_patterns("*.snap*"))
        log = opened.logs[Partition(topic, 0)]
        replayed = Log.open(DISK, bare, LogConfig(), high_watermark=log.end_offset)
        for producer in log.producers:
            again = replayed.producers.get(producer.producer_id)
            assert again is not None
            assert (again.epoch, again.last_sequence, again.last_data_offset) == (
                producer.epoch,
                producer.last_sequence,
                producer.last_data_offset,
            )
        assert replayed.epochs.entries == log.epochs.entries


@pytest.mark.parametrize("ending", ["closed", "killed"])
def test_kafka_serves_what_pyk_appended_to_its_logs(ending: str, tmp_path: Path) -> None:
    with kafka_server(home=tmp_path) as server:
        create_topics(server)
        produce(Producer(quiet(server)), "codec-none", 20)
        produce(Producer(quiet(server)), "compacted", 20)
    expected = append_to(tmp_path / "data", is_closed=ending == "closed")
    with kafka_server(home=tmp_path) as server:
        wait_until_it_leads(server)
        for topic, records in expected.items():
            assert look(server, topic).records == records
            produce(Producer(quiet(server)), topic, 5)
            assert len(look(server, topic).records) == len(records) + 5


def append_to(data_dir: Path, *, is_closed: bool) -> dict[str, list[Record]]:
    """What is then in the topics. The directory is free again afterwards, closed or not."""
    directory = DataDirectory.open(DISK, data_dir, config_of)
    expected = {}
    for topic in ("codec-none", "compacted"):
        log = directory.logs[Partition(topic, 0)]
        for number, codec in enumerate(Compression):
            append_some(log, number, codec)
        log.flush()
        expected[topic] = shown(log)
        # As pyk writes it, with a line that Kafka does not know.
        write_topic_id(DISK, log.directory, directory.topic_ids[Partition(topic, 0)])
    if is_closed:
        directory.close()
    else:
        directory.checkpoint()
        directory.let_go()
    return expected


def config_of(topic: str) -> LogConfig:
    if topic == "compacted":
        return LogConfig(cleanup_policy=frozenset({CleanupPolicy.COMPACT}))
    return LogConfig(segment_bytes=3000, index_interval_bytes=300)


def append_some(log: Log, number: int, codec: Compression) -> None:
    latest = log.epochs.latest
    assert latest is not None
    for turn in range(5):
        records = [
            Record(i, BEGAN + 10_000 + i, b"%d" % i, os.urandom(90), (("by", b"pyk"),))
            for i in range(7)
        ]
        batch = build_batch(
            records,
            compression=codec,
            producer_id=7_000 + number,
            producer_epoch=0,
            base_sequence=turn * len(records),
        )
        log.append(bytearray(batch), leader_epoch=latest.epoch, now_ms=BEGAN)
