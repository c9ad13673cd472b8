"""A data directory is read again and again while its broker appends, rolls and compacts."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer

from pyk.spark.options import ReadOptions
from pyk.spark.plan import plan
from pyk.testing import serve_in_thread
from tests.spark.stored import read_one

WAIT = 90.0
BROKER = {
    "log.cleaner.backoff.ms": "20",
    "log.segment.delete.delay.ms": "0",
    "log.index.size.max.bytes": "240",
    "log.index.interval.bytes": "512",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleanup.policy": "compact",
}
"""Segments of some kilobytes, compacted as soon as there is a second one."""
ROUNDS = 25
UNIQUE_EVERY = 3


class Traffic:
    """A producer that goes on until it is told to stop. Every third key comes only once."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap_servers, "linger.ms": 1, "log_level": 0}
        self._producer = Producer(settings)
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.unique: dict[int, bytes] = {}
        """Keys that no compaction removes, by offset."""
        self.offsets: set[int] = set()
        self.failed: list[object] = []

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._is_over.is_set():
            key = b"u%d" % number if number % UNIQUE_EVERY == 0 else b"k%d" % (number % 20)
            self._producer.produce(
                self._topic, key=key, value=b"x" * 60, partition=0, on_delivery=self._note
            )
            number += 1
            if number % 10 == 0:
                self._producer.flush(WAIT)
        self._producer.flush(WAIT)

    def _note(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
            return
        offset, key = message.offset(), message.key()
        assert offset is not None
        assert isinstance(key, bytes)
        self.offsets.add(offset)
        if key.startswith(b"u"):
            self.unique[offset] = key


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_whatever_the_broker_does_no_record_is_missed_or_seen_twice(
    tmp_path: Path, isolation: str
) -> None:
    given = {"path": str(tmp_path), "subscribe": "t", "isolation": isolation}
    wanted = ReadOptions.parse({**given, "minPartitions": "7"})
    went = 0
    with serve_in_thread(BROKER, topics=["t"], data_dir=tmp_path) as broker:
        with Traffic(broker.bootstrap_servers, "t") as traffic:
            for _ in range(ROUNDS):
                acknowledged = _grown(traffic)
                splits = plan(wanted)
                rows = [row for split in splits for row in read_one(split, wanted)]
                offsets = [row.offset for row in rows]
                assert offsets == sorted(set(offsets)), "twice, or out of order"
                keys = {row.offset: row.key for row in rows}
                missed = acknowledged.items() - keys.items()
                assert not missed, f"{len(missed)} missed"
                went = max(went, offsets[-1] + 1 - len(offsets))
        assert not traffic.failed
    assert went > 100, "it was not compacted while it was read"


def _grown(traffic: Traffic) -> dict[int, bytes]:
    """What is acknowledged, once that is more than it was."""
    before, deadline = len(traffic.offsets), time.monotonic() + WAIT
    while len(traffic.offsets) < before + 20:
        assert time.monotonic() < deadline, "nothing is written any more"
        time.sleep(0.001)
    return dict(traffic.unique.copy())
