"""Transactions in a broker without a server: their topic, markers, offsets, restarts and time."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from pyk.coordinator.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from pyk.coordinator.transaction_coordinator import TOLD_AT_ONCE
from pyk.errors import ErrorCode
from pyk.handlers import delete_topics
from pyk.replication.partition import Marker
from pyk.types import TopicPartition
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.prefixed import ControlType
from tests.coordinator.transactional_client import (
    GROUP,
    ID,
    TOPIC,
    V1,
    V2,
    Client,
    committed_offset,
    end_at_once,
    opened,
    seen,
    settled,
    status,
)
from tests.handlers.brokers import ask, create
from tests.replication.test_topic_logs import Gate
from tests.simulated_disk import SimulatedDisk

COMMIT, ABORT = ControlType.COMMIT, ControlType.ABORT
BOTH = pytest.mark.parametrize("version", [V1, V2])


async def test_the_topic_of_transactions_is_made_by_the_first_who_asks() -> None:
    async with opened(transaction_state_log_num_partitions="7") as broker:
        assert len(broker.image.topics[TRANSACTION_TOPIC].partitions) == 7
        assert dict(broker.image.topic_config(TRANSACTION_TOPIC).values) == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        }


@BOTH
async def test_what_is_committed_is_seen_and_what_is_aborted_is_not(version: int) -> None:
    async with opened() as broker:
        client = Client(broker, version)
        await client.init()
        for number in range(4):
            for partition in range(2):
                sent = await client.write(b"%d" % number, partition)
                assert sent.error_code == ErrorCode.NONE
            assert b"%d" % number not in seen(broker).values
            await (client.abort() if number % 2 else client.commit())
        for partition in range(2):
            found = seen(broker, partition)
            assert found.values == [b"0", b"2"]
            assert [outcome for _, _, outcome in found.markers] == [COMMIT, ABORT] * 2


async def test_only_partitions_of_the_transaction_are_told() -> None:
    async with opened() as broker:
        client = Client(broker)
        await client.init()
        await client.write(b"one", 1)
        await client.commit()
        assert [len(seen(broker, number).markers) for number in range(3)] == [0, 1, 0]


async def test_all_of_very_many_partitions_are_told() -> None:
    count = TOLD_AT_ONCE * 2 + 1
    async with opened() as broker:
        await create(broker, "wide", partitions=count)
        client = Client(broker)
        await client.init()
        for number in range(count):
            await client.write(b"one", number, "wide")
        await client.commit()
        assert status(broker) == "CompleteCommit"
        assert all(len(seen(broker, number, "wide").markers) == 1 for number in range(count))


# Offsets


@BOTH
async def test_offsets_of_a_transaction_count_when_it_is_committed(version: int) -> None:
    async with opened() as broker:
        client = Client(broker, version)
        await client.init()
        for number, ending in enumerate((client.commit, client.abort), start=1):
            assert await client.commit_offset(number) == ErrorCode.NONE
            assert await committed_offset(broker) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
            before = (ErrorCode.NONE, number - 1 or -1)
            assert await committed_offset(broker, stable=False) == before
            await ending()
            assert await committed_offset(broker) == (ErrorCode.NONE, 1)


@pytest.mark.parametrize("count", [3, TOLD_AT_ONCE + 1])
async def test_logs_that_are_only_there_for_the_end_are_made_elsewhere(count: int) -> None:
    gate = Gate(is_before=True)
    gate.opened.set()
    async with opened(logs_elsewhere=gate) as broker:
        await create(broker, "wide", partitions=count)
        client = Client(broker, V1)
        await client.init()
        for number in range(count):
            assert await client.add(number, "wide") == ErrorCode.NONE
        gate.opened = trio.Event()
        assert (await client.end(commit=True)).error_code == ErrorCode.NONE
        await settled(broker)
        assert status(broker) == "PrepareCommit"
        assert not any(each.topic == "wide" for each in broker.directory.logs)
        gate.opened.set()
        await settled(broker)
        assert status(broker) == "CompleteCommit"
        for number in range(count):
            assert len(seen(broker, number, "wide").markers) == 1


@BOTH
async def test_pending_offsets_survive_a_restart(version: int) -> None:
    disk = SimulatedDisk()
    async with opened(disk) as broker:
        client = Client(broker, version)
        await client.init()
        await client.commit_offset(5)
        disk = disk.kill9()
    async with opened(disk) as broker:
        client.broker = broker
        assert await committed_offset(broker) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        await client.commit()
        assert await committed_offset(broker) == (ErrorCode.NONE, 5)


async def test_offsets_that_were_not_added_are_not_committed_in_v1() -> None:
    async with opened() as broker:
        client = Client(broker, V2)
        await client.init()
        await client.write(b"one")
        client.version = V1
        await client.add(1)
        zombie = Client(broker, V1)
        zombie.producer_id, zombie.epoch = client.producer_id, client.epoch + 1
        assert await zombie.commit_offset(3) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await committed_offset(broker) == (ErrorCode.NONE, -1)


# Restarts


@pytest.mark.parametrize("commit", [True, False])
@BOTH
async def test_a_transaction_that_was_prepared_is_finished_after_a_restart(
    version: int, commit: bool
) -> None:
    disk = SimulatedDisk()
    async with opened(disk) as broker:
        client = Client(broker, version)
        await client.init()
        await client.write(b"one", 0)
        await client.write(b"two", 1)
        await client.commit_offset(5)
        end_at_once(client, commit=commit)
        disk = disk.kill9()
    async with opened(disk) as broker:
        await settled(broker)
        assert status(broker) == ("CompleteCommit" if commit else "CompleteAbort")
        assert seen(broker, 0).values == ([b"one"] if commit else [])
        assert seen(broker, 1).values == ([b"two"] if commit else [])
        assert await committed_offset(broker) == (ErrorCode.NONE, 5 if commit else -1)


@BOTH
async def test_after_any_kill_a_transaction_has_one_outcome_and_each_partition_one_marker(
    version: int,
) -> None:
    """A kill before each operation of the disk, from the decision on."""
    disk, killed = SimulatedDisk(), list[SimulatedDisk]()
    async with opened(disk) as broker:
        client = Client(broker, version)
        await client.init()
        for partition in range(3):
            await client.write(b"one", partition)
        await client.commit_offset(5)
        disk.watch = lambda: killed.append(disk.kill9())
        await client.commit()
        disk.watch = None
        killed.append(disk.kill9())
    outcomes = set()
    for each in killed:
        async with opened(each) as broker:
            await settled(broker)
            found = [seen(broker, number) for number in range(3)]
            assert all(one == found[0] for one in found)
            is_ended = status(broker) == "CompleteCommit"
            outcomes.add(is_ended)
            assert found[0].values == ([b"one"] if is_ended else [])
            assert len(found[0].markers) == is_ended
            offset = (0, 5) if is_ended else (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
            assert await committed_offset(broker) == offset
    assert outcomes == {True, False}


# What gets in the way


@BOTH
async def test_a_deleted_topic_does_not_keep_a_transaction_from_ending(version: int) -> None:
    async with opened() as broker:
        await create(broker, "doomed")
        client = Client(broker, version)
        await client.init()
        await client.write(b"one")
        await client.write(b"two", topic="doomed")
        doomed = DeleteTopicsRequest(topic_names=["doomed"], timeout_ms=1000)
        await ask(delete_topics.handle, delete_topics.refuse, doomed, broker, 5)
        await client.commit()
        assert status(broker) == "CompleteCommit"
        assert seen(broker).values == [b"one"]


async def test_a_full_disk_holds_up_the_end_of_a_transaction_and_no_more(
    autojump_clock: trio.testing.MockClock,
) -> None:
    disk = SimulatedDisk()
    async with opened(disk) as broker:
        client = Client(broker)
        await client.init()
        await client.write(b"one")
        await client.write(b"two", 1)
        end_at_once(client, commit=True)
        disk.capacity = 0
        await trio.sleep(5)
        assert status(broker) == "PrepareCommit"
        disk.capacity = None
        await trio.sleep(5)
        assert status(broker) == "CompleteCommit"
        for number, value in enumerate((b"one", b"two")):
            found = seen(broker, number)
            assert (found.values, len(found.markers)) == ([value], 1)


async def test_a_partition_that_an_operator_has_told_is_not_told_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened() as broker:
        client = Client(broker)
        await client.init()
        await client.write(b"one")
        later = Marker(client.producer_id, 9, ABORT, coordinator_epoch=0, transaction_version=2)
        broker.transactions.markers.write(TopicPartition(TOPIC, 0), later)
        await client.commit()
        assert status(broker) == "CompleteCommit"
        assert seen(broker).markers == [(client.producer_id, 9, ABORT)]
    assert ID in caplog.text


async def test_a_transaction_times_out(autojump_clock: trio.testing.MockClock) -> None:
    async with opened() as broker:
        client = Client(broker)
        await client.init(timeout_ms=5000)
        await client.write(b"lost")
        await client.commit_offset(5)
        await trio.sleep(4)
        assert status(broker) == "Ongoing"
        await trio.sleep(2)
        assert status(broker) == "CompleteAbort"
        assert seen(broker).markers == [(client.producer_id, client.epoch + 1, ABORT)]
        assert await committed_offset(broker) == (ErrorCode.NONE, -1)
        assert (await client.send(b"late")).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


async def test_markers_for_offsets_of_a_group_that_nobody_has_used_are_taken() -> None:
    async with opened() as broker:
        marker = Marker(7, 0, COMMIT, coordinator_epoch=0, transaction_version=0)
        broker.transactions.markers.write(TopicPartition(GROUP_TOPIC, 3), marker)
        assert await committed_offset(broker, group_id=GROUP) == (ErrorCode.NONE, -1)


async def test_all_that_is_asked_for_waits_for_the_disk_if_each_record_does() -> None:
    async with opened(
        log_flush_interval_messages="1", transaction_state_log_num_partitions="1"
    ) as broker:
        for number, transactional_id in enumerate(("one", "two", "three")):
            client = Client(broker, transactional_id=transactional_id)
            assert (await client.init()).error_code == ErrorCode.NONE
            await client.write(b"%d" % number)
            await client.commit()
        await settled(broker)
        assert seen(broker).values == [b"0", b"1", b"2"]


async def test_a_marker_on_their_own_topic_does_not_keep_transactions_from_being_loaded() -> None:
    """WriteTxnMarkers takes any partition, of any client."""
    disk = SimulatedDisk()
    async with opened(disk) as broker:
        client = Client(broker)
        await client.init()
        marker = Marker(7, 0, COMMIT, coordinator_epoch=0, transaction_version=0)
        for number in range(len(broker.image.topics[TRANSACTION_TOPIC].partitions)):
            broker.transactions.markers.write(TopicPartition(TRANSACTION_TOPIC, number), marker)
        disk = disk.kill9()
    async with opened(disk) as broker:
        client.broker = broker
        await client.write(b"one")
        await client.commit()
        assert seen(broker).values == [b"one"]
