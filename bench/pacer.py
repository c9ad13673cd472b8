"""pyk and Apache Kafka 4.3.1 on the same disk, in turns, under the same clients.

Each runs with its defaults, and both are up all the time. A round is one run with each of them,
and its ratio is one figure: what is shown is the median of the rounds' ratios, with the lowest and
the highest. What a client cannot do any faster, it does as fast with both: the figures of
librdkafka reading small records are its own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.contestants import API_VERSIONS, Contestant, both, kafka, pyk_server
from bench.generator import load
from bench.table import Row, row_of_rounds
from compat_tests.kafka import jars

TITLE: Final = "Beside Apache Kafka 4.3.1: medians of rounds in turns"
ROUNDS: Final = 5
STARTS: Final = 3
STEADY_COUNT: Final = 8000
JAVA_COUNT: Final = 500_000
GIGABYTE: Final = 10**9
COUNTS: Final = {1000: 400_000, 100: 1_000_000}
"""How many records of a size a client writes and reads in a run."""
AS_FAST: Final = "Kafka at least 1"
CPU: Final = "Kafka at least 1.7"
MEMORY: Final = "Kafka at least 6.7"
START: Final = "Kafka at least 10"
READER: Final = Path(__file__).with_name("AssignedReader.java")

Figures = dict[str, float]
Measure = Callable[[Contestant, int], Figures]


def rows() -> Sequence[Row]:
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home:
        place = Path(home).resolve()
        started = starts(place)
        with both(place) as contestants:
            idle = [{each.name: each.resident_megabytes() for each in contestants}]
            measured = [row for rows in loads(contestants) for row in rows]
            loaded = [{each.name: each.resident_megabytes() for each in contestants}]
    return [
        *measured,
        row_of_rounds("memory, idle", "MB", idle, MEMORY),
        row_of_rounds("memory, after all this", "MB", loaded, MEMORY),
        row_of_rounds("start to first answer", "s", started, START),
    ]


def starts(home: Path) -> list[Figures]:
    found = []
    for turn in range(STARTS):
        with pyk_server(home / f"pyk-{turn}") as ours:
            pass
        with kafka(home / f"kafka-{turn}") as theirs:
            pass
        found.append({each.name: each.answered_after for each in (ours, theirs)})
    return found


def loads(contestants: Sequence[Contestant]) -> Iterator[list[Row]]:
    for size, partitions, acks in product((1000, 100), (1, 16), ("all", "1")):
        case = f"{size:,} B, {partitions} partitions, acks {acks}"
        goals = {
            f"librdkafka writes {case}": ("s/GB", AS_FAST),
            f"librdkafka reads {case}": ("s/GB", AS_FAST),
            f"broker's CPU, {case}": ("s/GB", CPU),
        }
        yield compare(contestants, flood(size, partitions, acks), goals)
    goals = {
        "Java's ProducerPerformance, 1,000 B": ("s/GB", AS_FAST),
        "a Java consumer reads them": ("s/GB", AS_FAST),
        "broker's CPU, Java, 1,000 B": ("s/GB", CPU),
    }
    yield compare(contestants, flood_from_java, goals)
    goals = {
        "end to end at 1,000/s, p50": ("ms", AS_FAST),
        "end to end at 1,000/s, p99": ("ms", AS_FAST),
    }
    yield compare(contestants, steady, goals)
    goals = {
        "round trip, 1 connection, p50": ("us", AS_FAST),
        "round trip, 1 connection, p99": ("us", AS_FAST),
    }
    yield compare(contestants, round_trip, goals)
    yield compare(contestants, many_requests, {"a request, 50 connections": ("us", AS_FAST)})


def compare(
    contestants: Sequence[Contestant],
    measure: Measure,
    goals: Mapping[str, tuple[str, str]],
    count: int = ROUNDS,
) -> list[Row]:
    """A row for each figure that `measure` gives, in the order of `goals`."""
    rounds: dict[str, list[Figures]] = defaultdict(list)
    for turn in range(count):
        # Whoever comes second meets the other's dirty pages: they take turns in that, too.
        order = contestants if turn % 2 == 0 else contestants[::-1]
        found = {each.name: measure(each, turn) for each in order}
        for number, what in enumerate(goals):
            rounds[what].append(
                {each.name: list(found[each.name].values())[number] for each in contestants}
            )
    print(f"  {', '.join(goals)}", file=sys.stderr)
    return [row_of_rounds(what, unit, rounds[what], goal) for what, (unit, goal) in goals.items()]


def flood(size: int, partitions: int, acks: str) -> Measure:
    def measure(each: Contestant, turn: int) -> Figures:
        topic = f"t-{size}-{partitions}-{acks}-{turn}"
        count = COUNTS[size]
        make_topic(each, topic, partitions)
        before = each.cpu_seconds()
        took = client("flood", each, topic, str(partitions), str(size), str(count), acks)
        return per_gigabyte(each, before, size * count, took["write"], took["read"])

    return measure


def flood_from_java(each: Contestant, turn: int) -> Figures:
    topic = f"java-{turn}"
    make_topic(each, topic, 1)
    before = each.cpu_seconds()
    arguments = ("--topic", topic, "--num-records", str(JAVA_COUNT), "--record-size", "1000")
    printed = java(
        "org.apache.kafka.tools.ProducerPerformance",
        *arguments,
        *("--throughput", "-1", "--bootstrap-server", each.address),
    )
    (rate,) = re.findall(rf"{JAVA_COUNT} records sent, ([0-9.]+) records/sec", printed)
    seconds = float(java("AssignedReader", each.address, topic, "1", str(JAVA_COUNT)).split()[-1])
    return per_gigabyte(each, before, 1000 * JAVA_COUNT, JAVA_COUNT / float(rate), seconds)


def java(*arguments: str) -> str:
    """What a program prints that runs as Java runs it by default."""
    command = jars.java_command(*arguments, classes=jars.compiled(READER), is_measured=True)
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


def per_gigabyte(each: Contestant, before: float, size: int, wrote: float, read: float) -> Figures:
    """Of so many bytes that were written and read."""
    gigabytes = size / GIGABYTE
    spent = (each.cpu_seconds() - before) / (2 * gigabytes)
    return {"write": wrote / gigabytes, "read": read / gigabytes, "CPU": spent}


def steady(each: Contestant, turn: int) -> Figures:
    topic = f"steady-{turn}"
    make_topic(each, topic, 1)
    return client("steady", each, topic, str(STEADY_COUNT))


def round_trip(each: Contestant, turn: int) -> Figures:
    found = load(each.host_and_port, [API_VERSIONS], seconds=2)
    return {"p50": found.p50_us, "p99": found.p99_us}


def many_requests(each: Contestant, turn: int) -> Figures:
    found = load(each.host_and_port, [API_VERSIONS], connections=50, seconds=2)
    return {"us": 1e6 / found.rate}


def make_topic(each: Contestant, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": each.address, "log_level": 0})
    (made,) = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
    made.result(30)


def client(what: str, each: Contestant, topic: str, *arguments: str) -> Figures:
    command = [sys.executable, "-m", "bench.pacer_client", what, each.address, topic, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    found: Figures = json.loads(done.stdout)
    return found
