"""Transactions, beside Apache Kafka 4.3.1: what they cost, in both versions.

v1 is librdkafka's, v2 (KIP-890) that of Java since 4.0. `times plain` is how many times as long a
client takes to write in transactions of 100 ms as it takes without, with the same broker.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from bench.contestants import Contestant, both
from bench.pacer import Figures, Measure, compare, make_topic
from bench.table import Row, row_of_rounds
from bench.transactions_client import WARM_UP
from compat_tests.kafka import jars

TITLE: Final = "Transactions, beside Apache Kafka 4.3.1: medians of rounds in turns"
ROUNDS: Final = 3
AS_FAST: Final = "Kafka at least 1"
SOURCE: Final = "source"
SOURCE_COUNT: Final = 1000
NOWHERE: Final = "-"
RECORDS: Final = 100_000
JAVA_RECORDS: Final = 50_000
COMMITS: Final = 200
CLIENT_COMMITS: Final = 60
PRODUCERS: Final = 50
COMMITS_OF_EACH: Final = 20
IDS: Final = 10_000
CASES: Final = {
    "1 partition": ("1", NOWHERE),
    "10 partitions": ("10", NOWHERE),
    "a copy with its offset": ("1", SOURCE),
}
"""How many partitions a transaction has, and where what it copies is from."""
LATENCY: Final = Path(__file__).with_name("TransactionLatency.java")


def rows() -> Sequence[Row]:
    with (
        tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home,
        both(Path(home).resolve()) as contestants,
    ):
        for each in contestants:
            _fill(each)
        measured = [row for found in _measured(contestants) for row in found]
        return [*measured, *_many_ids(contestants)]


def _fill(each: Contestant) -> None:
    make_topic(each, "t", 10)
    make_topic(each, SOURCE, 1)
    producer = Producer({"bootstrap.servers": each.address})
    for _ in range(SOURCE_COUNT):
        producer.produce(SOURCE, bytes(1000))
    assert producer.flush(30) == 0


def _measured(contestants: Sequence[Contestant]) -> Iterator[list[Row]]:
    yield compare(contestants, _flood, _flood_goals("librdkafka, v1"), ROUNDS)
    yield compare(contestants, _flood_from_java, _flood_goals("Java, v2"), ROUNDS)
    for version, (case, arguments) in product(("1", "2"), CASES.items()):
        what = f"{case}, on the wire, v{version}"
        goals = {f"{what}, p50": "ms", f"{what}, p99": "ms", f"{what}, CPU": "us"}
        yield compare(contestants, _on_the_wire(version, arguments), _as_fast(goals), ROUNDS)
    for case, arguments in CASES.items():
        goals = {f"{case}, librdkafka, v1, {p}": "ms" for p in ("p50", "p99")}
        yield compare(contestants, _by_librdkafka(arguments), _as_fast(goals), ROUNDS)
    goals = {f"{case}, Java, v2, {p}": "ms" for case in CASES for p in ("p50", "p99")}
    yield compare(contestants, _commits_from_java, _as_fast(goals), ROUNDS)
    for version in ("1", "2"):
        what = f"{PRODUCERS} producers, v{version}, a transaction"
        goals = {what: "us", f"{what}, CPU": "us"}
        yield compare(contestants, _many(version), _as_fast(goals), ROUNDS)


def _on_the_wire(version: str, arguments: Sequence[str]) -> Measure:
    def measure(each: Contestant, turn: int) -> Figures:
        more = (str(COMMITS), *arguments, str(turn), version)
        return _with_cpu(each, COMMITS + WARM_UP, "wire", "t", *more)

    return measure


def _by_librdkafka(arguments: Sequence[str]) -> Measure:
    def measure(each: Contestant, turn: int) -> Figures:
        return _client(each, "commits", "t", str(CLIENT_COMMITS), *arguments, str(turn))

    return measure


def _many(version: str) -> Measure:
    def measure(each: Contestant, turn: int) -> Figures:
        more = (str(COMMITS_OF_EACH), str(PRODUCERS), str(turn), version)
        return _with_cpu(each, COMMITS_OF_EACH * PRODUCERS, "many", "t", *more)

    return measure


def _as_fast(units: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {what: (unit, AS_FAST) for what, unit in units.items()}


def _flood_goals(by: str) -> dict[str, tuple[str, str]]:
    return {
        f"1 KB in transactions of 100 ms, {by}": ("s/GB", AS_FAST),
        f"1 KB without transactions, {by}": ("s/GB", ""),
        f"times plain, {by}": ("", ""),
    }


def _flood(each: Contestant, turn: int) -> Figures:
    topic = f"flood-{turn}"
    make_topic(each, topic, 1)
    found = _client(each, "flood", topic, str(RECORDS), str(turn))
    return _per_gigabyte(RECORDS, found["transactional"], found["idempotent"])


def _flood_from_java(each: Contestant, turn: int) -> Figures:
    topic = f"java-{turn}"
    make_topic(each, topic, 1)
    plain = _performance(each, topic)
    transactional = _performance(
        each, topic, "--transactional-id", topic, "--transaction-duration-ms", "100"
    )
    return _per_gigabyte(JAVA_RECORDS, transactional, plain)


def _performance(each: Contestant, topic: str, *more: str) -> float:
    printed = _java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(JAVA_RECORDS), "--record-size", "1000"),
        *("--throughput", "-1", "--bootstrap-server", each.address, *more),
    )
    (rate,) = re.findall(rf"{JAVA_RECORDS} records sent, ([0-9.]+) records/sec", printed)
    return JAVA_RECORDS / float(rate)


def _per_gigabyte(records: int, transactional: float, plain: float) -> Figures:
    gigabytes = records * 1000 / 10**9
    return {
        "transactional": transactional / gigabytes,
        "plain": plain / gigabytes,
        "times": transactional / plain,
    }


def _commits_from_java(each: Contestant, turn: int) -> Figures:
    printed = _java(
        "TransactionLatency", each.address, "t", SOURCE, str(COMMITS), f"latency-{turn}"
    )
    found = [float(word) for word in printed.split()]
    names = [f"{case} {p}" for case in CASES for p in ("p50", "p99")]
    return dict(zip(names, found, strict=True))


def _java(*arguments: str) -> str:
    command = jars.java_command(*arguments, classes=jars.compiled(LATENCY), is_measured=True)
    return subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=300,
        check=True,
    ).stdout


def _with_cpu(each: Contestant, transactions: int, *arguments: str) -> Figures:
    """And the broker's processor time for a transaction, in microseconds."""
    before = each.cpu_seconds()
    found = _client(each, *arguments)
    return found | {"CPU": (each.cpu_seconds() - before) / transactions * 1e6}


def _client(each: Contestant, what: str, topic: str, *arguments: str) -> Figures:
    command = [sys.executable, "-m", "bench.transactions_client", what, each.address, topic]
    done = subprocess.run(
        [*command, *arguments], stdout=subprocess.PIPE, text=True, timeout=300, check=True
    )
    found: Figures = json.loads(done.stdout)
    return found


def _many_ids(contestants: Sequence[Contestant]) -> list[Row]:
    """Each with one transaction, once: their memory stays."""
    found: dict[str, Figures] = {}
    for each in contestants:
        before = each.resident_megabytes()
        _client(each, "ids", "t", str(IDS))
        resident = each.resident_megabytes()
        found[each.name] = {"memory": resident, "more memory": resident - before}
    return [
        row_of_rounds(
            f"{IDS:,} ids: {what}",
            "MB",
            [{name: figures[what] for name, figures in found.items()}],
            goal,
        )
        # Kafka's heap has room for more already.
        for what, goal in {"memory": AS_FAST, "more memory": ""}.items()
    ]
