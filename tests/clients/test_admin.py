"""Administration with confluent-kafka, as its users do it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from tests.clients.brokers import RunningBroker, running

WAIT = 20.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running(tmp_path_factory.mktemp("data")) as broker:
        yield broker


@pytest.fixture
def admin(broker: RunningBroker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address, "log_level": 0})


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = f"topic-{uuid.uuid4()}"
    (made,) = admin.create_topics([NewTopic(name, 3, 1)]).values()
    made.result(WAIT)
    return name


def test_a_topic_is_there_as_soon_as_it_was_made(admin: AdminClient, topic: str) -> None:
    found = admin.list_topics(topic, timeout=WAIT).topics[topic]
    assert found.error is None
    assert len(found.partitions) == 3


def test_making_a_topic_twice_is_an_error(admin: AdminClient, topic: str) -> None:
    (made,) = admin.create_topics([NewTopic(topic, 1, 1)]).values()
    with pytest.raises(KafkaException) as refused:
        made.result(WAIT)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS


def test_more_partitions_are_added(admin: AdminClient, topic: str) -> None:
    (added,) = admin.create_partitions([NewPartitions(topic, 5)]).values()
    added.result(WAIT)
    assert len(admin.list_topics(topic, timeout=WAIT).topics[topic].partitions) == 5


def test_a_deleted_topic_is_gone(admin: AdminClient, broker: RunningBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    producer.produce(topic, b"value", partition=1)
    assert producer.flush(WAIT) == 0
    assert (broker.data_dir / f"{topic}-1").exists()
    (deleted,) = admin.delete_topics([topic]).values()
    deleted.result(WAIT)
    assert topic not in admin.list_topics(timeout=WAIT).topics
    (made,) = admin.create_topics([NewTopic(topic, 2, 1)]).values()
    made.result(WAIT)
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "log_level": 0})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 1), timeout=WAIT) == (0, 0)


def test_records_are_deleted(admin: AdminClient, broker: RunningBroker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for _ in range(10):
        producer.produce(topic, b"value", partition=0)
    assert producer.flush(WAIT) == 0
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 7)]).values()
    assert deleted.result(WAIT).low_watermark == 7
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "log_level": 0})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT) == (7, 10)


def test_a_configuration_takes_effect_when_it_is_changed(
    admin: AdminClient, broker: RunningBroker, topic: str
) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    resource.add_incremental_config(
        ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET)
    )
    (altered,) = admin.incremental_alter_configs([resource]).values()
    altered.result(WAIT)
    (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    assert described.result(WAIT)["max.message.bytes"].value == "1000"
    failures: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    producer.produce(topic, bytes(5000), on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(WAIT) == 0
    (error,) = failures
    assert error is not None
    assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_two_hundred_partitions_and_many_topics_are_made(admin: AdminClient) -> None:
    prefix = uuid.uuid4()
    topics = [NewTopic(f"{prefix}-{number}", 1, 1) for number in range(200)]
    for made in admin.create_topics([*topics, NewTopic(f"{prefix}-wide", 200, 1)]).values():
        made.result(WAIT)
    found = admin.list_topics(timeout=WAIT).topics
    assert len(found[f"{prefix}-wide"].partitions) == 200
    assert sum(name.startswith(str(prefix)) for name in found) == 201


def test_the_cluster_is_described(admin: AdminClient, broker: RunningBroker) -> None:
    found = admin.describe_cluster().result(WAIT)
    (node,) = found.nodes
    assert f"{node.host}:{node.port}" == broker.address
