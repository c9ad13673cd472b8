"""The state of share partitions in a broker without a server: its topic, restarts, kills, cuts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import TypeVar

import pytest
import trio
import trio.testing

from pyk.coordinator.internal_topics import SHARE_TOPIC
from pyk.coordinator.share_coordinator import (
    SharePartitionKey,
    ShareState,
    StateBatch,
    Summary,
)
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import delete_topics
from pyk.handlers.context import Context
from pyk.replication.partition import Marker
from pyk.types import TopicPartition
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.prefixed import ControlType
from tests.handlers.brokers import ask, create, open_context
from tests.simulated_disk import SimulatedDisk

TOPIC, GROUP = "orders", "workers"
BATCH = StateBatch(5, 9, 2, 1)

T = TypeVar("T")


@asynccontextmanager
async def opened(disk: SimulatedDisk | None = None, **static: str) -> AsyncIterator[Context]:
    keys = {f"share.coordinator.{k.replace('_', '.')}": v for k, v in static.items()}
    async with open_context(keys, disk=disk) as broker:
        if TOPIC not in broker.image.topics:
            await create(broker, TOPIC, partitions=3)
        await trio.testing.wait_all_tasks_blocked()
        yield broker


def key_of(broker: Context, partition: int = 0, topic: str = TOPIC) -> SharePartitionKey:
    return SharePartitionKey(GROUP, broker.image.topics[topic].topic_id, partition)


async def outcome(result: T | Awaitable[T]) -> T:
    return await result if isawaitable(result) else result


async def begin(broker: Context, partition: int = 0, topic: str = TOPIC) -> SharePartitionKey:
    key = key_of(broker, partition, topic)
    await outcome(broker.share_coordinator.persister.initialize(key, state_epoch=0, start_offset=5))
    return key


async def write(broker: Context, key: SharePartitionKey, *batches: StateBatch) -> None:
    await outcome(
        broker.share_coordinator.persister.write(
            key,
            state_epoch=0,
            leader_epoch=0,
            start_offset=-1,
            delivery_complete_count=len(batches),
            batches=batches,
        )
    )


async def read(broker: Context, key: SharePartitionKey) -> ShareState:
    return await outcome(broker.share_coordinator.persister.read(key, leader_epoch=0))


async def summary(broker: Context, key: SharePartitionKey) -> Summary:
    return await outcome(broker.share_coordinator.persister.summary(key))


def span(broker: Context, key: SharePartitionKey) -> tuple[int, int]:
    """Where the log of a partition's shard starts and ends."""
    log = broker.share_coordinator.shards.of(key.text).journal
    return log.start_offset, log.end_offset


async def test_the_topic_is_made_by_the_first_who_asks() -> None:
    async with opened(state_topic_num_partitions="7") as broker:
        assert SHARE_TOPIC not in broker.image.topics
        await begin(broker)
        assert len(broker.image.topics[SHARE_TOPIC].partitions) == 7
        assert dict(broker.image.topic_config(SHARE_TOPIC).values) == {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": "1",
            "retention.ms": "-1",
            "segment.bytes": "104857600",
        }


async def test_many_may_be_the_first_at_once() -> None:
    async with opened() as broker, trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(begin, broker, number)
    async with opened() as broker:
        assert await summary(broker, key_of(broker)) == Summary(0, 0, -1, -1)


async def test_what_is_written_is_read() -> None:
    async with opened() as broker:
        key = await begin(broker)
        await write(broker, key, BATCH)
        assert await read(broker, key) == ShareState(0, 5, (BATCH,))
        assert await summary(broker, key) == Summary(0, 0, 5, 1)
        await outcome(broker.share_coordinator.persister.delete(key))
        assert await summary(broker, key) == Summary(0, 0, -1, -1)


async def test_an_answer_that_need_not_wait_is_given_at_once() -> None:
    async with opened() as broker:
        key = await begin(broker)
        persister = broker.share_coordinator.persister
        assert persister.read(key, leader_epoch=0) == ShareState(0, 5, ())
        assert persister.initialize(key, state_epoch=1, start_offset=6) is None


async def test_refusals_are_raised() -> None:
    async with opened() as broker:
        with pytest.raises(KafkaError) as refused:
            await read(broker, key_of(broker))
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        with pytest.raises(KafkaError) as refused:
            await begin(broker, partition=3)
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
async def test_what_was_written_is_there_after_a_kill(codec: int) -> None:
    disk = SimulatedDisk()
    async with opened(disk, state_topic_compression_codec=str(codec)) as broker:
        for number in range(3):
            key = await begin(broker, number)
            for _ in range(number):
                await write(broker, key, BATCH)
        disk = disk.kill9()
    async with opened(disk) as broker:
        assert broker.coordinator_of_shares is not None
        for number in range(3):
            wanted = (BATCH,) if number else ()
            assert await read(broker, key_of(broker, number)) == ShareState(0, 5, wanted)


