"""The partitions of a broker, as the cluster's image says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from pyk.config.settings import BrokerSettings
from pyk.config.topic import TopicConfig
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.metadata.image import ClusterImage, Configured, Topic
from pyk.metadata.records import (
    PartitionState,
    TopicRecord,
    encode,
    partition_key,
    printed,
    topic_key,
)
from pyk.metadata.store import Delete, Put
from pyk.offload import at_once as at_once_elsewhere
from pyk.replication.flushing import Flusher
from pyk.replication.partition import ACKS_ALL, Waiter
from pyk.replication.replicas import Replicas
from pyk.replication.topic_logs import TopicLogs
from pyk.turns import at_once
from pyk.types import TopicPartition, Uuid
from tests.log.test_log import add, batch
from tests.metadata.test_image import Followed
from tests.simulated_disk import ROOT, SimulatedDisk

ME, OTHER = 1, 2
FIRST_ID, SECOND_ID = Uuid(b"the first topic."), Uuid(b"the second topic")


def topic(
    topic_id: Uuid = FIRST_ID,
    leader: int = ME,
    partitions: int = 2,
    *,
    isr: tuple[int, ...] | None = None,
    epoch: int = 3,
) -> Topic:
    isr = isr or (leader,)
    state = PartitionState(replicas=isr, isr=isr, leader=leader, leader_epoch=epoch)
    return Topic("orders", topic_id, (state,) * partitions, revision=1)


def image(*topics: Topic) -> ClusterImage:
    return ClusterImage(topics={each.name: each for each in topics})


def gone(directory: DataDirectory) -> list[str]:
    """Directories that are not a partition's any more."""
    names = directory._disk.names(directory.path)
    return [name for name in names if name.endswith(("-delete", "-stray"))]


@pytest.fixture
def directory() -> DataDirectory:
    return DataDirectory.open(SimulatedDisk(), ROOT / "data", lambda _: LogConfig())


@pytest.fixture
def overrides() -> dict[str, str]:
    return {}


@pytest.fixture
def replicas(directory: DataDirectory, overrides: dict[str, str]) -> Replicas:
    def config_of(name: str) -> TopicConfig:
        return settings.topic_config(overrides)

    settings = BrokerSettings()
    return Replicas(
        ME, TopicLogs(directory, config_of, offload=at_once_elsewhere), Flusher(), config_of
    )


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
    replicas.on_image(image(topic()))
    replicas.leader_of(topic(), 0).produce(batch(1), acks=ACKS_ALL, now_ms=0)
    again = replicas.leader_of(topic(SECOND_ID), 0)
    assert again.offsets.end == 0
    assert directory.topic_ids[TopicPartition("orders", 0)] == SECOND_ID
    [away] = gone(directory)
    assert away == f"orders-0.{FIRST_ID.hex()}-delete"


def test_a_log_of_another_id_that_was_never_known_is_kept(
    replicas: Replicas, directory: DataDirectory
) -> None:
    stray = directory.create(TopicPartition("orders", 0), SECOND_ID, LogConfig())
    add(stray, batch(1))
    replicas.on_image(image(topic()))
    assert replicas.leader_of(topic(), 0).offsets.end == 0
    [away] = gone(directory)
    assert away == f"orders-0.{SECOND_ID.hex()}-stray"
    directory.sweep(0)
    directory.sweep(10**12)
    assert gone(directory) == [away]


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
    await replicas.logs.delete_those_due()
    assert directory.partitions == set()
    assert list(replicas) == []


