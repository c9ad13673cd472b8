"""A member of confluent-kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import (
    AcknowledgeType,
    KafkaException,
    ShareConsumer,
    TopicPartition,
)

from tests.clients.groups.programs.member import Partition
from tests.clients.queues.programs.member import (
    FETCH_WAIT_MS,
    METADATA_AGE_MS,
    WAIT,
    Got,
    Join,
    Place,
    Refused,
    Told,
    run,
)

HOW = {
    "accept": AcknowledgeType.ACCEPT,
    "release": AcknowledgeType.RELEASE,
    "reject": AcknowledgeType.REJECT,
}


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as failure:
        raise Refused(failure.args[0].name()) from failure


class Confluent:
    def __init__(self, joined: Join, told: Told) -> None:
        self._told = told
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": joined.servers,
                "group.id": joined.group,
                "share.acknowledgement.mode": "explicit" if joined.is_explicit else "implicit",
                "max.poll.records": joined.records_max,
                "fetch.wait.max.ms": FETCH_WAIT_MS,
                "topic.metadata.refresh.interval.ms": METADATA_AGE_MS,
                "reconnect.backoff.max.ms": 200,
                "metadata.recovery.strategy": "none",
                "log_level": 3,
            }
        )
        self._consumer.set_acknowledgement_commit_callback(self._note)
        self._consumer.subscribe(joined.topics)

    def _note(
        self, offsets: dict[TopicPartition, set[int]], failure: KafkaException | None
    ) -> None:
        error = None if failure is None else failure.args[0].name()
        for where, acknowledged in offsets.items():
            self._told.outcome(Partition(where.topic, where.partition), acknowledged, error)

    def poll(self, seconds: float) -> list[Got]:
        found = []
        with refusals():
            messages = self._consumer.poll(seconds)
        for message in messages:
            if message.error() is not None:
                continue
            topic, number, offset = message.topic(), message.partition(), message.offset()
            value, deliveries = message.value(), message.delivery_count()
            assert topic is not None
            assert number is not None
            assert offset is not None
            assert deliveries is not None
            found.append(Got(topic, number, offset, (value or b"").decode(), deliveries))
        return found

    def acknowledge(self, places: list[Place], how: str) -> None:
        with refusals():
            for each in places:
                self._consumer.acknowledge_offset(*each, HOW[how])

    def renew(self, places: list[Place]) -> None:
        raise Refused("it has no such thing")

    def commit(self) -> dict[Partition, str | None]:
        with refusals():
            outcomes = self._consumer.commit_sync(WAIT)
        return {
            Partition(where.topic, where.partition): None
            if failure is None
            else failure.args[0].name()
            for where, failure in outcomes.items()
        }

    def commit_later(self) -> None:
        with refusals():
            self._consumer.commit_async()

    def close(self) -> None:
        self._consumer.close()


if __name__ == "__main__":
    run(Confluent)
