"""Dead letters, as somebody reads them who is in no group."""

from __future__ import annotations

import time
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.clients.groups.programs.member import Partition

WAIT = 90.0
PREFIX = "__dlq.errors."


class Letter(NamedTuple):
    value: bytes | None
    context: dict[str, str]
    """What is known of the record that it was, by the names of headers without their prefix."""


def text(value: str | bytes | None) -> str:
    assert isinstance(value, bytes)
    return value.decode()


def dead_letters(address: str, partition: Partition, count: int) -> list[Letter]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "nobody", "log_level": 0})
    consumer.assign([TopicPartition(*partition, OFFSET_BEGINNING)])
    found: list[Letter] = []
    deadline = time.monotonic() + WAIT
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count, 0.1):
            if message.error() is None:
                headers = dict(message.headers() or [])
                context = {
                    name.removeprefix(PREFIX): text(value)
                    for name, value in headers.items()
                    if name.startswith(PREFIX)
                }
                found.append(Letter(message.value(), context))
    consumer.close()
    assert len(found) == count, found
    return found