@pytest.mark.parametrize("is_made_again", [False, True])
async def test_who_waits_for_a_commit_to_a_deleted_topic_is_told_so(
    replicas: Replicas, is_made_again: bool
) -> None:
    partition = replicas.leader_of(topic(isr=(ME, OTHER)), 0)
    partition.produce(batch(1), acks=ACKS_ALL, now_ms=0)
    replicas.on_image(image(topic(isr=(ME, OTHER))))
    heard: list[ErrorCode] = []

    async def wait() -> None:
        with pytest.raises(KafkaError) as refused:
            await partition.wait_committed(1, 3, is_flush_due=False)
        heard.append(refused.value.code)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        if is_made_again:
            replicas.leader_of(topic(SECOND_ID), 0)
        else:
            replicas.on_image(image())
    assert heard == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_logs_of_topics_that_nobody_knows_are_moved_aside_and_reported(
    replicas: Replicas, directory: DataDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (0, 7):
        directory.create(TopicPartition("orders", number), FIRST_ID, LogConfig())
    directory.create(TopicPartition("stray", 0), SECOND_ID, LogConfig())
    replicas.on_image(image(topic()))
    await replicas.logs.move_strays_aside()
    strays = [f"orders-7.{FIRST_ID.hex()}-stray", f"stray-0.{SECOND_ID.hex()}-stray"]
    assert gone(directory) == strays
    assert all(name in caplog.text for name in strays)
    assert directory.partitions == {TopicPartition("orders", 0)}


async def test_logs_stay_where_they_are_if_the_metadata_cannot_be_read(
    replicas: Replicas, directory: DataDirectory
) -> None:
    stray = TopicPartition("stray", 0)
    directory.create(stray, SECOND_ID, LogConfig())
    replicas.on_image(replace(image(topic()), unreadable={"topics/stray": "not JSON"}))
    await replicas.logs.move_strays_aside()
    assert gone(directory) == []
    assert stray in directory.failed


def test_a_log_that_is_not_led_has_its_topics_configuration(
    replicas: Replicas, directory: DataDirectory, overrides: dict[str, str]
) -> None:
    replicas.on_image(image(topic()))
    log = directory.create(TopicPartition("orders", 1), FIRST_ID, LogConfig())
    overrides |= {"retention.ms": "5000"}
    replicas.on_image(replace(image(topic()), configured={"topics": Configured()}))
    at_once(replicas.configure())
    assert log.config.retention_ms == 5000


def test_a_new_configuration_takes_effect(replicas: Replicas, overrides: dict[str, str]) -> None:
    partition = replicas.leader_of(topic(), 0)
    replicas.on_image(image(topic()))
    assert partition.log.config.retention_ms == LogConfig().retention_ms
    overrides |= {"retention.ms": "5000", "min.insync.replicas": "2"}
    replicas.on_image(image(topic()))
    at_once(replicas.configure())
    assert partition.log.config.retention_ms == 5000
    assert partition.min_insync_replicas == 2


# Elections


def test_elected_again_it_leads_in_the_new_epoch_with_the_new_isr(replicas: Replicas) -> None:
    partition = replicas.leader_of(topic(isr=(ME, OTHER)), 0)
    partition.produce(batch(1), acks=ACKS_ALL, now_ms=0)
    assert partition.log.high_watermark == 0
    for later in (topic(leader=OTHER, epoch=4), topic(epoch=5)):
        replicas.on_image(image(later))
    led = replicas.leader_of(topic(epoch=5), 0)
    assert (led.leader_epoch, led.log.high_watermark) == (5, 1)
    added = led.produce(batch(1), acks=ACKS_ALL, now_ms=0)
    assert (added.leader_epoch, led.log.high_watermark) == (5, 2)


def test_a_handler_may_hear_of_an_election_first(replicas: Replicas) -> None:
    replicas.leader_of(topic(), 0)
    led = replicas.leader_of(topic(epoch=5, isr=(ME, OTHER)), 0)
    assert led.leader_epoch == 5
    led.configure(TopicConfig(min_insync_replicas=2))
    assert led.produce(batch(1), acks=ACKS_ALL, now_ms=0).leader_epoch == 5
    assert led.log.high_watermark == 0
    assert replicas.leader_of(topic(epoch=3), 0).leader_epoch == 5, "an older image says nothing"


def test_what_is_not_led_any_more_is_refused_and_comes_back(replicas: Replicas) -> None:
    partition = replicas.leader_of(topic(), 0)
    replicas.on_image(image(topic(leader=OTHER, epoch=4)))
    assert list(replicas) == []
    for asked in (topic(leader=OTHER, epoch=4), topic()):
        with pytest.raises(KafkaError) as refused:
            replicas.leader_of(asked, 0)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(KafkaError) as refused:
        partition.produce(batch(1), acks=1, now_ms=0)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    replicas.on_image(image(topic(epoch=5)))
    assert list(replicas) == [partition]


def test_a_smaller_isr_commits_what_was_waited_for(replicas: Replicas) -> None:
    partition = replicas.leader_of(topic(isr=(ME, OTHER)), 0)
    partition.produce(batch(1), acks=ACKS_ALL, now_ms=0)
    replicas.on_image(image(topic()))
    assert (partition.log.high_watermark, partition.leader_epoch) == (1, 3)


async def test_who_reads_what_was_never_used_hears_that_it_is_led_elsewhere(
    replicas: Replicas,
) -> None:
    unused = replicas.readable(topic(), 0, [])
    waiter = Waiter()
    unused.add_waiter(waiter)
    replicas.on_image(image(topic()))
    replicas.on_image(image(topic(leader=OTHER, epoch=4)))
    await waiter.wait()


# Work in proportion to what has changed


class Counting(dict[str, Topic]):
    """Topics, and how often one was looked up, or all were."""

    count = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.count += 1
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        self.count += len(self)
        return super().__iter__()


def written(topics: int) -> Followed:
    store = Followed()
    state = PartitionState(replicas=(ME, OTHER), isr=(ME, OTHER), leader=ME, leader_epoch=3)
    for number in range(topics):
        topic_id = Uuid(number.to_bytes(16, "big"))
        record = TopicRecord(printed(topic_id), (state,))
        store.write(Put(topic_key(f"topic-{number}"), encode(record)))
    return store


def test_a_change_of_one_partition_is_no_work_for_all_others(replicas: Replicas) -> None:
    store = written(40)
    replicas.on_image(store.image)
    for each in store.image.topics.values():
        replicas.leader_of(each, 0)
    (changed,) = [each for each in replicas if each.partition.topic == "topic-7"]
    state = PartitionState((ME, OTHER), (OTHER,), OTHER, leader_epoch=4, partition_epoch=1)
    store.write(Put(partition_key(changed.topic_id, 0), encode(state)))
    topics = Counting(store.image.topics)
    history = store.image.history.plus(store.image.revision, {}, topics)
    replicas.on_image(replace(store.image, topics=topics, history=history))
    assert not changed.is_led
    assert len(list(replicas)) == 39
    assert topics.count < 5


@pytest.mark.parametrize("is_known", [True, False])
def test_a_topic_that_came_and_went_between_two_images_leaves_nothing(
    replicas: Replicas, is_known: bool
) -> None:
    store = written(1)
    replicas.on_image(store.image if is_known else ClusterImage())
    later = written(2).state.range(topic_key("topic-1"))
    store.write(*(Put(entry.key, entry.value) for entry in later))
    made = replicas.leader_of(store.image.topics["topic-1"], 0)
    store.write(Delete(topic_key("topic-1")))
    replicas.on_image(store.image)
    assert not made.is_led
    assert list(replicas) == []
