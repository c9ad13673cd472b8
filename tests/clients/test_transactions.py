"""Transactional producers of Python's clients, which speak the first version of transactions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from tests.clients.brokers import RunningBroker
from tests.clients.stored import create_topic

WAIT = 30.0
QUIET = {"log_level": 0}


def producer_of(broker: RunningBroker, transactional_id: str, **more: Any) -> Producer:
    producer = Producer(
        {
            **QUIET,
            "bootstrap.servers": broker.address,
            "transactional.id": transactional_id,
            **{name.replace("_", "."): value for name, value in more.items()},
        }
    )
    producer.init_transactions(WAIT)
    return producer


def committed_records(broker: RunningBroker, topic: str) -> list[bytes | None]:
    """What a reader of committed records finds up to the end, which it comes to only when all
    transactions before it are over."""
    options = {"isolation.level": "read_committed", "enable.partition.eof": True, **QUIET}
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "nobody", **options})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[bytes | None] = []
    while True:
        message = consumer.poll(WAIT)
        assert message is not None
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return found
        found.append(message.value())


def committed_offset(broker: RunningBroker, group_id: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group_id, **QUIET})
    [found] = consumer.committed([TopicPartition(topic, 0)], timeout=WAIT)
    consumer.close()
    return int(found.offset)


@pytest.fixture(autouse=True)
def made(broker: RunningBroker, topic: str) -> None:
    create_topic(broker.address, topic)


def test_librdkafka_commits_and_aborts(broker: RunningBroker, topic: str) -> None:
    producer = producer_of(broker, topic)
    for number in range(6):
        producer.begin_transaction()
        for letter in "ab":
            producer.produce(topic, f"{number}{letter}".encode())
        if number % 2:
            producer.abort_transaction(WAIT)
        else:
            producer.commit_transaction(WAIT)
    assert committed_records(broker, topic) == [b"0a", b"0b", b"2a", b"2b", b"4a", b"4b"]


def test_librdkafka_commits_offsets_with_its_records(broker: RunningBroker, topic: str) -> None:
    producer, group_id = producer_of(broker, topic), f"group of {topic}"
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group_id, **QUIET})
    for offset, is_committed in ((1, True), (2, False)):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % offset)
        position = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), WAIT)
        if is_committed:
            producer.commit_transaction(WAIT)
        else:
            producer.abort_transaction(WAIT)
        assert committed_offset(broker, group_id, topic) == 1
    assert committed_records(broker, topic) == [b"1"]
    consumer.close()


def test_librdkafka_is_fenced_when_it_is_replaced(broker: RunningBroker, topic: str) -> None:
    zombie = producer_of(broker, topic)
    zombie.begin_transaction()
    zombie.produce(topic, b"lost")
    zombie.flush(WAIT)
    successor = producer_of(broker, topic)
    zombie.produce(topic, b"late")
    with pytest.raises(KafkaException) as failure:
        zombie.commit_transaction(WAIT)
    assert failure.value.args[0].code() == KafkaError._FENCED
    successor.begin_transaction()
    successor.produce(topic, b"kept")
    successor.commit_transaction(WAIT)
    assert committed_records(broker, topic) == [b"kept"]


def test_what_takes_librdkafka_too_long_is_aborted(broker: RunningBroker, topic: str) -> None:
    slow = producer_of(broker, topic, transaction_timeout_ms=1000)
    slow.begin_transaction()
    slow.produce(topic, b"lost")
    slow.flush(WAIT)
    assert committed_records(broker, topic) == []
    with pytest.raises(KafkaException):
        slow.commit_transaction(WAIT)
    assert committed_records(broker, topic) == []


def test_aiokafka_commits_and_aborts(broker: RunningBroker, topic: str) -> None:
    async def write() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=broker.address, transactional_id=topic)
        await producer.start()
        try:
            for number in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, b"%d" % number)
                offsets = {AioPartition(topic, 0): number}
                await producer.send_offsets_to_transaction(offsets, f"group of {topic}")
                if number % 2:
                    await producer.abort_transaction()
                else:
                    await producer.commit_transaction()
        finally:
            await producer.stop()

    asyncio.run(write())
    assert committed_records(broker, topic) == [b"0", b"2"]
    assert committed_offset(broker, f"group of {topic}", topic) == 2
