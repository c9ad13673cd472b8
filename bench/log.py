"""Logs beside bare writes of the same bytes, and how fast and how cheaply they open."""

from __future__ import annotations

import os
import random
import resource
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from bench.table import Row
from compat_tests.kafka import jars
from compat_tests.kafka.server import kafka_server
from pyk.disk import RealDisk
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.log.producers import Origin
from pyk.log.validation import prepare
from pyk.types import TopicPartition, Uuid
from pyk.wire.records import Record, build_batch

TITLE = "Logs: on the disk of the current directory"
DISK = RealDisk()
DEFAULTS = LogConfig()
NOW = 1_700_000_000_000
ROUNDS = 7
KAFKA_PARTITIONS = 905


def rows() -> Sequence[Row]:
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home:
        return [
            *appending(Path(home), 16 * 1024, 128 * 1024**2, goal=0.6),
            *appending(Path(home), 1024**2, 256 * 1024**2, goal=0.9),
            reading(Path(home)),
            opening_segments(Path(home), 1_000),
            *opening_logs(Path(home), 10_000),
        ]


def a_batch(size: int) -> bytearray:
    value = bytes(size - 80)
    return bytearray(build_batch([Record(offset=0, timestamp=NOW, key=None, value=value)]))


def appending(home: Path, size: int, total: int, goal: float) -> list[Row]:
    """As a leader does, against nothing but written, and with what a produce request adds."""
    data = a_batch(size)
    count = total // len(data)
    best: dict[str, float] = {}
    contestants: dict[str, Callable[[Path], None]] = {
        "os.write": lambda path: write_bare(path, data, count),
        "pyk": lambda path: append_all(a_log(path), data, count),
        "checked": lambda path: append_checked(a_log(path), data, count),
    }
    for _ in range(ROUNDS):
        for name, run in contestants.items():
            with tempfile.TemporaryDirectory(dir=home) as place:
                took = timed(lambda run=run, place=place: run(Path(place, "log-0")))  # type: ignore[misc]
            best[name] = min(took / count * 1e6, best.get(name, took / count * 1e6))
    kilobytes = f"{size // 1024:,} KB"
    bare = {"os.write": best["os.write"]}
    wanted = f"os.write at least {goal}"
    return [
        Row(f"append {kilobytes}", "us", {"pyk": best["pyk"], **bare}, wanted),
        Row(f"check and append {kilobytes}", "us", {"pyk": best["checked"], **bare}),
    ]


def a_log(path: Path) -> Log:
    return Log.open(DISK, path, DEFAULTS)


def write_bare(path: Path, data: bytearray, count: int) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    for _ in range(count):
        os.write(descriptor, data)
    os.close(descriptor)


def append_all(log: Log, data: bytearray, count: int) -> None:
    for _ in range(count):
        log.append(data, leader_epoch=0, now_ms=NOW)


def append_checked(log: Log, data: bytearray, count: int) -> None:
    for _ in range(count):
        data[:8] = bytes(8)
        batch = prepare(data, DEFAULTS, NOW, Origin.CLIENT)
        log.append(batch.data, leader_epoch=0, now_ms=NOW)


def reading(home: Path) -> Row:
    """Slices of up to 1 MB at random offsets of a log of 1 GB in 16 segments."""
    with tempfile.TemporaryDirectory(dir=home) as place:
        config = LogConfig(segment_bytes=64 * 1024**2)
        log = Log.open(DISK, Path(place, "log-0"), config)
        count = 1024**3 // (16 * 1024)
        append_all(log, a_batch(16 * 1024), count)
        wanted = [random.Random(1).randrange(count) for _ in range(5_000)]
        took = timed(lambda: [log.read(offset, 1024**2, log.end_offset) for offset in wanted])
    return Row("read at a random offset, 1 MB", "us", {"pyk": took / len(wanted) * 1e6})


def opening_segments(home: Path, count: int) -> Row:
    log = a_log(home / "many-0")
    data = a_batch(1024)
    for _ in range(count):
        log.append(data, leader_epoch=0, now_ms=NOW)
        log.roll()
    log.advance_high_watermark(count)
    log.close()
    took = timed(lambda: Log.open(DISK, log.directory, DEFAULTS, high_watermark=count))
    return Row(f"open a log of {count:,} segments", "ms", {"pyk": took * 1e3})


def opening_logs(home: Path, count: int) -> list[Row]:
    """Cleanly closed, as a broker with that many partitions finds them, beside a Kafka that starts
    with a tenth of them."""
    path = home / "data"
    fill(path, count)
    before_memory, before_files = resident_bytes(), open_files()
    began = perf_counter()
    directory = DataDirectory.open(DISK, path, lambda _: DEFAULTS, may_be_dormant=True)
    found = perf_counter() - began
    for partition in list(directory.partitions):
        directory.log(partition)
    took = perf_counter() - began
    assert len(directory.logs) == count
    assert directory.was_clean
    memory = (resident_bytes() - before_memory) / 1024**2
    files = open_files() - before_files
    checkpoint = timed(directory.checkpoint)
    kafka = {f"Kafka, {KAFKA_PARTITIONS}": starting_kafka()}
    goal = "Kafka at least 10"
    return [
        Row(f"find {count:,} logs", "s", {"pyk": found, **kafka}, goal),
        Row(f"find and open {count:,} logs", "s", {"pyk": took, **kafka}, goal),
        Row("memory they take", "MB", {"pyk": memory}),
        Row("descriptors they hold", "", {"pyk": float(files)}),
        Row("write their checkpoints", "ms", {"pyk": checkpoint * 1e3}),
    ]


def fill(path: Path, count: int) -> None:
    data = a_batch(1024)
    directory = DataDirectory.open(DISK, path, lambda _: DEFAULTS)
    for number in range(count):
        partition = TopicPartition("topic", number)
        log = directory.create(partition, Uuid(b"the topic's uuid"), DEFAULTS)
        log.append(data, leader_epoch=0, now_ms=NOW)
        log.advance_high_watermark(1)
        log.close()
    directory.close()


def starting_kafka() -> float | None:
    """Seconds until Apache Kafka answers that has so many partitions, or None if it cannot be
    had."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    with tempfile.TemporaryDirectory(prefix="pyk-bench-") as place:
        home = Path(place)
        try:
            with kafka_server(home=home, is_measured=True) as server:
                quiet: dict[str, str | int | float | bool] = {
                    "bootstrap.servers": server.bootstrap_servers,
                    "log_level": 0,
                }
                admin = AdminClient(quiet)
                made = admin.create_topics([NewTopic("topic", KAFKA_PARTITIONS, 1)])
                made["topic"].result(60)
                producer = Producer(quiet)
                for partition in range(KAFKA_PARTITIONS):
                    producer.produce("topic", bytes(1000), partition=partition)
                assert producer.flush(60) == 0
        except jars.Missing:
            return None
        began = perf_counter()
        with kafka_server(home=home, is_measured=True):
            return perf_counter() - began


def timed(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
