"""A program that works on what a share group hands it, until it is ended or dies of it.

    python -m tests.clients.queueing.worker ADDRESS DIARY

It writes down each delivery before it looks at the record, and says of each record what became of
it, some at a time. Whatever goes wrong, it begins anew.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, Final

from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer

from tests.clients.queueing.work import GROUP, TOPIC, Diary, Entry, Event, Kind, kind_of

AT_ONCE: Final = 20
POLL: Final = 0.5
WAIT: Final = 10.0
SETTINGS: Final[dict[str, Any]] = {
    "group.id": GROUP,
    "share.acknowledgement.mode": "explicit",
    "max.poll.records": 100,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}
ANSWERS: Final = {
    Kind.GOOD: AcknowledgeType.ACCEPT,
    Kind.REJECTED: AcknowledgeType.REJECT,
    Kind.RELEASED: AcknowledgeType.RELEASE,
}


class Worker:
    def __init__(self, address: str, diary: Diary) -> None:
        self._address, self._diary = address, diary

    def run(self) -> None:
        while True:
            try:
                self._live()
            except KafkaException:
                continue

    def _live(self) -> None:
        consumer = ShareConsumer({**SETTINGS, "bootstrap.servers": self._address})
        consumer.subscribe([TOPIC])
        while True:
            found = [each for each in consumer.poll(POLL) if each.error() is None]
            self._diary.write(entry(Event.DELIVERED, each) for each in found)
            for first in range(0, len(found), AT_ONCE):
                self._work_on(consumer, found[first : first + AT_ONCE])

    def _work_on(self, consumer: ShareConsumer, messages: list[Message]) -> None:
        done = []
        for message in messages:
            kind = kind_of(number_of(message))
            if kind is Kind.DEADLY:
                os.kill(os.getpid(), signal.SIGKILL)
            consumer.acknowledge(message, ANSWERS[kind])
            if kind is Kind.GOOD:
                done.append(message)
        self._diary.write(entry(Event.PROCESSED, each) for each in done)
        outcomes = consumer.commit_sync(WAIT)
        taken = {each.partition for each, refusal in outcomes.items() if refusal is None}
        self._diary.write(
            entry(Event.ACKNOWLEDGED, each) for each in done if each.partition() in taken
        )


def entry(event: Event, message: Message) -> Entry:
    return Entry(event, number_of(message), message.delivery_count() or 0)


def number_of(message: Message) -> int:
    value = message.value()
    assert value is not None
    return int(value)


if __name__ == "__main__":
    Worker(sys.argv[1], Diary(Path(sys.argv[2]))).run()
