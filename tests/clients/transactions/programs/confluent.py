"""Transactions of confluent-kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.clients.groups.programs.member import Offset, Partition
from tests.clients.transactions.programs.actor import (
    FETCH_WAIT_MS,
    METADATA_AGE_MS,
    POLL_SECONDS,
    RECORDS_MAX,
    WAIT,
    Command,
    Found,
    Pause,
    Refused,
    Told,
    run,
)


def settings(asked: Command) -> dict[str, Any]:
    return {
        "bootstrap.servers": asked["servers"],
        "reconnect.backoff.max.ms": 200,
        # It forgets its brokers when the last is gone, and its transaction hangs then.
        "metadata.recovery.strategy": "none",
        "log_level": 3,
    }


def reading(asked: Command, isolation: str) -> dict[str, Any]:
    return settings(asked) | {
        "isolation.level": isolation,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": FETCH_WAIT_MS,
        "topic.metadata.refresh.interval.ms": METADATA_AGE_MS,
    }


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as failure:
        raise Refused(failure.args[0].name()) from failure
    except SystemError as crash:
        # A fatal error was raised in the middle of the callback of a delivery.
        if not isinstance(crash.__cause__, KafkaException):
            raise
        raise Refused(crash.__cause__.args[0].name()) from crash


class ConfluentProducer:
    def __init__(self, asked: Command) -> None:
        self._asked = asked
        self._producer = Producer(
            settings(asked)
            | {
                "transactional.id": asked["transactional_id"],
                "transaction.timeout.ms": asked["timeout_ms"],
                "linger.ms": 1,
            }
        )
        with refusals():
            self._producer.init_transactions(WAIT)

    def begin(self) -> None:
        with refusals():
            self._producer.begin_transaction()

    def send(self, partition: Partition, value: bytes) -> None:
        failures: list[KafkaError] = []

        def note(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        with refusals():
            self._producer.produce(
                partition.topic, value, partition=partition.number, on_delivery=note
            )
            if self._producer.flush(WAIT):
                raise Refused("not acknowledged")
            if failures:
                raise KafkaException(failures[0])

    def offsets(self, group: str, offsets: list[Offset]) -> None:
        consumer = Consumer(settings(self._asked) | {"group.id": group})
        with refusals():
            self._producer.send_offsets_to_transaction(
                [TopicPartition(*each) for each in offsets],
                consumer.consumer_group_metadata(),
                WAIT,
            )
        consumer.close()

    def commit(self) -> None:
        with refusals():
            self._producer.commit_transaction(WAIT)

    def abort(self) -> None:
        with refusals():
            self._producer.abort_transaction(WAIT)

    def close(self) -> None:
        """It has no such thing, but for being forgotten."""


class ConfluentReader:
    def __init__(self, asked: Command, told: Told) -> None:
        self._told = told
        self._consumer = Consumer(reading(asked, asked["isolation"]) | {"group.id": "nobody"})
        self._consumer.assign(
            [
                TopicPartition(topic, number, OFFSET_BEGINNING)
                for topic, number in asked["partitions"]
            ]
        )

    def poll(self) -> None:
        for each in found(self._consumer.consume(RECORDS_MAX, POLL_SECONDS)):
            self._told.read(each)

    def close(self) -> None:
        self._consumer.close()


class ConfluentCopier:
    def __init__(self, asked: Command, told: Told, pause: Pause) -> None:
        self._asked = asked
        self._told = told
        self._pause = pause
        self._producer = self._new_producer()
        self._consumer = Consumer(
            reading(asked, "read_committed")
            | {
                "group.id": asked["group"],
                "session.timeout.ms": asked["session_ms"],
                "heartbeat.interval.ms": asked["heartbeat_ms"],
            }
        )
        self._consumer.subscribe([asked["source"]], on_assign=self._note_assigned)

    def _new_producer(self) -> Producer:
        producer = Producer(
            settings(self._asked)
            | {
                "transactional.id": self._asked["transactional_id"],
                "transaction.timeout.ms": self._asked["timeout_ms"],
                "linger.ms": 1,
            }
        )
        producer.init_transactions(WAIT)
        return producer

    def _note_assigned(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._told.assigned(Partition(each.topic, each.partition) for each in partitions)

    def poll(self) -> None:
        records = list(found(self._consumer.consume(RECORDS_MAX, POLL_SECONDS)))
        if not records:
            return
        try:
            self._copy(records)
        except KafkaException as failure:
            self._told.aborted(failure)
            self._recover(self._producer.abort_transaction)
        else:
            self._told.copied(records)

    def _copy(self, records: list[Found]) -> None:
        self._producer.begin_transaction()
        for each in records:
            self._producer.produce(
                self._asked["target"], each.value, partition=each.partition.number
            )
        self._producer.flush(WAIT)
        self._pause.here()
        offsets = {each.partition: each.offset + 1 for each in records}
        self._producer.send_offsets_to_transaction(
            [TopicPartition(*where, offset) for where, offset in offsets.items()],
            self._consumer.consumer_group_metadata(),
            WAIT,
        )
        self._producer.commit_transaction(WAIT)

    def _recover(self, abort: Callable[[float], None]) -> None:
        """Nothing of the transaction is left, and what it has read is read again."""
        try:
            abort(WAIT)
        except KafkaException:
            self._producer = self._new_producer()
        for each in self._consumer.committed(self._consumer.assignment(), WAIT):
            offset = OFFSET_BEGINNING if each.offset < 0 else each.offset
            self._consumer.seek(TopicPartition(each.topic, each.partition, offset))

    def close(self) -> None:
        self._consumer.close()


def found(messages: list[Message]) -> Iterator[Found]:
    for message in messages:
        topic, number, offset = message.topic(), message.partition(), message.offset()
        value = message.value()
        if message.error() is None:
            assert topic is not None
            assert number is not None
            assert offset is not None
            assert isinstance(value, bytes)
            yield Found(Partition(topic, number), offset, value)


class Confluent:
    def produce(self, asked: Command) -> ConfluentProducer:
        return ConfluentProducer(asked)

    def read(self, asked: Command, told: Told) -> ConfluentReader:
        return ConfluentReader(asked, told)

    def copy(self, asked: Command, told: Told, pause: Pause) -> ConfluentCopier:
        return ConfluentCopier(asked, told, pause)


if __name__ == "__main__":
    run(Confluent())
