"""The shards of an internal topic, in a broker without a server: loading, time, what goes wrong."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from msgspec import structs

from pyk.coordinator.internal_topics import GROUP_TOPIC, partition_for
from pyk.coordinator.journal import Journal
from pyk.coordinator.machine import Decision, Record
from pyk.coordinator.shard import Shard
from pyk.coordinator.shards import RETRY_MAX, RETRY_MIN, Parts, Shards
from pyk.coordinator.topic_changes import TopicChanges, topic_changes
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import delete_topics, list_groups
from pyk.handlers.context import Context
from pyk.metadata.image import ClusterImage, Topic
from pyk.replication.partition import Partition
from pyk.replication.replicas import Replicas
from pyk.types import TopicPartition
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.messages.list_groups import ListGroupsRequest
from pyk.wire.records import build_batch
from tests.coordinator.test_group_coordinator import GROUP, TOPIC, begin, commit, committed
from tests.coordinator.test_offsets import image_of
from tests.coordinator.test_shard import (
    NOW_MS,
    OPTIONS,
    TYPES,
    Tally,
    add,
    opened,
    see,
    unloaded,
    word,
)
from tests.handlers.brokers import HERE, NODE_ID, ask, change_partition, create, open_context
from tests.replication.test_partition import led
from tests.simulated_disk import ROOT, SimulatedDisk


class Failing(Tally):
    """Has two timers, of which the first that is due fails."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[float] = []
        self.expired = 0

    def deadline(self) -> float | None:
        return min(self.timers, default=None)

    def expire(self, now: float) -> Decision:
        self.timers.remove(min(self.timers))
        self.expired += 1
        if self.expired == 1:
            raise ZeroDivisionError
        return Decision()


def parts_of(broker: Context) -> Parts:
    return Parts(
        node_id=broker.node_id,
        settings=lambda: broker.settings,
        mirror=broker.mirror,
        directory=broker.directory,
        replicas=broker.replicas,
        rng=broker.rng,
        now_ms=broker.now_ms,
    )


@asynccontextmanager
async def running(parts: Parts, machine: type[Tally] = Tally) -> AsyncIterator[Shards[Tally]]:
    shards = Shards(parts, GROUP_TOPIC, TYPES, lambda: OPTIONS, machine)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shards.run)
        yield shards
        nursery.cancel_scope.cancel()


