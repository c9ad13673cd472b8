"""What librdkafka is particular about, and what it tells its users when things are not there."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.clients.adapters.client import WAIT, Sent
from tests.clients.adapters.confluent import Confluent
from tests.clients.brokers import RunningBroker
from tests.clients.stored import create_topic

SENT = [Sent(value=bytes(size)) for size in (10, 300_000, 0, 70_000, 500)]


def reading(broker: RunningBroker, topic: str, offset: int, **config: object) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "nobody's",
            "enable.auto.commit": False,
            "log_level": 0,
            **config,
        }
    )
    consumer.assign([TopicPartition(topic, 0, offset)])
    return consumer


@pytest.mark.parametrize("size", [1, 200_000])
def test_small_fetches_get_on(broker: RunningBroker, topic: str, size: int) -> None:
    create_topic(broker.address, topic)
    for each in SENT:
        Confluent(broker.address).produce(topic, [each])
    limits = {"fetch.max.bytes": 10**6, "max.partition.fetch.bytes": size}
    consumer = reading(broker, topic, 0, **limits)
    for each in SENT:
        message = consumer.poll(WAIT)
        assert message is not None
        assert message.value() == each.value
    consumer.close()


def test_an_offset_that_is_not_there_is_an_error(broker: RunningBroker, topic: str) -> None:
    create_topic(broker.address, topic)
    Confluent(broker.address).produce(topic, SENT)
    consumer = reading(broker, topic, 99, **{"auto.offset.reset": "error"})
    message = consumer.poll(WAIT)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._AUTO_OFFSET_RESET
    consumer.close()
