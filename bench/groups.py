"""Groups, beside Apache Kafka 4.3.1: how soon they read, and what many of them cost.

Both brokers let a new group begin at once: Kafka's defaults let it wait for three seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from bench.contestants import Contestant, both
from bench.generator import load
from bench.pacer import Figures, compare, make_topic
from bench.table import Row, row_of_rounds
from pyk.wire.apis import ApiKey
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyk.wire.request import encode_request

TITLE: Final = "Groups, beside Apache Kafka 4.3.1: medians of rounds in turns"
AT_ONCE: Final = {"group.initial.rebalance.delay.ms": "0"}
NEW_GROUPS: Final = 40
GROUPS: Final = 1000
COMMIT_VERSION: Final = 7
SOONER: Final = "Kafka at least 1.43"
MORE: Final = "Kafka at least 1"


def rows() -> Sequence[Row]:
    with (
        tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home,
        both(Path(home).resolve(), AT_ONCE) as contestants,
    ):
        for each in contestants:
            _fill(each)
        measured = [row for found in _measured(contestants) for row in found]
        return [*measured, *_many(contestants)]


def _fill(each: Contestant) -> None:
    make_topic(each, "t", 1)
    producer = Producer({"bootstrap.servers": each.address})
    producer.produce("t", b"first")
    assert producer.flush(30) == 0


def _measured(contestants: Sequence[Contestant]) -> Iterator[list[Row]]:
    for how, protocol in product(("first", "wire"), ("classic", "consumer")):

        def first(each: Contestant, turn: int, how: str = how, protocol: str = protocol) -> Figures:
            return _client(each, how, protocol, turn)

        by = "librdkafka" if how == "first" else "on the wire"
        what = f"a new group's first record, {protocol}, {by}"
        yield compare(
            contestants, first, {f"{what}, p50": ("ms", SOONER), f"{what}, p99": ("ms", SOONER)}
        )
    for connections in (1, 50):

        def commits(each: Contestant, turn: int, connections: int = connections) -> Figures:
            before = each.cpu_seconds()
            found = load(each.host_and_port, _commits(), connections=connections, seconds=2)
            spent = (each.cpu_seconds() - before) / found.answered
            return {"time": 1e6 / found.rate, "CPU": spent * 1e6}

        what = f"a commit, {connections} connections"
        yield compare(contestants, commits, {what: ("us", MORE), f"{what}, CPU": ("us", MORE)})


def _client(each: Contestant, how: str, protocol: str, turn: int) -> Figures:
    command = [sys.executable, "-m", "bench.groups_client", how, each.address, "t"]
    command += [str(NEW_GROUPS), protocol, str(turn)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
    found: Figures = json.loads(done.stdout)
    return found


def _commits() -> list[bytes]:
    """Of ten groups that only have offsets."""
    frames = []
    for number in range(10):
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=1, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=f"commits-{number}",
            topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        chunks = encode_request(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, 1, "bench", request)
        frames.append(b"".join(chunks))  # type: ignore[arg-type]
    return frames


def _many(contestants: Sequence[Contestant]) -> list[Row]:
    """A thousand groups of three members, once: their memory stays."""
    found = {each.name: _bring_up(each) for each in contestants}
    return [
        row_of_rounds(
            f"{GROUPS:,} groups of 3: {what}",
            unit,
            [{name: figures[what] for name, figures in found.items()}],
            SOONER,
        )
        for what, unit in {
            "joining": "s",
            "CPU to join": "s",
            "a heartbeat": "us",
            "a heartbeat, CPU": "us",
            "memory": "MB",
            "more memory": "MB",
        }.items()
    ]


def _bring_up(each: Contestant) -> Figures:
    memory, before = each.resident_megabytes(), each.cpu_seconds()
    with _members(each) as (joined, beat):
        cpu = each.cpu_seconds()
        beats = [beat() for _ in range(3)]
        spent = (each.cpu_seconds() - cpu) / sum(found["sent"] for found in beats) * 1e6
        resident = each.resident_megabytes()
    return {
        "joining": joined["join"],
        "CPU to join": cpu - before,
        "a heartbeat": min(found["heartbeat"] for found in beats),
        "a heartbeat, CPU": spent,
        "memory": resident,
        "more memory": resident - memory,
    }


@contextmanager
def _members(each: Contestant) -> Iterator[tuple[Figures, Callable[[], Figures]]]:
    command = [sys.executable, "-m", "bench.groups_client", "members", each.address, "many"]
    with subprocess.Popen(
        [*command, str(GROUPS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout

        def read() -> Figures:
            assert process.stdout
            found: Figures = json.loads(process.stdout.readline())
            return found

        def beat() -> Figures:
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
            return read()

        yield read(), beat
        process.stdin.close()
        process.wait(60)
