"""pyk and Apache Kafka 4.3.1 on the same disk, in turns, under the same clients.

Each runs with its defaults. What a client cannot do any faster, it does as fast with both: the
figures of librdkafka reading small records are its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.generator import Load, load
from bench.table import Row
from compat_tests.kafka.server import kafka_server
from pyk.wire.apis import ApiKey
from pyk.wire.messages.api_versions import ApiVersionsRequest
from pyk.wire.request import encode_request
from tests.clients.brokers import running

TITLE = "Beside Apache Kafka 4.3.1: medians of runs in turns"
ROUNDS = 3
GIGABYTE = 10**9
CASES = (
    # Records of so many bytes, how many, in how many partitions, with which acks.
    (1000, 400_000, 1, "all"),
    (1000, 400_000, 16, "1"),
    (100, 1_000_000, 1, "all"),
)


class Contestant(NamedTuple):
    name: str
    address: str
    pid: int


def rows() -> Sequence[Row]:
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home:
        place = Path(home).resolve()
        started = {"pyk": timed(lambda: one(place)), "Kafka": timed(kafka_alone)}
        with both(place) as contestants:
            idle = {each.name: resident_megabytes(each.pid) for each in contestants}
            measured = [row for case in CASES for row in throughput(contestants, *case)]
            requests = [latency(contestants, 1), rate(contestants, 50)]
            loaded = {each.name: resident_megabytes(each.pid) for each in contestants}
    return [
        *measured,
        *requests,
        Row("memory, idle", "MB", idle, "Kafka at least 6.7"),
        Row("memory, after all this", "MB", loaded, "Kafka at least 6.7"),
        Row("start, one request, stop", "s", started, "Kafka at least 10"),
    ]


@contextmanager
def both(home: Path) -> Iterator[list[Contestant]]:
    with ExitStack() as stack:
        pyk = stack.enter_context(running(home / "pyk"))
        (home / "kafka").mkdir()
        kafka = stack.enter_context(kafka_server(home=home / "kafka", heap_mb=1024))
        yield [
            Contestant("pyk", pyk.address, pyk.process.pid),
            Contestant("Kafka", kafka.bootstrap_servers, kafka.pid),
        ]


def throughput(
    contestants: Sequence[Contestant], size: int, count: int, partitions: int, acks: str
) -> list[Row]:
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for turn in range(ROUNDS):
        for each in contestants:
            topic = f"t-{size}-{partitions}-{turn}"
            make_topic(each, topic, partitions)
            before = cpu_seconds(each.pid)
            took = run_client(each, topic, partitions, size, count, acks)
            spent = (cpu_seconds(each.pid) - before) / (2 * size * count / GIGABYTE)
            figures["write"][each.name].append(took["write"] / (size * count / GIGABYTE))
            figures["read"][each.name].append(took["read"] / (size * count / GIGABYTE))
            figures["CPU"][each.name].append(spent)
    case = f"{size:,} B, {partitions} partitions, acks {acks}"
    goals = {"write": "Kafka at least 1", "read": "Kafka at least 1", "CPU": "Kafka at least 1.7"}
    return [
        Row(f"{what} {case}", "s/GB", {n: median(taken) for n, taken in by.items()}, goals[what])
        for what, by in figures.items()
    ]


def make_topic(each: Contestant, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": each.address, "log_level": 0})
    (made,) = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
    made.result(30)


def run_client(
    each: Contestant, topic: str, partitions: int, size: int, count: int, acks: str
) -> dict[str, float]:
    arguments = (each.address, topic, str(partitions), str(size), str(count), acks)
    command = [sys.executable, "-m", "bench.pacer_client", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def latency(contestants: Sequence[Contestant], connections: int) -> Row:
    figures = {each.name: request_load(each, connections).p50_us for each in contestants}
    return Row(f"round trip, {connections} connection, p50", "us", figures, "Kafka at least 1")


def rate(contestants: Sequence[Contestant], connections: int) -> Row:
    figures = {each.name: 1e6 / request_load(each, connections).rate for each in contestants}
    return Row(f"a request, {connections} connections", "us", figures, "Kafka at least 1")


def request_load(each: Contestant, connections: int) -> Load:
    chunks = encode_request(ApiKey.API_VERSIONS, 0, 1, "pacer", ApiVersionsRequest())
    host, _, port = each.address.rpartition(":")
    frame = b"".join(chunks)  # type: ignore[arg-type]
    return load((host, int(port)), [frame], connections=connections, in_flight=1, seconds=3)


def one(home: Path) -> None:
    with running(home / "alone"):
        pass


def kafka_alone() -> None:
    with kafka_server():
        pass


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def resident_megabytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = [line.split()[1] for line in lines if line.startswith("VmRSS")]
    return int(found) / 1024


def timed(run: Callable[[], None]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began
