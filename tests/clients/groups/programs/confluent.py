"""A member that is a consumer of confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.clients.groups.programs.member import (
    FETCH_WAIT_MS,
    METADATA_AGE_MS,
    POLL_SECONDS,
    Join,
    Offset,
    Partition,
    Told,
    run,
)

RECORDS_MAX = 100


class Confluent:
    def __init__(self, join: Join, told: Told) -> None:
        self._told = told
        self._consumer = Consumer(settings(join))
        self._consumer.subscribe(
            join.topics if join.pattern is None else [f"^{join.pattern}$"],
            on_assign=lambda _, found: told.assigned(plain(found)),
            on_revoke=self._let_go,
            on_lost=lambda _, found: told.lost(plain(found)),
        )

    def _let_go(self, _: Consumer, found: Sequence[TopicPartition]) -> None:
        self._commit(self._told.uncommitted(plain(found)))
        self._told.revoked(plain(found))

    def poll(self) -> None:
        for message in self._consumer.consume(RECORDS_MAX, POLL_SECONDS):
            if error := message.error():
                self._told.failed(KafkaException(error))
                continue
            topic, number, offset = message.topic(), message.partition(), message.offset()
            assert topic is not None
            assert number is not None
            assert offset is not None
            value = message.value()
            assert isinstance(value, bytes)
            self._told.read(Partition(topic, number), offset, value)

    def commit(self) -> None:
        self._commit(self._told.uncommitted())

    def _commit(self, offsets: list[Offset]) -> None:
        if offsets:
            asked = [TopicPartition(*each) for each in offsets]
            for outcome in self._consumer.commit(offsets=asked, asynchronous=False):
                if outcome.error is not None:
                    raise KafkaException(outcome.error)
            self._told.committed(offsets)

    def close(self) -> None:
        self._consumer.close()


def settings(join: Join) -> dict[str, Any]:
    shared = {
        "bootstrap.servers": join.servers,
        "group.id": join.group,
        "group.protocol": join.protocol,
        "group.instance.id": join.instance or "",
        "client.rack": join.rack or "",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": FETCH_WAIT_MS,
        "topic.metadata.refresh.interval.ms": METADATA_AGE_MS,
        "reconnect.backoff.max.ms": 200,
        "log_level": 3,
    }
    if join.protocol == "consumer":
        return shared | ({"group.remote.assignor": join.assignor} if join.assignor else {})
    return shared | {
        "partition.assignment.strategy": join.assignor,
        "session.timeout.ms": join.session_ms,
        "heartbeat.interval.ms": join.heartbeat_ms,
    }


def plain(found: Iterable[TopicPartition]) -> list[Partition]:
    return [Partition(each.topic, each.partition) for each in found]


if __name__ == "__main__":
    run(Confluent)
