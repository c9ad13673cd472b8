"""The partitions of a broker, as the cluster's image says."""

from __future__ import annotations

import pytest

from pyk.config.settings import BrokerSettings
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.records import PartitionState
from pyk.replication.flushing import Flusher
from pyk.replication.partition import ACKS_ALL, Waiter
from pyk.replication.replicas import Replicas
from pyk.types import TopicPartition, Uuid
from tests.log.test_log import batch
from tests.simulated_disk import ROOT, SimulatedDisk

ME, OTHER = 1, 2
FIRST_ID, SECOND_ID = Uuid(b"the first topic."), Uuid(b"the second topic")


def topic(topic_id: Uuid = FIRST_ID, leader: int = ME, partitions: int = 2) -> Topic:
    state = PartitionState(replicas=(leader,), isr=(leader,), leader=leader, leader_epoch=3)
    return Topic("orders", topic_id, (state,) * partitions, revision=1)


def image(*topics: Topic) -> ClusterImage:
    return ClusterImage(topics={each.name: each for each in topics})


@pytest.fixture
def directory() -> DataDirectory:
    return DataDirectory.open(SimulatedDisk(), ROOT / "data", lambda _: LogConfig())


@pytest.fixture
def overrides() -> dict[str, str]:
    return {}


@pytest.fixture
def replicas(directory: DataDirectory, overrides: dict[str, str]) -> Replicas:
    settings = BrokerSettings()
    return Replicas(ME, directory, Flusher(), lambda _: settings.topic_config(overrides))


def test_a_partition_has_its_log_when_it_is_first_asked_for(
    replicas: Replicas, directory: DataDirectory
) -> None:
    assert directory.partitions == set()
    partition = replicas.leader_of(topic(), 1)
    assert partition.leader_epoch == 3
    assert directory.topic_ids == {TopicPartition("orders", 1): FIRST_ID}
    assert replicas.leader_of(topic(), 1) is partition


@pytest.mark.parametrize(
    ("asked", "number", "code"),
    [
        (topic(), 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic(), -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic(leader=OTHER), 0, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_what_is_not_led_here_is_refused(
    replicas: Replicas, asked: Topic, number: int, code: ErrorCode
) -> None:
    with pytest.raises(KafkaError) as refused:
        replicas.leader_of(asked, number)
    assert refused.value.code == code


def test_a_topic_that_was_made_again_begins_empty(
    replicas: Replicas, directory: DataDirectory
) -> None:
    replicas.leader_of(topic(), 0).produce(batch(1), acks=ACKS_ALL, now_ms=0)
    again = replicas.leader_of(topic(SECOND_ID), 0)
    assert again.offsets.end == 0
    assert directory.topic_ids[TopicPartition("orders", 0)] == SECOND_ID


async def test_the_partitions_of_a_deleted_topic_go_and_wake_who_waits(
    replicas: Replicas, directory: DataDirectory
) -> None:
    partition = replicas.leader_of(topic(), 0)
    waiter = Waiter()
    partition.add_waiter(waiter)
    replicas.on_image(image(topic()))
    assert replicas.leader_of(topic(), 0) is partition
    replicas.on_image(image())
    await waiter.wait()
    assert directory.partitions == set()
    assert list(replicas) == []


def test_logs_of_topics_that_nobody_knows_are_left_alone(
    replicas: Replicas, directory: DataDirectory
) -> None:
    stray = TopicPartition("stray", 0)
    directory.create(stray, SECOND_ID, LogConfig())
    replicas.on_image(image(topic()))
    assert replicas.strays(image(topic())) == [stray]
    replicas.on_image(image())
    assert directory.partitions == {stray}


def test_a_new_configuration_takes_effect(replicas: Replicas, overrides: dict[str, str]) -> None:
    partition = replicas.leader_of(topic(), 0)
    replicas.on_image(image(topic()))
    assert partition.log.config.retention_ms == LogConfig().retention_ms
    overrides |= {"retention.ms": "5000", "min.insync.replicas": "2"}
    replicas.on_image(image(topic()))
    assert partition.log.config.retention_ms == 5000
    assert partition.min_insync_replicas == 2
