"""Writes in a transaction, in a broker without a server: what they need, and whom they wait for."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import trio.testing

from pyk.coordinator.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from pyk.errors import ErrorCode
from pyk.handlers import produce
from pyk.handlers.call import InTurn
from pyk.replication.partition import Marker
from pyk.types import TopicPartition
from pyk.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pyk.wire.prefixed import ControlType
from tests.coordinator.transactional_client import (
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
from tests.handlers.brokers import call, configure, create, open_context
from tests.simulated_disk import SimulatedDisk

BOTH = pytest.mark.parametrize("version", [V1, V2])


NEW = "new"


class MomentarilyFull(SimulatedDisk):
    """Refuses to make so many directories of logs."""

    refused = 0

    def make_directory(self, path: Path) -> None:
        if self.refused and path.name.startswith(TOPIC):
            self.refused -= 1
            raise OSError(errno.EMFILE, "too many open files")
        super().make_directory(path)


def writing(client: Client, value: bytes, *others: str) -> ProduceRequest:
    """To the first partition of TOPIC, and of others."""
    topics = [
        TopicProduceData(
            name=name,
            partition_data=[PartitionProduceData(index=0, records=client.batch(value, 0, name))],
        )
        for name in (TOPIC, *others)
    ]
    return ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=1000, topic_data=topics)


async def test_in_v1_a_partition_that_was_not_added_is_not_written_to() -> None:
    async with opened() as broker:
        client = Client(broker, V1)
        await client.init()
        await client.add(0)
        assert (await client.send(b"one", 1)).error_code == ErrorCode.TRANSACTION_ABORTABLE
        assert seen(broker, 1).values == []


async def test_verification_can_be_switched_off_for_v1() -> None:
    async with opened(transaction_partition_verification_enable="false") as broker:
        client = Client(broker, V1)
        await client.init()
        assert (await client.send(b"one", 1)).error_code == ErrorCode.NONE


async def test_a_write_that_waits_for_the_coordinator_does_not_come_after_the_end() -> None:
    """The marker comes between the coordinator's word and the write: the guard is gone then."""
    async with opened() as broker:
        # Each answer of the coordinator waits for the disk.
        await configure(broker, TRANSACTION_TOPIC, {"flush.messages": "1"})
        client = Client(broker)
        await client.init()
        broker.leader_of(TOPIC, 0)  # The log is there: the write waits for nothing else.
        waiting = produce.handle(writing(client, b"late"), call(12), broker)
        assert isinstance(waiting, InTurn)
        marker = Marker(
            client.producer_id, 0, ControlType.ABORT, coordinator_epoch=0, transaction_version=0
        )
        broker.transactions.markers.write(TopicPartition(TOPIC, 0), marker)
        answer = await waiting
        [found] = answer.responses[0].partition_responses
        assert found.error_code == ErrorCode.INVALID_TXN_STATE
        assert not seen(broker).is_open


async def test_a_write_that_waits_for_the_coordinator_is_done_when_it_has_spoken() -> None:
    async with opened() as broker:
        await configure(broker, TRANSACTION_TOPIC, {"flush.messages": "1"})
        client = Client(broker)
        await client.init()
        assert (await client.write(b"one")).error_code == ErrorCode.NONE
        await client.commit()
        assert seen(broker).values == [b"one"]


@BOTH
async def test_who_comes_right_after_an_end_is_not_sent_away(version: int) -> None:
    async with opened() as broker:
        client = Client(broker, version)
        await client.init()
        await client.write(b"one")
        await client.end(commit=True)
        assert status(broker) == "PrepareCommit"
        if version == V1:
            assert await client.add(0) == ErrorCode.NONE
        else:
            answer = produce.handle(writing(client, b"two"), call(12), broker)
            assert isinstance(answer, ProduceResponse), "it waits"
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert status(broker) == "Ongoing"
        assert seen(broker).values == [b"one"]


async def test_in_v1_who_comes_before_the_disk_has_the_marker_is_sent_away() -> None:
    async with opened() as broker:
        await configure(broker, TOPIC, {"flush.messages": "1"})
        client = Client(broker, V1)
        await client.init()
        await client.write(b"one")
        await client.end(commit=True)
        assert await client.add(0) == ErrorCode.CONCURRENT_TRANSACTIONS
        await settled(broker)
        assert status(broker) == "CompleteCommit"
        assert await client.add(0) == ErrorCode.NONE


