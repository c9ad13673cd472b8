"""A copier that reads, writes and commits offsets in transactions, of a broker that is killed.

Each record is in the copy once and in order, whatever the copier had to abort and begin again.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.clients.brokers import running
from tests.clients.stored import create_topic
from tests.clients.test_kills_under_load import PATIENT, a_free_port, kill

SOURCE, COPY, GROUP = "source", "copy", "copiers"
RECORDS, AT_ONCE, KILLS = 2_000, 20, 3
WAIT = 60.0
STEADY = {**PATIENT, "metadata.recovery.strategy": "none"}
"""librdkafka forgets its brokers when the last is gone, and its transaction hangs then."""


class Copier:
    """One life after the other, each with a new producer, which fences the one before."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.copied = 0
        """How much of it was committed, as far as it was told."""
        self.lives = 0
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._has_ended.set()
        self._thread.join()

    def wait_for(self, count: int) -> None:
        deadline = time.monotonic() + WAIT
        while self.copied < count:
            assert time.monotonic() < deadline, f"{self.copied} of {count} in {self.lives} lives"
            time.sleep(0.01)

    def _run(self) -> None:
        while not self._has_ended.is_set():
            self.lives += 1
            try:
                self._live()
            except KafkaException:
                # What it is told may be that the outcome is not known: the committed offset knows.
                continue

    def _live(self) -> None:
        producer = Producer(
            {**STEADY, "bootstrap.servers": self._address, "transactional.id": "copier"}
        )
        producer.init_transactions(5)
        consumer = Consumer(
            {
                **STEADY,
                "bootstrap.servers": self._address,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        try:
            [committed] = consumer.committed([TopicPartition(SOURCE, 0)], timeout=5)
            if committed.error is not None:
                raise KafkaException(committed.error)
            self.copied = max(committed.offset, 0)
            consumer.assign([TopicPartition(SOURCE, 0, self.copied)])
            while not self._has_ended.is_set():
                self._copy(producer, consumer)
        finally:
            consumer.close()

    def _copy(self, producer: Producer, consumer: Consumer) -> None:
        messages = consumer.consume(AT_ONCE, 0.2)
        found = [m for m in messages if m.error() is None]
        if not found:
            return
        producer.begin_transaction()
        for message in found:
            producer.produce(COPY, message.value(), partition=0)
        last = found[-1].offset()
        assert last is not None
        position = [TopicPartition(SOURCE, 0, last + 1)]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), 5)
        producer.commit_transaction(5)
        self.copied = last + 1


def committed_numbers(address: str) -> list[int]:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(COPY, 0, OFFSET_BEGINNING)])
    found: list[int] = []
    while True:
        message = consumer.poll(WAIT)
        assert message is not None
        error, value = message.error(), message.value()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return found
        assert value is not None
        found.append(int(value))


def test_a_copy_has_each_record_once_and_in_order_though_the_broker_is_killed(
    tmp_path: Path,
) -> None:
    port = a_free_port()
    address = f"127.0.0.1:{port}"
    copier = Copier(address)
    with running(tmp_path / "data", "--port", str(port)) as broker:
        create_topic(address, SOURCE)
        create_topic(address, COPY)
        writer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
        for number in range(RECORDS):
            writer.produce(SOURCE, b"%d" % number, partition=0)
        assert writer.flush(WAIT) == 0
        copier.start()
        copier.wait_for(1)
        kill(broker)
    try:
        for life in range(KILLS):
            with running(tmp_path / "data", "--port", str(port)) as broker:
                enough = (life + 1) * RECORDS // (KILLS + 1)
                copier.wait_for(RECORDS if life == KILLS - 1 else enough)
                if life < KILLS - 1:
                    kill(broker)
                    continue
                copier.stop()
                assert committed_numbers(address) == list(range(RECORDS))
    finally:
        copier.stop()