async def test_a_marker_on_its_topic_does_not_keep_the_state_from_being_loaded() -> None:
    """WriteTxnMarkers takes any partition, of any client."""
    disk = SimulatedDisk()
    async with opened(disk) as broker:
        key = await begin(broker)
        marker = Marker(7, 0, ControlType.COMMIT, coordinator_epoch=0, transaction_version=0)
        for number in range(len(broker.image.topics[SHARE_TOPIC].partitions)):
            broker.transactions.markers.write(TopicPartition(SHARE_TOPIC, number), marker)
        await write(broker, key, BATCH)
        disk = disk.kill9()
    async with opened(disk) as broker:
        assert (await read(broker, key)).batches == (BATCH,)


async def test_who_asks_while_a_shard_loads_waits_for_it() -> None:
    disk = SimulatedDisk()
    async with opened(disk) as broker:
        await write(broker, await begin(broker), BATCH)
        disk = disk.kill9()
    async with open_context(disk=disk) as broker:
        found = broker.share_coordinator.persister.read(key_of(broker), leader_epoch=0)
        assert isawaitable(found)
        assert await found == ShareState(0, 5, (BATCH,))


async def test_after_any_kill_a_write_is_there_or_not_and_nothing_else_is_different() -> None:
    """A kill before each operation of the disk."""
    disk, killed = SimulatedDisk(), list[SimulatedDisk]()
    async with opened(disk, snapshot_update_records_per_snapshot="1") as broker:
        key = await begin(broker)
        disk.watch = lambda: killed.append(disk.kill9())
        for number in range(4):
            await write(broker, key, StateBatch(10 * number, 10 * number + 4, 2, 1))
        disk.watch = None
        killed.append(disk.kill9())
    found = []
    for each in killed:
        async with opened(each) as broker:
            batches = (await read(broker, key)).batches
            assert [batch.first_offset for batch in batches] == [
                10 * number for number in range(1, len(batches) + 1)
            ]
            found.append(len(batches))
    assert found == sorted(found)
    assert set(found) == set(range(4))


async def test_state_goes_with_its_topic() -> None:
    disk = SimulatedDisk()
    async with opened(disk) as broker:
        await create(broker, "doomed")
        kept, doomed = await begin(broker), await begin(broker, topic="doomed")
        request = DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=1000)
        await ask(delete_topics.handle, delete_topics.refuse, request, broker, 5)
        await trio.testing.wait_all_tasks_blocked()
        machines = [shard.machine for shard in broker.share_coordinator.shards]
        assert [key for machine in machines for key in machine] == [kept]
        with pytest.raises(KafkaError):
            await read(broker, doomed)


async def test_the_log_is_cut_now_and_then(autojump_clock: trio.testing.MockClock) -> None:
    disk = SimulatedDisk()
    async with opened(disk, snapshot_update_records_per_snapshot="3") as broker:
        key = await begin(broker)
        for number in range(100):
            await write(broker, key, StateBatch(10 + number, 10 + number, 2, 1))
        assert span(broker, key) == (0, 101)
        before = await read(broker, key)
        assert [batch.last_offset for batch in before.batches] == [109]
        await trio.sleep(301)
        start, end = span(broker, key)
        assert 96 < start < end
        disk = disk.kill9()
    async with opened(disk) as broker:
        assert await read(broker, key) == before


async def test_the_log_is_not_cut_beyond_a_partition_at_rest(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Both are in one shard, and the clock on the wall stands still."""
    async with opened(
        snapshot_update_records_per_snapshot="0", state_topic_num_partitions="1"
    ) as broker:
        quiet, busy = await begin(broker), await begin(broker, 1)
        for _ in range(20):
            await write(broker, busy, BATCH)
        await trio.sleep(301)
        assert span(broker, quiet) == (0, 22)
        await write(broker, quiet, BATCH)
        await trio.sleep(300)
        assert span(broker, quiet) == (21, 23)


async def test_a_full_disk_refuses_writes_and_no_more() -> None:
    disk = SimulatedDisk()
    async with opened(disk) as broker:
        key = await begin(broker)
        disk.capacity = 0
        with pytest.raises(KafkaError):
            await write(broker, key, BATCH)
        assert await read(broker, key) == ShareState(0, 5, ())
        disk.capacity = None
        await write(broker, key, BATCH)
        assert await read(broker, key) == ShareState(0, 5, (BATCH,))
