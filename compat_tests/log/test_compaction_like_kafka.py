"""A real Kafka compacts a log round by round, and pyk makes the same of each copy of it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)
from msgspec.structs import replace

from compat_tests.kafka.server import KafkaServer, kafka_server
from pyk.disk import RealDisk
from pyk.log.producers import Producers
from pyk.log.replay import replay
from pyk.log.segments import Segments
from pyk.log.transactions import AbortedTransaction
from pyk.wire.batch import BatchHeader
from pyk.wire.records import Record, read_records
from tests.log.compacted import CONFIG, Filled, aborted_before, batches

TOPIC = "compacted"
RETENTION_MS = 3_000
PATIENCE = 60.0
LARGE = replace(CONFIG, segment_bytes=10**8, delete_retention_ms=RETENTION_MS)


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, "Kafka has not done it"
        time.sleep(0.05)


class Kafka:
    def __init__(self, server: KafkaServer) -> None:
        self.home = server.data_dir / f"{TOPIC}-0"
        self.common: dict[str, str | int | float | bool] = {
            "bootstrap.servers": server.bootstrap_servers
        }
        self._cleaned = server.data_dir / "cleaner-offset-checkpoint"
        self._admin = AdminClient(self.common)
        self._plain = Producer(self.common)
        config = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "1.0",
            "delete.retention.ms": str(RETENTION_MS),
        }
        topic = NewTopic(TOPIC, 1, 1, config=config)
        self._admin.create_topics([topic])[TOPIC].result(30)
        self.set("segment.ms", "1")

    def set(self, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        wanted = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
        self._admin.incremental_alter_configs([wanted])[wanted].result(30)

    def roll(self, key: bytes) -> None:
        """Whatever is written begins a new segment: the last one is older than a millisecond."""
        time.sleep(0.01)
        write(self._plain, (key, b"rolled"))

    def compact(self, end_offset: int) -> None:
        self.set("min.cleanable.dirty.ratio", "0.0")
        until(lambda: f"{TOPIC} 0 {end_offset}\n" in self._cleaned.read_text())
        self.set("min.cleanable.dirty.ratio", "1.0")


def write(producer: Producer, *pairs: tuple[bytes, bytes | None]) -> None:
    for key, value in pairs:
        producer.produce(TOPIC, value, key, partition=0)
    assert producer.flush(30) == 0


def fill(kafka: Kafka) -> None:
    """Transactions of each outcome that overlap, tombstones in and out of them, several codecs."""
    kafka.set("segment.ms", "600000")
    plain = Producer({**kafka.common, "compression.type": "lz4", "enable.idempotence": True})
    first = Producer({**kafka.common, "transactional.id": "1", "compression.type": "zstd"})
    second = Producer({**kafka.common, "transactional.id": "2", "compression.type": "gzip"})
    for each in (first, second):
        each.init_transactions(30)
    for turn in range(6):
        write(plain, *((b"p%d" % n, b"%d" % turn) for n in range(turn, 8)))
        first.begin_transaction()
        second.begin_transaction()
        write(first, (b"a", b"%d" % turn), (b"f%d" % turn, b"x"), (b"p1", None))
        write(second, (b"a", b"other"), (b"s%d" % (turn % 2), None if turn % 3 else b"y"))
        write(first, (b"b", b"%d" % turn))
        (first.commit_transaction if turn % 2 else first.abort_transaction)(30)
        (second.abort_transaction if turn == 4 else second.commit_transaction)(30)
        write(plain, (b"gone%d" % (turn % 3), None), (b"p%d" % turn, None))
    # Markers are written some time after a client hears of the end, but before its successor
    # hears of its beginning.
    for number in ("1", "2"):
        Producer({**kafka.common, "transactional.id": number}).init_transactions(30)
    kafka.set("segment.ms", "1")


def test_pyk_compacts_as_kafka_does(tmp_path: Path) -> None:
    properties = {
        "log.dirs": str(tmp_path / "data"),
        "log.cleaner.backoff.ms": "50",
        "log.initial.task.delay.ms": "100",
    }
    producers, known_until = Producers(), 0
    with kafka_server(properties) as server:
        kafka = Kafka(server)
        fill(kafka)
        for turn in range(5):
            kafka.roll(b"roll-%d" % (turn % 2))
            shutil.copytree(kafka.home, tmp_path / f"{turn}")
            copy = Filled(RealDisk(), LARGE, tmp_path / f"{turn}", producers)
            for base in copy.log.bases:
                list(replay(producers, copy.log.at(base), known_until, copy.log.end_offset))
            known_until = copy.log.end_offset
            result = copy.compact(int(time.time() * 1000))
            kafka.compact(result.end_offset)
            ours = described(copy.log)
            shutil.copytree(kafka.home, tmp_path / f"kafka-{turn}", ignore=leftovers)
            theirs = described(Segments.open(RealDisk(), tmp_path / f"kafka-{turn}", LARGE))
            assert ours == theirs, f"in round {turn}"
            if turn == 2:
                time.sleep(RETENTION_MS / 1000)


def leftovers(_: str, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(".deleted")]


Described = tuple[BatchHeader, list[Record]]


def described(log: Segments) -> tuple[list[Described], list[AbortedTransaction]]:
    """Everything that must be the same. Timestamps need not count from the same one, and are
    compressed otherwise then. Of a horizon only that there is one: the two have other clocks."""
    found = [(comparable(header), list(read_records(data))) for header, data in batches(log)]
    return found, aborted_before(log, log.end_offset)


def comparable(header: BatchHeader) -> BatchHeader:
    return BatchHeader(
        header.base_offset,
        0,
        header.partition_leader_epoch,
        header.magic,
        0,
        header.attributes,
        header.last_offset_delta,
        0,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.records_count,
    )
