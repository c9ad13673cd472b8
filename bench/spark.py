"""Spark writes and reads topics of pyk and of Apache Kafka 4.3.1, in turns, in one session.

It needs an environment with PySpark, which `make sparktest` sets up, or whatever PYK_SPARK_PYTHON
names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.contestants import Contestant, both
from bench.table import Row, row_of_rounds
from tests.clients.stored import create_topic, wait_until_known

TITLE: Final = "Spark's source and sink beside Apache Kafka 4.3.1: medians of rounds in turns"
PYTHON: Final = "PYK_SPARK_PYTHON"
DEFAULT: Final = Path(".cache/spark/4.0.0/bin/python")
ROUNDS: Final = 3
CASES: Final = {"100 B": (1_000_000, 100), "1 KB": (300_000, 1000)}
"""How many rows of how many bytes."""
PARTITIONS: Final = 4
GOAL: Final = "Kafka at least 1"


class Spark:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def do(self, **asked: object) -> float:
        """The seconds that it took."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return float(self.line())

    def line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "Spark has ended; run bench.spark_client by hand to see why"
        return line.strip()


def rows() -> Sequence[Row]:
    with (
        tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home,
        both(Path(home).resolve()) as contestants,
        running() as spark,
    ):
        for each in contestants:
            # What Spark and Java compile when they first do something is nobody's figure.
            measure(spark, each, "warm", 100_000, 100)
        return [
            row for case, size in CASES.items() for row in compared(spark, contestants, case, *size)
        ]


def compared(
    spark: Spark, contestants: Sequence[Contestant], case: str, count: int, size: int
) -> Iterator[Row]:
    rounds: dict[str, list[dict[str, float]]] = defaultdict(list)
    for turn in range(ROUNDS):
        order = contestants if turn % 2 == 0 else contestants[::-1]
        found = {e.name: measure(spark, e, f"t{size}-{turn}", count, size) for e in order}
        for verb in ("writes", "reads"):
            rounds[verb].append({each.name: found[each.name][verb] for each in contestants})
        for verb in ("writes", "reads"):
            rounds[f"broker's CPU, {verb}"].append(
                {each.name: found[each.name][f"{verb} cpu"] for each in contestants}
            )
    for what, figures in rounds.items():
        yield row_of_rounds(f"{what}, {case}", "s/Mrow", figures, GOAL)
    print(f"  {case}", file=sys.stderr)


def measure(spark: Spark, each: Contestant, topic: str, count: int, size: int) -> dict[str, float]:
    """Seconds for a million rows."""
    create_topic(each.address, topic, PARTITIONS)
    wait_until_known(each.address, topic, PARTITIONS)
    found: dict[str, float] = {}
    asked = {"address": each.address, "topic": topic, "rows": count, "size": size}
    for verb in ("write", "read"):
        before = each.cpu_seconds()
        found[f"{verb}s"] = spark.do(verb=verb, **asked) / count * 1e6
        found[f"{verb}s cpu"] = (each.cpu_seconds() - before) / count * 1e6
    return found


@contextmanager
def running() -> Iterator[Spark]:
    python = Path(os.environ.get(PYTHON) or DEFAULT)
    if not python.exists():
        raise SystemExit(f"{python} is not there: make sparktest sets it up, or set {PYTHON}")
    with subprocess.Popen(
        [str(python), "-m", "bench.spark_client"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            spark = Spark(process)
            while spark.line() != "ready":
                pass
            yield spark
        finally:
            process.kill()
