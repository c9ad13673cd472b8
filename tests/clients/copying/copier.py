"""A program that copies a topic, partition by partition, in transactions, until it is ended.

    python -m tests.clients.copying.copier ADDRESS NUMBER AT_ONCE

It reads as a member of a group, and commits how far it has read in the transaction of what it
writes. Whatever goes wrong, it begins anew: with a new producer, which fences the one before, and
from what the group has committed. It says what it does, a line for each transaction.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

SOURCE, COPY, GROUP = "source", "copy", "copiers"
COMMITTED, FAILED = "committed", "failed"
WAIT = 10.0
STEADY: dict[str, Any] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
    # librdkafka forgets its brokers when the last is gone, and its transaction hangs then.
    "metadata.recovery.strategy": "none",
}


class Copier:
    def __init__(self, address: str, number: int, at_once: int) -> None:
        self._address, self._name, self._at_once = address, f"copier-{number}", at_once

    def run(self) -> None:
        while True:
            try:
                self._live()
            except KafkaException:
                # What it is told may be that the outcome is not known: the committed offset knows.
                say(FAILED)

    def _live(self) -> None:
        producer = Producer(
            {**STEADY, "bootstrap.servers": self._address, "transactional.id": self._name}
        )
        producer.init_transactions(WAIT)
        consumer = Consumer(
            {
                **STEADY,
                "bootstrap.servers": self._address,
                "group.id": GROUP,
                # Who comes back as the same member has its partitions at once.
                "group.instance.id": self._name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe([SOURCE])
        try:
            while True:
                self._copy(producer, consumer)
        finally:
            consumer.close()

    def _copy(self, producer: Producer, consumer: Consumer) -> None:
        found = [each for each in consumer.consume(self._at_once, 0.2) if each.error() is None]
        if not found:
            return
        producer.begin_transaction()
        for message in found:
            producer.produce(COPY, message.value(), partition=partition_of(message))
        positions = {partition_of(message): message.offset() for message in found}
        offsets = [
            TopicPartition(SOURCE, number, last + 1)
            for number, last in positions.items()
            if last is not None
        ]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), WAIT)
        producer.commit_transaction(WAIT)
        say(COMMITTED)


def partition_of(message: Message) -> int:
    number = message.partition()
    assert number is not None
    return number


def say(line: str) -> None:
    # One write, so that a kill leaves no half of it.
    os.write(sys.stdout.fileno(), line.encode() + b"\n")


if __name__ == "__main__":
    Copier(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])).run()
