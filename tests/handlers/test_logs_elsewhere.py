"""Readers, share groups and dead letters that need a log which a thread is making or opening."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from errno import EMFILE
from inspect import isawaitable
from typing import TypeAlias

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyk.errors import ErrorCode
from pyk.handlers import (
    delete_records,
    describe_producers,
    describe_share_group_offsets,
    fetch,
    list_offsets,
    offset_for_leader_epoch,
)
from pyk.handlers import produce as produce_
from pyk.handlers.context import Context
from pyk.handlers.list_offsets import LATEST
from pyk.log.opening import LogOpening
from pyk.metadata.controller import set_group_config
from pyk.replication import topic_logs
from pyk.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pyk.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from pyk.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pyk.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.handlers.brokers import ask, call, create, open_context, produce, sent
from tests.handlers.queues import (
    GROUP,
    TOPIC,
    Worker,
    acquired,
    initialise,
    of_partition,
    open_queue,
    records_of,
)
from tests.handlers.test_slow_batches import VERSION, batch, outcomes, request_for
from tests.replication.test_topic_logs import Gate
from tests.simulated_disk import SimulatedDisk

Read: TypeAlias = Callable[[Context, int], Awaitable[list[int]]]

DEAD = "dead"
MANY = 40


@pytest.fixture
def gate() -> Gate:
    gate = Gate(is_before=True)
    gate.opened.set()
    return gate


def close(gate: Gate) -> None:
    gate.opened = trio.Event()


async def write_first(broker: Context, topic: str) -> None:
    response = produce_.handle(
        sent(request_for(topic, batch(1), range(1)), VERSION), call(VERSION), broker
    )
    assert isawaitable(response)
    assert [code for code, _ in outcomes(await response)] == [ErrorCode.NONE]


async def closed_cleanly(partitions: int) -> SimulatedDisk:
    """A disk with logs of three records each, which nobody has opened since."""
    disk = SimulatedDisk()
    async with open_context(disk=disk) as broker:
        await create(broker, TOPIC, partitions)
        for number in range(partitions):
            produce(broker, TOPIC, 3, number)
        broker.directory.close()
    return disk


async def fetched(broker: Context, partitions: int) -> list[int]:
    """The errors of partitions. Those without one have given records."""
    wanted = [
        FetchPartition(partition=number, fetch_offset=0, partition_max_bytes=10_000)
        for number in range(partitions)
    ]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=[FetchTopic(topic=TOPIC, partitions=wanted)]
    )
    response = await ask(fetch.handle, fetch.refuse, request, broker, 12)
    for each in response.responses[0].partitions:
        assert each.error_code or each.high_watermark >= 3
        assert each.error_code or each.records
    return [each.error_code for each in response.responses[0].partitions]


async def listed(broker: Context, partitions: int) -> list[int]:
    """The same of those that have told their end."""
    wanted = [
        ListOffsetsPartition(partition_index=number, timestamp=LATEST)
        for number in range(partitions)
    ]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=TOPIC, partitions=wanted)]
    )
    response = await ask(list_offsets.handle, list_offsets.refuse, request, broker, 7)
    for each in response.topics[0].partitions:
        assert each.error_code or each.offset >= 3
    return [each.error_code for each in response.topics[0].partitions]


async def ended(broker: Context, partitions: int) -> list[int]:
    """The same of those that have told where an epoch ends."""
    wanted = [OffsetForLeaderPartition(partition=n, leader_epoch=0) for n in range(partitions)]
    request = OffsetForLeaderEpochRequest(
        topics=[OffsetForLeaderTopic(topic=TOPIC, partitions=wanted)]
    )
    handle, refuse = offset_for_leader_epoch.handle, offset_for_leader_epoch.refuse
    response = await ask(handle, refuse, request, broker, 4)
    return [each.error_code for each in response.topics[0].partitions]


async def cut(broker: Context, partitions: int) -> list[int]:
    """The same of those whose first record was deleted."""
    wanted = [
        DeleteRecordsPartition(partition_index=number, offset=1) for number in range(partitions)
    ]
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=TOPIC, partitions=wanted)], timeout_ms=1000
    )
    response = await ask(delete_records.handle, delete_records.refuse, request, broker, 2)
    for each in response.topics[0].partitions:
        assert each.error_code or each.low_watermark == 1
    return [each.error_code for each in response.topics[0].partitions]


async def described(broker: Context, partitions: int) -> list[int]:
    """The same of those that have told who writes to them."""
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=TOPIC, partition_indexes=list(range(partitions)))]
    )
    handle, refuse = describe_producers.handle, describe_producers.refuse
    response = await ask(handle, refuse, request, broker, 0)
    return [each.error_code for each in response.topics[0].partitions]


async def lagging(broker: Context, partitions: int) -> list[int]:
    """The same of those that have told how far a share group is behind."""
    for number in range(partitions):
        await initialise(broker, TOPIC, number)
    wanted = DescribeShareGroupOffsetsRequestGroup(
        group_id=GROUP,
        topics=[
            DescribeShareGroupOffsetsRequestTopic(
                topic_name=TOPIC, partitions=list(range(partitions))
            )
        ],
    )
    handle, refuse = describe_share_group_offsets.handle, describe_share_group_offsets.refuse
    request = DescribeShareGroupOffsetsRequest(groups=[wanted])
    response = await ask(handle, refuse, request, broker, 1)
    for each in response.groups[0].topics[0].partitions:
        assert each.error_code or each.lag >= 3
    return [each.error_code for each in response.groups[0].topics[0].partitions]


READERS = pytest.mark.parametrize("read", [fetched, listed, ended, cut, described, lagging])


@READERS
async def test_a_reader_waits_for_a_log_that_somebody_else_opens(gate: Gate, read: Read) -> None:
    async with open_context(disk=await closed_cleanly(1), logs_elsewhere=gate) as broker:
        close(gate)
        found: list[list[int]] = []

        async def note() -> None:
            found.append(await read(broker, 1))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_first, broker, TOPIC)
            await wait_all_tasks_blocked()
            nursery.start_soon(note)
            await wait_all_tasks_blocked()
            assert found == []
            gate.opened.set()
        assert found == [[ErrorCode.NONE]]


@READERS
async def test_a_reader_does_not_wait_for_ever(
    gate: Gate, read: Read, autojump_clock: MockClock
) -> None:
    async with open_context(disk=await closed_cleanly(1), logs_elsewhere=gate) as broker:
        close(gate)
        assert await read(broker, 1) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        gate.opened.set()
        await wait_all_tasks_blocked()
        assert await read(broker, 1) == [ErrorCode.NONE]


@READERS
async def test_logs_are_opened_elsewhere_for_who_reads_many(gate: Gate, read: Read) -> None:
    async with open_context(disk=await closed_cleanly(MANY), logs_elsewhere=gate) as broker:
        close(gate)

        async def check() -> None:
            assert await read(broker, MANY) == [ErrorCode.NONE] * MANY

        async with trio.open_nursery() as nursery:
            nursery.start_soon(check)
            await wait_all_tasks_blocked()
            assert not any(each.topic == TOPIC for each in broker.directory.logs)
            gate.opened.set()


@READERS
async def test_what_threads_have_not_opened_in_time_is_not_opened_by_the_loop(
    gate: Gate, read: Read, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what nobody has begun to open."""
    monkeypatch.setattr(topic_logs, "_ENSURED_AT_ONCE", 5)
    async with open_context(disk=await closed_cleanly(MANY), logs_elsewhere=gate) as broker:
        close(gate)
        assert set(await read(broker, MANY)) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}
        assert not any(each.topic == TOPIC for each in broker.directory.logs)
        gate.opened.set()


