"""Lines that are written all the time, and the counts of their words as they come out."""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from threading import Event, Thread

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from tests.clients.groups.group import producer

WAIT = 90.0
PACE_SECONDS = 0.005
PARTITIONS = 2
QUIET = {"log_level": 0, "reconnect.backoff.max.ms": 200, "metadata.recovery.strategy": "none"}


class Lines:
    """Written by a thread, whether or not anybody answers. Each is acknowledged in the end."""

    def __init__(self, address: str, topic: str) -> None:
        self.words: Counter[str] = Counter()
        self.count = 0
        self._topic = topic
        self._producer: Producer = producer(address)
        self._is_over = Event()
        self._failures: list[object] = []
        self._thread = Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        for number in itertools.count():
            if self._is_over.is_set():
                return
            words = ["every", f"third-{number % 3}", f"tenth-{number % 10}", "every"]
            self._producer.produce(
                self._topic,
                " ".join(words),
                partition=number % PARTITIONS,
                on_delivery=lambda error, _: self._failures.append(error) if error else None,
            )
            self.words.update(words)
            self.count += 1
            self._producer.poll(PACE_SECONDS)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(WAIT) == 0
        assert self._failures == []


class Counts:
    """What a reader of committed records has read of a topic, from its beginning.

    Of each word it must read 1, 2, 3 and so on: nothing is missing, or there twice.
    """

    def __init__(self, address: str, topic: str, value: Callable[[bytes], int]) -> None:
        self.of: dict[str, int] = defaultdict(int)
        self._value = value
        self._consumer = Consumer(
            {
                **QUIET,
                "bootstrap.servers": address,
                "group.id": "nobody",
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign(
            [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
        )

    @property
    def total(self) -> int:
        return sum(self.of.values())

    def wait_for(self, total: int, explain: Callable[[], str]) -> None:
        deadline = time.monotonic() + WAIT
        while self.total < total:
            assert time.monotonic() < deadline, f"{self.total} of {total}; {explain()}"
            for message in self._consumer.consume(100, 0.1):
                key, value = message.key(), message.value()
                if message.error() is None:
                    assert isinstance(key, bytes)
                    assert isinstance(value, bytes)
                    self._note(key.decode(), self._value(value))

    def _note(self, word: str, count: int) -> None:
        assert count == self.of[word] + 1, f"{word}: {count} after {self.of[word]}"
        self.of[word] = count

    def close(self) -> None:
        self._consumer.close()
