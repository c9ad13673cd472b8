"""Queues (share groups, KIP-932), beside Apache Kafka 4.3.1: what it costs to hand out records.

A worker takes some records, and says that they are done with when it asks for more. On the wire no
client waits in between.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from bench.contestants import Contestant, both
from bench.pacer import Figures, Measure, compare, make_topic
from bench.table import Row, row_of_rounds
from tests.clients.queueing.group import set_terms

TITLE: Final = "Queues, beside Apache Kafka 4.3.1: medians of rounds in turns"
ROUNDS: Final = 3
LATENCY_ROUNDS: Final = 7
"""They are short, and what is short is noisy."""
AS_FAST: Final = "Kafka at least 1"
SOONER: Final = "Kafka at least 1.43"
SMALLER: Final = "Kafka at least 3.33"
TERMS: Final = {"share.auto.offset.reset": "earliest"}
MANY: Final = 500
FEW: Final = 10
CASES: Final = {
    "1 worker": (1, 1),
    "10 workers": (1, 10),
    "10 workers, 10 partitions": (10, 10),
}
"""How many partitions there are, and who works on them."""
COUNTS: Final = {MANY: 200_000, FEW: 20_000}
"""How many records are worked through in a run, by how many a worker takes at a time."""
BY_CLIENT: Final = 100_000
MILLION: Final = 1_000_000
LATENCIES: Final = 500


def rows() -> Sequence[Row]:
    with (
        tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home,
        both(Path(home).resolve()) as contestants,
    ):
        for each in contestants:
            _fill(each)
        measured = [row for found in _measured(contestants) for row in found]
        return [*measured, *_history(contestants)]


def _fill(each: Contestant) -> None:
    """Topics that every group reads from their beginning."""
    for at_once, count in COUNTS.items():
        for partitions in (1, 10):
            topic = _topic(partitions, at_once)
            make_topic(each, topic, partitions)
            _write(each, topic, count, partitions, batch=min(at_once, 100))


def _topic(partitions: int, at_once: int) -> str:
    return f"work-{partitions}-{at_once}"


def _write(each: Contestant, topic: str, count: int, partitions: int, batch: int) -> None:
    producer = Producer(
        {
            "bootstrap.servers": each.address,
            "batch.num.messages": batch,
            "queue.buffering.max.messages": count,
        }
    )
    for number in range(count):
        producer.produce(topic, bytes(100), partition=number // batch % partitions)
    assert producer.flush(120) == 0


def _measured(contestants: Sequence[Contestant]) -> Iterator[list[Row]]:
    for at_once in COUNTS:
        for case, (partitions, workers) in CASES.items():
            what = f"a record, {case}, {at_once} at a time, on the wire"
            goals = {what: ("us", AS_FAST), f"{what}, CPU": ("us", "")}
            yield compare(contestants, _on_the_wire(partitions, workers, at_once), goals, ROUNDS)
    for case, (partitions, workers) in CASES.items():
        goals = {f"a record, {case}, librdkafka": ("us", AS_FAST)}
        yield compare(contestants, _by_librdkafka(partitions, workers), goals, ROUNDS)
    for by in ("wire", "librdkafka"):
        what = "from produce to delivery, " + ("on the wire" if by == "wire" else by)
        goals = {f"{what}, {p}": ("ms", SOONER) for p in ("p50", "p99")}
        yield compare(contestants, _latency(by), goals, LATENCY_ROUNDS)


def _on_the_wire(partitions: int, workers: int, at_once: int) -> Measure:
    def measure(each: Contestant, turn: int) -> Figures:
        topic, group = _topic(partitions, at_once), f"wire-{partitions}-{workers}-{at_once}-{turn}"
        counts = (COUNTS[at_once], workers, at_once, each.pid)
        return _client(each, "work", "wire", topic, group, *counts)

    return measure


def _by_librdkafka(partitions: int, workers: int) -> Measure:
    def measure(each: Contestant, turn: int) -> Figures:
        topic, group = _topic(partitions, MANY), f"librdkafka-{partitions}-{workers}-{turn}"
        return _client(each, "work", "librdkafka", topic, group, BY_CLIENT, workers, MANY)

    return measure


def _latency(by: str) -> Measure:
    def measure(each: Contestant, turn: int) -> Figures:
        topic = f"latency-{by}-{turn}"
        make_topic(each, topic, 1)
        return _client(each, "latency", by, topic, topic, LATENCIES)

    return measure


def _client(each: Contestant, what: str, by: str, topic: str, group: str, *counts: int) -> Figures:
    set_terms(each.address, group, TERMS)
    command = [sys.executable, "-m", "bench.queues_client", what, by, each.address, topic, group]
    done = subprocess.run(
        [*command, *(str(count) for count in counts)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    )
    found: Figures = json.loads(done.stdout)
    return found


def _history(contestants: Sequence[Contestant]) -> list[Row]:
    """A million records more, worked through once: their memory stays."""
    found: Figures = {}
    for each in contestants:
        make_topic(each, "million", 1)
        _write(each, "million", MILLION, 1, batch=100)
        _client(each, "work", "wire", "million", "million", MILLION, 10, MANY, each.pid)
        found[each.name] = each.resident_megabytes()
    return [row_of_rounds("memory, a million records later", "MB", [found], SMALLER)]
