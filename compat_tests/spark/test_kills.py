"""A query and its broker are killed, again and again: each record is in the table exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from compat_tests.spark.topics import Topics
from pyk.testing import serve_in_subprocess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS, RECORDS = 2, 40_000
SECONDS = 240.0


@contextmanager
def copying(address: str, topic: str, home: Path) -> Iterator[subprocess.Popen[str]]:
    """The query in a process group of its own, which is killed at the end: Java is a child."""
    command = [sys.executable, "-m", "compat_tests.spark.copying", address, topic, str(home)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    watchdog = threading.Timer(SECONDS, os.killpg, (process.pid, signal.SIGKILL))
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for_batches(process: subprocess.Popen[str], count: int) -> int:
    """The number of the last of so many, as the query tells them."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("batch "):
            count -= 1
            if count == 0:
                return int(line.split()[1])
    raise AssertionError("the query has ended")


@pytest.mark.timeout(900)
def test_each_record_is_in_the_table_once_whoever_is_killed(
    spark: SparkSession, tmp_path: Path
) -> None:
    with serve_in_subprocess() as broker:
        topics = Topics(broker.bootstrap_servers)
        topic = topics.create("numbers", partitions=PARTITIONS)
        for partition in range(PARTITIONS):
            topics.write(topic, range(RECORDS), partition=partition)
        with copying(broker.bootstrap_servers, topic, tmp_path) as query:
            assert wait_for_batches(query, 2) == 1
        with copying(broker.bootstrap_servers, topic, tmp_path) as query:
            wait_for_batches(query, 2)
            broker.kill()
            broker.start()
            # It goes on by itself: what was acknowledged is there, and offsets have not gone back.
            wait_for_batches(query, 2)
            broker.kill()
        broker.start()
        with copying(broker.bootstrap_servers, topic, tmp_path) as query:
            last = PARTITIONS * RECORDS // 4_000 - 1
            while wait_for_batches(query, 1) < last:
                pass
    rows = spark.read.parquet(str(tmp_path / "table")).collect()
    found = Counter((row.partition, row.offset, row.value) for row in rows)
    assert found == Counter(
        (partition, number, str(number))
        for partition in range(PARTITIONS)
        for number in range(RECORDS)
    )
