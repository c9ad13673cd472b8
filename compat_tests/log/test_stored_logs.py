"""What Kafka has in its data directory is read without it, while it runs and afterwards."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from compat_tests.kafka.server import KafkaServer, kafka_server
from compat_tests.log.test_data_directory import (
    BEGAN,
    EAGER_CLEANER,
    TOPICS,
    Seen,
    create_topics,
    fill,
    look,
    wait_until_compacted,
)
from pyk.spark.bounds import Bounds, Interval
from pyk.spark.options import ReadOptions
from tests.spark.stored import offsets, read

SPLITS = ("1", "13")
KEPT = EAGER_CLEANER | {"log.retention.ms": "-1"}
"""The records are some years old: nothing may go between what clients see and what is read."""


def options(root: Path, topic: str, **more: str) -> ReadOptions:
    return ReadOptions.parse({"path": str(root), "subscribe": topic, **more})


def check(root: Path, seen: dict[str, Seen], *, knows_the_start: bool) -> None:
    for topic, shown in seen.items():
        for splits in SPLITS:
            everything = options(root, topic, isolation="read_uncommitted", minPartitions=splits)
            found = [each for each in read(everything) if each.offset >= shown.start]
            assert found == shown.records, topic
            committed = offsets(read(options(root, topic, minPartitions=splits)))
            assert [each for each in committed if each >= shown.start] == shown.committed, topic
            if knows_the_start:
                assert committed == shown.committed, topic
        check_times(root, topic, shown)


def check_times(root: Path, topic: str, shown: Seen) -> None:
    for timestamp in range(BEGAN - 600, BEGAN + 3_500, 411):
        expected = [each for each in shown.records if each.timestamp >= timestamp]
        bounds = Bounds(timestamp_ms=Interval(start=timestamp))
        wanted = options(root, topic, isolation="read_uncommitted")
        found = [each for each in read(wanted, bounds) if each.timestamp >= timestamp]
        assert [each for each in found if each.offset >= shown.start] == expected, topic


def filled(server: KafkaServer) -> dict[str, Seen]:
    create_topics(server)
    fill(server)
    wait_until_compacted(server)
    return {topic: look(server, topic) for topic in TOPICS}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_kafkas_logs_are_read_beside_it_and_after_it(ending: str, tmp_path: Path) -> None:
    with kafka_server(KEPT, home=tmp_path) as server:
        seen = filled(server)
        check(server.data_dir, seen, knows_the_start=False)
        if ending == "killed":
            os.kill(server.pid, signal.SIGKILL)
    check(tmp_path / "data", seen, knows_the_start=ending == "stopped")