@READERS
async def test_who_reads_what_the_disk_keeps_closed_hears_so(
    gate: Gate, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_context(disk=await closed_cleanly(3), logs_elsewhere=gate) as broker:
        with monkeypatch.context() as busy:
            busy.setattr(LogOpening, "attempt", lambda *_: OSError(EMFILE, "too many"))
            assert await read(broker, 3) == [ErrorCode.KAFKA_STORAGE_ERROR] * 3
        assert await read(broker, 3) == [ErrorCode.NONE] * 3


async def test_a_share_group_waits_for_a_log_that_is_being_made(gate: Gate) -> None:
    async with open_queue(logs_elsewhere=gate) as broker:
        close(gate)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_first, broker, TOPIC)
            await wait_all_tasks_blocked()

            async def share() -> None:
                answer = await Worker(broker, "ann", TOPIC).fetch()
                assert of_partition(answer).error_code == ErrorCode.NONE

            nursery.start_soon(share)
            await wait_all_tasks_blocked()
            gate.opened.set()


async def test_dead_letters_wait_for_their_log_that_is_being_made(gate: Gate) -> None:
    async with open_queue(logs_elsewhere=gate) as broker:
        await broker.mirror.carry_out(
            lambda image: set_group_config(
                image, GROUP, {"errors.deadletterqueue.topic.name": DEAD}
            )
        )
        await create(broker, DEAD)
        produce(broker, TOPIC, 3)
        ann = Worker(broker, "ann", TOPIC)
        assert acquired(await ann.fetch()) == [(0, 2, 1)]
        close(gate)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_first, broker, DEAD)
            await wait_all_tasks_blocked()

            async def reject() -> None:
                answer = await ann.acknowledge((0, 2, [3]))
                assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE

            nursery.start_soon(reject)
            await wait_all_tasks_blocked()
            gate.opened.set()
        await wait_all_tasks_blocked()
        assert len(records_of(broker.leader_of(DEAD, 0), 0, 10**9)) == 4
