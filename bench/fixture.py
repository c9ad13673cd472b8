"""A broker for tests: in the process of the test, in one of its own, and Apache Kafka 4.3.1.

Each figure is the median of runs in turns, each run in a new interpreter. What a run does is in
`bench.fixture_run`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from bench.codec import joined
from bench.fixture_run import FRAMES, TOPIC
from bench.table import Row
from pyk.wire.apis import ApiKey
from pyk.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.records import Record, build_batch
from pyk.wire.request import encode_request

TITLE = "A broker for tests: medians of runs in turns"
CONTESTANTS = {"pyk in process": "thread", "pyk process": "process", "Kafka": "kafka"}
ROUNDS = 5
FILES = 10
AFTER_TRIO = "under 50, or 0.46 of that"
"""The goal was set where importing trio took 109 ms."""

TEST_FILE = """
import pytest
from bench.codec import joined
from bench.fixture_run import STARTS, first_record

@pytest.fixture(scope="module")
def broker():
    with STARTS[{kind!r}]() as broker:
        yield broker

def test_a_record_is_acknowledged(broker):
    first_record(broker)
"""


def rows() -> Sequence[Row]:
    run("process")  # So that all bytecode is cached, as it is of what pip has installed.
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
    for _ in range(ROUNDS):
        for name, kind in CONTESTANTS.items():
            runs[name].append(run(kind))

    def middle(figure: str) -> dict[str, float | None]:
        return {name: median(each[figure] for each in found) for name, found in runs.items()}

    return [
        Row("importing trio", "ms", _only_pyk(middle("trio"))),
        Row("trio imported to first record", "ms", _only_pyk(middle("after_trio")), AFTER_TRIO),
        Row("Python's start to first record", "ms", middle("first"), "process under 300"),
        Row("another one: start to record", "ms", middle("again"), "Kafka at least 100"),
        Row("stop", "ms", middle("stop")),
        Row("memory that it takes", "MB", middle("memory"), "process at most 40"),
        Row(f"{FILES} test files, one each", "s", {n: files(k) for n, k in CONTESTANTS.items()}),
    ]


def _only_pyk(figures: dict[str, float | None]) -> dict[str, float | None]:
    """Others do not import trio, or not here."""
    first = next(iter(figures))
    return {name: figure if name == first else None for name, figure in figures.items()}


def run(kind: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.fixture_run", kind]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=300, check=True, env=caching()
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def files(kind: str) -> float:
    with tempfile.TemporaryDirectory(prefix="pyk-bench-") as home:
        for number in range(FILES):
            (Path(home) / f"test_{number}.py").write_text(TEST_FILE.format(kind=kind))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", home]
        began = perf_counter()
        subprocess.run(command, stdout=subprocess.DEVNULL, timeout=600, check=True, env=caching())
        return perf_counter() - began


def caching() -> dict[str, str]:
    """An environment in which Python keeps the bytecode of what it imports, and runs find what they
    are to send."""
    kept = {k: value for k, value in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, FRAMES: " ".join(frame.hex() for frame in requests())}


def requests() -> tuple[bytes, bytes]:
    """Whole frames: one that makes a topic, one that writes a record to it."""
    metadata = MetadataRequest(
        topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=True
    )
    batch = build_batch([Record(offset=0, timestamp=1_700_000_000_000, key=None, value=b"v")])
    data = [PartitionProduceData(index=0, records=batch)]
    produce = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)]
    )
    return (
        joined(encode_request(ApiKey.METADATA, 4, 1, "bench", metadata)),
        joined(encode_request(ApiKey.PRODUCE, 7, 2, "bench", produce)),
    )