async def test_in_v1_a_write_does_not_pass_over_one_that_found_no_coordinator() -> None:
    """Two batches are on the way when the broker comes back. The first finds a coordinator that
    loads, and is sent again; the second does not come before it."""
    disk = SimulatedDisk()
    async with opened(disk) as broker:
        client = Client(broker, V1)
        await client.init()
        await client.add(0)
    async with open_context(disk=disk) as client.broker:
        first, second = b"first", b"second"
        client.broker.leader_of(TOPIC, 0)  # Its log is open before the coordinator's is loaded.
        refused = await client.send(first)
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        await settled(client.broker)
        early = await client.send(second, sequence=1)
        assert early.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        for value in (first, second):
            assert (await client.send(value)).error_code == ErrorCode.NONE
        await client.commit()
        assert seen(client.broker).values == [first, second]


async def test_in_v1_a_write_that_comes_late_again_is_not_in_the_way_of_the_next() -> None:
    """Kafka refuses the next one then, until there is a marker."""
    async with opened() as broker:
        client = Client(broker, V1)
        await client.init()
        assert (await client.write(b"one")).error_code == ErrorCode.NONE
        await client.commit()
        late = await client.send(b"one", sequence=0)
        assert late.error_code == ErrorCode.TRANSACTION_ABORTABLE
        assert (await client.write(b"two")).error_code == ErrorCode.NONE
        await client.commit()
        assert seen(broker).values == [b"one", b"two"]


async def test_in_v2_a_write_waits_for_the_end_of_the_last_transaction(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with opened() as broker:
        # The end waits for the disk to have the marker.
        await configure(broker, TOPIC, {"flush.messages": "1"})
        client = Client(broker)
        await client.init()
        await client.write(b"one")
        await client.end(commit=True)
        assert status(broker) == "PrepareCommit"
        assert (await client.write(b"two")).error_code == ErrorCode.NONE
        await client.commit()
        assert seen(broker).values == [b"one", b"two"]


async def test_in_v2_a_commit_of_offsets_waits_for_it_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with opened() as broker:
        await configure(broker, GROUP_TOPIC, {"flush.messages": "1"})
        client = Client(broker)
        await client.init()
        await client.commit_offset(1)
        await client.end(commit=True)
        assert await client.commit_offset(2) == ErrorCode.NONE
        await client.commit()
        assert await committed_offset(broker) == (ErrorCode.NONE, 2)


async def test_it_does_not_wait_for_ever(autojump_clock: trio.testing.MockClock) -> None:
    disk = SimulatedDisk()
    async with opened(disk) as broker:
        client = Client(broker)
        await client.init()
        await client.write(b"one")
        end_at_once(client, commit=True)
        client.epoch += 1
        disk.capacity = 0
        assert (await client.write(b"two")).error_code == ErrorCode.CONCURRENT_TRANSACTIONS


async def test_in_v2_a_late_write_is_not_part_of_the_next_transaction() -> None:
    async with opened() as broker:
        client, late = Client(broker), Client(broker)
        await client.init()
        late.producer_id, late.epoch = client.producer_id, client.epoch
        await client.write(b"one")
        await client.commit()
        await client.write(b"two", 1)
        assert (await late.send(b"late")).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await late.send(b"late", 2)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        await client.commit()
        assert [seen(broker, number).values for number in range(3)] == [[b"one"], [b"two"], []]


@BOTH
async def test_a_zombie_writes_nowhere(version: int) -> None:
    async with opened() as broker:
        zombie, client = Client(broker, version), Client(broker, version)
        await zombie.init()
        await zombie.write(b"lost")
        await client.init()
        for partition in range(3):
            sent = await zombie.send(b"late", partition)
            assert sent.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        await client.write(b"kept")
        await client.commit()
        assert seen(broker).values == [b"kept"]


@pytest.mark.parametrize("refused", [1, 2, 3])
async def test_a_log_that_cannot_be_made_for_a_moment_takes_no_write_outside_of_its_transaction(
    refused: int,
) -> None:
    """It is there when it comes to writing, but the coordinator was not asked about it."""
    disk = MomentarilyFull()
    async with opened(disk) as broker:
        client = Client(broker)
        await client.init()
        disk.refused = refused
        while (answer := await client.write(b"one")).error_code:
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert seen(broker).values == []
            assert not seen(broker).is_open
        await client.commit()
        assert seen(broker).values == [b"one"]
        assert not seen(broker).is_open


async def test_a_topic_that_comes_while_the_coordinator_is_asked_is_not_written_to() -> None:
    async with opened() as broker:
        await configure(broker, TRANSACTION_TOPIC, {"flush.messages": "1"})
        client = Client(broker)
        await client.init()
        broker.leader_of(TOPIC, 0)
        waiting = produce.handle(writing(client, b"one", NEW), call(12), broker)
        assert isinstance(waiting, InTurn)
        await create(broker, NEW, partitions=1)
        broker.leader_of(NEW, 0)
        answer = await waiting
        codes = [topic.partition_responses[0].error_code for topic in answer.responses]
        assert codes == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
        await client.commit()
        assert not seen(broker, topic=NEW).is_open