async def test_a_timer_that_fails_is_dropped_and_the_others_go_on(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_context() as broker:
        await create(broker, GROUP_TOPIC)
        async with running(parts_of(broker), Failing) as shards:
            machine = shards.at(0).machine
            assert isinstance(machine, Failing)
            now = trio.current_time()
            machine.timers = [now + 1, now + 1, now + 2]
            shards.at(0).perform(lambda tally, now: Decision())
            await trio.sleep(3)
            assert machine.expired == 3
    assert "ZeroDivisionError" in caplog.text
    assert GROUP_TOPIC in caplog.text


class Forgetful(Tally):
    """Cannot take a certain record, once."""

    has_failed = False

    def apply(self, record: Record) -> None:
        if record.key.group == "poison" and not type(self).has_failed:
            type(self).has_failed = True
            raise ZeroDivisionError
        super().apply(record)


async def test_a_machine_that_cannot_take_what_is_in_the_log_is_loaded_from_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_context() as broker:
        await create(broker, GROUP_TOPIC)
        async with running(parts_of(broker), Forgetful) as shards:
            shard = shards.at(0)
            waiting = shard.execute(lambda tally, ticket, now: tally.wait_for("never", ticket))
            with pytest.raises(ZeroDivisionError):
                add(shard, word("one"), word("poison"), word("two"))
            with pytest.raises(KafkaError) as refusal:
                await waiting
            assert refusal.value.code is ErrorCode.NOT_COORDINATOR
            with pytest.raises(KafkaError) as refusal:
                see(shards.at(0))
            assert refusal.value.code is ErrorCode.NOT_COORDINATOR
            await trio.sleep(2 * RETRY_MIN)
            assert see(shards.at(0)) == ["one", "poison", "two"]


# Loading

DAMAGED, WHOLE = "billing", "orders"
SEGMENT_OF_DAMAGED = ROOT / "logs" / f"{GROUP_TOPIC}-{partition_for(DAMAGED, 50)}" / f"{0:020}.log"


async def stored() -> SimulatedDisk:
    """A broker was here, where both groups have committed. It was shut down."""
    disk = SimulatedDisk()
    async with open_context(disk=disk) as broker:
        await begin(broker)
        for group_id in (DAMAGED, WHOLE):
            assert await commit(broker, 5, group_id) == ErrorCode.NONE
        broker.directory.close()
    return disk


async def listed(broker: Context) -> tuple[int, list[str]]:
    request = ListGroupsRequest()
    response = await ask(list_groups.handle, list_groups.refuse, request, broker, 4)
    return response.error_code, [group.group_id for group in response.groups]


@pytest.mark.parametrize("bit_at", [20, 61, 65], ids=["crc", "record", "value"])
async def test_a_shard_with_a_damaged_log_is_tried_again_and_the_others_serve(
    bit_at: int, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    disk = await stored()
    disk.flip_bit(SEGMENT_OF_DAMAGED, bit_at, 0)
    async with open_context(disk=disk) as broker:
        _ = broker.groups
        await trio.sleep(0.5)
        assert await committed(broker, DAMAGED) == (ErrorCode.NOT_COORDINATOR, [])
        assert await committed(broker, WHOLE) == (ErrorCode.NONE, [5])
        assert await listed(broker) == (ErrorCode.NONE, [WHOLE])
        assert await commit(broker, 6, DAMAGED) == ErrorCode.NOT_COORDINATOR
        lines = [each for each in caplog.messages if "cannot be loaded" in each]
        assert len(lines) == 1
        assert f"{GROUP_TOPIC}-{partition_for(DAMAGED, 50)}/{0:020}.log, at offset 0" in lines[0]
        await trio.sleep(3600)
        tries = len([each for each in caplog.messages if "cannot be loaded" in each])
        assert 60 <= tries <= 70, "at most a minute lies between two"
        disk.flip_bit(SEGMENT_OF_DAMAGED, bit_at, 0)
        await trio.sleep(RETRY_MAX)
        assert await committed(broker, DAMAGED) == (ErrorCode.NONE, [5])
        assert await commit(broker, 6, DAMAGED) == ErrorCode.NONE


async def test_a_shard_whose_log_is_cut_off_leaves_the_others_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = await stored()
    disk.flip_bit(SEGMENT_OF_DAMAGED, 8, 0)
    async with open_context(disk=disk) as broker:
        await broker.groups.of(WHOLE).wait_loaded()
        assert await committed(broker, DAMAGED) == (ErrorCode.NOT_COORDINATOR, [])
        assert await committed(broker, WHOLE) == (ErrorCode.NONE, [5])
    (line,) = [each for each in caplog.messages if "cannot be loaded" in each]
    assert f"{GROUP_TOPIC}-{partition_for(DAMAGED, 50)}" in line
    assert f"{0:020}.log" in line


async def test_a_shard_whose_log_cannot_be_opened_once_is_loaded_without_being_asked_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with open_context() as broker:
        await create(broker, GROUP_TOPIC)
        refused = Refusing(broker.replicas, times=2)
        parts = structs.replace(parts_of(broker), replicas=refused)
        broker.leader_of(GROUP_TOPIC, 0)
        async with running(parts) as shards:
            await trio.sleep(0.5)
            assert list(shards) == []
            await trio.sleep(RETRY_MIN + 2 * RETRY_MIN)
            assert [shard.is_loaded for shard in shards] == [True]


class Refusing(Replicas):
    """The replicas of a broker that has no descriptors left for a while."""

    def __init__(self, replicas: Replicas, times: int) -> None:
        self._replicas = replicas
        self._times = times

    def leader_of(self, topic: Topic, number: int) -> Partition:
        if self._times:
            self._times -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return self._replicas.leader_of(topic, number)


async def test_who_waits_for_a_shard_that_cannot_be_loaded_is_sent_away() -> None:
    shard = unloaded(led())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shard.wait_loaded)
        await trio.testing.wait_all_tasks_blocked()
        shard.fail()
    with pytest.raises(KafkaError) as refusal:
        shard.check_loaded()
    assert refusal.value.code is ErrorCode.NOT_COORDINATOR


# Topics that come and go meanwhile


class Changing:
    """The newest image, which is another one each time that somebody looks."""

    def __init__(self, *images: ClusterImage) -> None:
        self._images = list(images)

    def __call__(self) -> ClusterImage:
        return self._images.pop(0) if len(self._images) > 1 else self._images[0]


class Curious(Tally):
    """Remembers the topics that it was told of."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: set[str] = set()
        self.told = 0

    def check_topics(self, image: ClusterImage) -> Iterator[None]:
        self.topics = set(image.topics)
        yield

    def on_image(self, image: ClusterImage, changes: TopicChanges, now: float) -> None:
        self.told += 1
        self.topics -= set(changes.deleted.values())
        self.topics |= {name for name in changes.names if name in image.topics}


@pytest.mark.parametrize("changes", [1, 2, 3])
async def test_a_machine_knows_the_topics_that_there_are_when_it_is_loaded(changes: int) -> None:
    images = [
        image_of({"orders": b"1"}),
        image_of({"orders": b"2", "late": b"3"}),
        image_of({"late": b"3", "later": b"4"}),
    ][-changes:]
    partition = led()
    add(opened(partition), word("one"))
    journal = Journal(partition, TYPES, OPTIONS)
    shard = Shard(Curious(), journal, lambda: NOW_MS, Changing(*images))
    await shard.load()
    assert shard.machine.topics == {"late", "later"}
    shard.on_image(images[-1], topic_changes)
    assert shard.machine.told < changes, "nobody is told twice"


async def test_offsets_of_a_topic_do_not_come_back_if_the_log_has_not_heard_that_it_is_gone() -> (
    None
):
    disk = SimulatedDisk()
    async with open_context(disk=disk) as broker:
        await begin(broker)
        await commit(broker, 1000)
        doomed = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000)
        disk = disk.kill9()
        # What happens here reaches the metadata, and not the log of groups.
        async with open_context(disk=disk) as without_groups:
            without_groups.rng.seed(2)
            await ask(delete_topics.handle, delete_topics.refuse, doomed, without_groups, 5)
            await create(without_groups, TOPIC)
            disk = disk.kill9()
    for _ in range(2):
        async with open_context(disk=disk) as broker:
            await broker.groups.of(GROUP).wait_loaded()
            assert await committed(broker) == (ErrorCode.NONE, [])
            await trio.testing.wait_all_tasks_blocked()
            disk = disk.kill9()


# Elections

OTHER = 2


@asynccontextmanager
async def of_two() -> AsyncIterator[Context]:
    """A broker that leads the only partition of the topic, in a cluster with another one."""
    async with open_context(others={OTHER: HERE}) as broker:
        await create(broker, GROUP_TOPIC, replicas=2)
        await change_partition(broker, GROUP_TOPIC, leader=NODE_ID, isr=(NODE_ID,))
        yield broker


async def loaded(shards: Shards[Tally]) -> Shard[Tally]:
    shard = shards.at(0)
    await shard.wait_loaded()
    return shard


async def elect(broker: Context, *leaders: int) -> None:
    """One after the other, before anybody looks."""
    for leader in leaders:
        await change_partition(broker, GROUP_TOPIC, leader=leader)


def write_as_another(broker: Context, *records: Record, is_committed: bool = True) -> None:
    """What another leader has appended, and this broker replicated."""
    log = broker.directory.logs[TopicPartition(GROUP_TOPIC, 0)]
    epoch = broker.image.topics[GROUP_TOPIC].partitions[0].leader_epoch
    stored = Journal(led(), TYPES, OPTIONS).encoded(records, NOW_MS)
    log.append(bytearray(build_batch(stored)), leader_epoch=epoch, now_ms=NOW_MS)
    if is_committed:
        log.advance_high_watermark(log.end_offset)


async def test_a_shard_of_an_earlier_epoch_is_loaded_anew() -> None:
    async with of_two() as broker, running(parts_of(broker)) as shards:
        before = shards.at(0)
        add(before, word("one"))
        await elect(broker, OTHER)
        write_as_another(broker, word("two"))
        await elect(broker, NODE_ID)
        shard = await loaded(shards)
        assert see(shard) == ["one", "two"]
        assert before.is_dropped
        assert shard.leader_epoch == broker.leader_of(GROUP_TOPIC, 0).leader_epoch
        shards.on_image(broker.image)
        assert shards.at(0) is shard


async def test_elected_with_a_log_a_shard_is_loaded_without_being_asked_for() -> None:
    async with of_two() as broker, running(parts_of(broker)) as shards:
        add(shards.at(0), word("one"))
        await elect(broker, OTHER)
        shards.on_image(broker.image)
        assert list(shards) == []
        with pytest.raises(KafkaError) as refusal:
            shards.at(0)
        assert refusal.value.code is ErrorCode.NOT_COORDINATOR
        await elect(broker, NODE_ID)
        shards.on_image(broker.image)
        (shard,) = shards
        await shard.wait_loaded()
        assert see(shard) == ["one"]


async def test_another_isr_leaves_a_shard_as_it_is() -> None:
    async with of_two() as broker, running(parts_of(broker)) as shards:
        shard = shards.at(0)
        await change_partition(broker, GROUP_TOPIC, isr=(NODE_ID, OTHER))
        shards.on_image(broker.image)
        assert shards.at(0) is shard
        assert shard.is_loaded


class Interrupted(Tally):
    """Something happens while the first of these is loaded."""

    happens: Callable[[], None] = staticmethod(lambda: None)

    def apply(self, record: Record) -> None:
        super().apply(record)
        happens, Interrupted.happens = Interrupted.happens, staticmethod(lambda: None)
        happens()


async def test_what_is_loaded_for_an_epoch_that_is_over_is_thrown_away() -> None:
    async with of_two() as broker:
        async with running(parts_of(broker)) as shards:
            add(shards.at(0), word("one"), word("two"))
        await elect(broker, OTHER, NODE_ID)
        async with running(parts_of(broker), Interrupted) as shards:
            first = shards.at(0)

            def be_elected_again() -> None:
                image = broker.image
                topic = image.topics[GROUP_TOPIC]
                (state,) = topic.partitions
                later = structs.replace(state, leader_epoch=state.leader_epoch + 2)
                topic = structs.replace(topic, partitions=(later,))
                broker.mirror.image = structs.replace(image, topics={GROUP_TOPIC: topic})
                shards.on_image(broker.mirror.image)

            Interrupted.happens = staticmethod(be_elected_again)
            await first.wait_loaded()
            assert (first.is_dropped, first.is_loaded) == (True, False)
            assert first.machine.loaded_at is None
            second = await loaded(shards)
            assert second is not first
            assert second.leader_epoch == first.leader_epoch + 2
            assert see(second) == ["one", "two"]
            assert first.machine.words == ["one"]


async def test_a_log_that_another_broker_leads_keeps_nobody_from_serving() -> None:
    disk = await stored()
    async with open_context(disk=disk, others={OTHER: HERE}) as broker:
        number = partition_for(DAMAGED, 50)
        await change_partition(broker, GROUP_TOPIC, number=number, leader=OTHER)
        broker.directory.close()
    async with open_context(disk=disk, others={OTHER: HERE}) as broker:
        await broker.groups.of(WHOLE).wait_loaded()
        assert await committed(broker, WHOLE) == (ErrorCode.NONE, [5])
        assert await committed(broker, DAMAGED) == (ErrorCode.NOT_COORDINATOR, [])
        assert await listed(broker) == (ErrorCode.NONE, [WHOLE])
        await change_partition(broker, GROUP_TOPIC, number=number, leader=NODE_ID)
        await broker.groups.of(DAMAGED).wait_loaded()
        assert await committed(broker, DAMAGED) == (ErrorCode.NONE, [5])


async def test_a_shard_that_waits_for_a_commit_keeps_no_other_from_loading() -> None:
    async with open_context(others={OTHER: HERE}) as broker:
        await create(broker, GROUP_TOPIC, 2, replicas=2)
        for number in (0, 1):
            await change_partition(
                broker, GROUP_TOPIC, number=number, leader=NODE_ID, isr=(NODE_ID,)
            )
        async with running(parts_of(broker)) as shards:
            for number in (0, 1):
                add(shards.at(number), word("one"))
            await change_partition(broker, GROUP_TOPIC, leader=OTHER)
            write_as_another(broker, word("two"), is_committed=False)
            in_sync = (NODE_ID, OTHER)
            await change_partition(broker, GROUP_TOPIC, leader=NODE_ID, isr=in_sync)
            await change_partition(broker, GROUP_TOPIC, number=1, leader=NODE_ID)
            first = shards.at(0)
            second = shards.at(1)
            await second.wait_loaded()
            assert see(second) == ["one"]
            await trio.testing.wait_all_tasks_blocked()
            assert not first.is_loaded
            await change_partition(broker, GROUP_TOPIC, isr=(NODE_ID,))
            await first.wait_loaded()
            assert see(first) == ["one", "two"]


async def test_two_retries_of_one_shard_begin_it_once(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """One in the last epoch, and one in this: both would begin it while the other loads it."""

    class Refusing(Tally):
        refuses = True

        def apply(self, record: Record) -> None:
            if Refusing.refuses:
                raise ZeroDivisionError
            super().apply(record)

    made: list[Shard[Tally]] = []
    async with of_two() as broker:
        async with running(parts_of(broker)) as shards:
            add(await loaded(shards), word("first"))
        async with running(parts_of(broker), Refusing) as shards:
            await trio.sleep(0.3)
            await elect(broker, NODE_ID)
            shards.on_image(broker.image)
            await trio.sleep(0.2)
            Refusing.refuses = False
            # What is loaded is not committed, so that loading takes a while.
            await change_partition(broker, GROUP_TOPIC, isr=(NODE_ID, OTHER))
            stored = Journal(led(), TYPES, OPTIONS).encoded([word("late")], NOW_MS)
            partition = broker.leader_of(GROUP_TOPIC, 0)
            partition.produce(bytearray(build_batch(stored)), acks=1, now_ms=NOW_MS)
            for _ in range(30):
                await trio.sleep(0.1)
                made += [shard for shard in shards if shard not in made]
            await change_partition(broker, GROUP_TOPIC, isr=(NODE_ID,))
            shards.on_image(broker.image)
            await trio.sleep(3)
            made += [shard for shard in shards if shard not in made]
            assert [shard for shard in made if not shard.is_dropped] == list(shards)
            assert [shard for shard in made if shard.is_loaded] == list(shards)
            assert "first" in see(shards.at(0))
