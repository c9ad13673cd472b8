"""What clients that nobody here wrote put in, they get out."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.clients.brokers import RunningBroker, running

WAIT = 20.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SENT: list[tuple[bytes | None, bytes | None, list[tuple[str, str | bytes | None]], int]] = [
    (b"key", b"value", [], 1_700_000_000_000),
    (None, b"no key", [("name", b"value"), ("name", b"again"), ("empty", b"")], 1_700_000_000_001),
    (b"tombstone", None, [], 1_600_000_000_000),
    (b"", b"", [], 1_700_000_000_002),
    (b"large", bytes(range(256)) * 2000, [], 1_700_000_000_003),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running(tmp_path_factory.mktemp("data")) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    return f"topic-{uuid.uuid4()}"


def producer(broker: RunningBroker, **config: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.address, "log_level": 0, **config})


def produce(broker: RunningBroker, topic: str, **config: Any) -> None:
    """Send them all, in order."""
    sender = producer(broker, **config)
    failures: list[object] = []

    def note(error: object, message: Message) -> None:
        if error is not None:
            failures.append(error)

    for key, value, headers, timestamp in SENT:
        sender.produce(
            topic, value, key, headers=headers, timestamp=timestamp, partition=0, on_delivery=note
        )
    assert sender.flush(WAIT) == 0
    assert failures == []


def consume(broker: RunningBroker, topic: str, offset: int = 0, **config: Any) -> list[Message]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "nobody's",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
            **config,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: list[Message] = []
    while True:
        message = consumer.poll(WAIT)
        assert message is not None
        if message.error() is not None:
            return found
        found.append(message)


def as_sent(message: Message) -> tuple[object, ...]:
    headers = message.headers() or []
    return message.key(), message.value(), headers, message.timestamp()[1]


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_gets_out_what_it_put_in(
    broker: RunningBroker, topic: str, codec: str
) -> None:
    produce(broker, topic, **{"compression.type": codec, "linger.ms": 50})
    found = consume(broker, topic)
    assert [as_sent(message) for message in found] == SENT
    assert [message.offset() for message in found] == list(range(len(SENT)))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_is_served(
    broker: RunningBroker, topic: str, acks: str
) -> None:
    produce(broker, topic, acks=acks)
    # Without acknowledgements the next request of the connection still comes after it.
    assert len(consume(broker, topic)) == len(SENT)


def test_an_idempotent_producer_gets_an_id(broker: RunningBroker, topic: str) -> None:
    produce(broker, topic, **{"enable.idempotence": True})
    assert len(consume(broker, topic)) == len(SENT)


@pytest.mark.parametrize("size", [1, 200_000])
def test_small_fetches_get_on(broker: RunningBroker, topic: str, size: int) -> None:
    produce(broker, topic)
    config = {"fetch.max.bytes": 10**6, "max.partition.fetch.bytes": size}
    assert len(consume(broker, topic, **config)) == len(SENT)


def test_offsets_are_found_by_time(broker: RunningBroker, topic: str) -> None:
    produce(broker, topic)
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "log_level": 0})
    for timestamp, offset in ((0, 0), (1_700_000_000_001, 1), (1_700_000_000_003, 4)):
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=WAIT)
        assert found.offset == offset
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT) == (0, 5)


def test_an_offset_that_is_not_there_is_an_error(broker: RunningBroker, topic: str) -> None:
    produce(broker, topic)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "g",
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 99)])
    message = consumer.poll(WAIT)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET


def test_a_batch_that_is_too_large_is_refused(broker: RunningBroker, topic: str) -> None:
    sender = producer(broker, **{"message.max.bytes": 5_000_000})
    failures: list[object] = []
    sender.produce(topic, bytes(2_000_000), on_delivery=lambda error, _: failures.append(error))
    assert sender.flush(WAIT) == 0
    (error,) = failures
    assert "too large" in str(error).lower()


def test_a_restart_loses_nothing_and_goes_on(tmp_path: Path, topic: str) -> None:
    with running(tmp_path / "data") as first:
        produce(first, topic, **{"enable.idempotence": True})
    with running(tmp_path / "data") as second:
        produce(second, topic)
        found = consume(second, topic)
    assert [as_sent(message) for message in found] == SENT * 2
    assert [message.offset() for message in found] == list(range(2 * len(SENT)))


def test_a_killed_broker_loses_nothing_that_was_acknowledged(tmp_path: Path, topic: str) -> None:
    with running(tmp_path / "data") as first:
        produce(first, topic, **{"enable.idempotence": True})
        first.process.kill()
        first.process.wait()
    with running(tmp_path / "data") as second:
        assert [as_sent(message) for message in consume(second, topic)] == SENT
