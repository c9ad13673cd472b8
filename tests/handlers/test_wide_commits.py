"""Commits of very many partitions: prepared in turns, and still one decision and one batch."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import trio

from pyk import turns
from pyk.coordinator.internal_topics import GROUP_TOPIC, partition_for
from pyk.errors import ErrorCode
from pyk.handlers import offset_commit, txn_offset_commit
from pyk.handlers.context import Context
from pyk.handlers.group_calls import COMMITTED_AT_ONCE_MAX
from pyk.metadata.topics import TopicReference, delete_topics
from pyk.types import FileSlice
from pyk.wire.batch import iterate_batches
from pyk.wire.compression import Compression
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pyk.wire.records import RECORDS_BYTES_MAX, read_records
from tests.coordinator.test_group_coordinator import begin, find
from tests.coordinator.transactional_client import Client
from tests.coordinator.transactional_client import opened as transactional_broker
from tests.handlers.brokers import ask, create, open_context
from tests.handlers.turns import counting_turns

GROUP, WIDE = "readers", "wide"
COUNT = 3 * COMMITTED_AT_ONCE_MAX
TOO_LONG = "x" * 5000


@pytest.fixture(autouse=True)
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turn wherever they may."""
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.0)


@dataclass
class Between:
    """Looks at a group at every turn that others have while a request is answered."""

    broker: Context
    turns: int = 0
    seen: set[int] = field(default_factory=set)
    """How many partitions the group had committed, at every turn."""
    do: Callable[[], Awaitable[object]] | None = None
    """Called at the second turn."""

    async def run(self) -> None:
        while True:
            await trio.lowlevel.checkpoint()
            self.turns += 1
            self.seen.add(len(known(self.broker)))
            if self.turns == 2 and self.do is not None:
                await self.do()


@asynccontextmanager
async def between(broker: Context) -> AsyncIterator[Between]:
    found = Between(broker)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(found.run)
        yield found
        nursery.cancel_scope.cancel()


def known(broker: Context, topic: str = WIDE) -> dict[int, Any]:
    return dict(broker.groups.of(GROUP).machine.offsets.of(GROUP).get(topic, {}))


@asynccontextmanager
async def opened(**configs: str) -> AsyncIterator[Context]:
    async with open_context(configs) as broker:
        await begin(broker)
        await create(broker, WIDE, COUNT)
        assert (await find(broker, GROUP)).error_code == ErrorCode.NONE
        yield broker


async def commit(
    broker: Context, numbers: range, *, topic: str = WIDE, long: tuple[int, ...] = ()
) -> list[int]:
    """The errors of all, the metadata of some of which are too long."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=number,
            committed_offset=10 + number,
            committed_metadata=TOO_LONG if number in long else "",
        )
        for number in numbers
    ]
    request = OffsetCommitRequest(
        group_id=GROUP, topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    )
    response = await ask(offset_commit.handle, offset_commit.refuse, request, broker, 9)
    by_number = {
        each.partition_index: each.error_code
        for found in response.topics
        for each in found.partitions
    }
    return [by_number[number] for number in numbers]


def batches(broker: Context) -> list[list[tuple[bytes | None, bytes | None]]]:
    """Keys and values in the log of the group's shard."""
    count = len(broker.image.topics[GROUP_TOPIC].partitions)
    log = broker.leader_of(GROUP_TOPIC, partition_for(GROUP, count)).log
    piece = log.read(0, 10**8, log.end_offset)
    assert piece is not None
    assert isinstance(piece.records, FileSlice)
    file: Any = piece.records.file
    data = file.read(piece.records.position, piece.records.size)
    return [
        [(record.key, record.value) for record in read_records(data, position, header)]
        for position, header in iterate_batches(data, torn_tail_allowed=False)
    ]


async def test_others_have_their_turn_before_many_are_committed_by_one_decision() -> None:
    async with opened() as broker, between(broker) as others:
        assert set(await commit(broker, range(COUNT))) == {ErrorCode.NONE}
        assert others.turns > 10
        assert others.seen <= {0, COUNT}
        assert {number: value.offset for number, value in known(broker).items()} == {
            number: 10 + number for number in range(COUNT)
        }
        assert [len(records) for records in batches(broker)] == [COUNT]


@pytest.mark.parametrize("codec", list(Compression))
async def test_the_log_has_the_same_as_if_they_were_few(codec: Compression) -> None:
    static = {"offsets.topic.compression.codec": str(codec.value)}
    async with opened(**static) as broker:
        few = COMMITTED_AT_ONCE_MAX
        for start in range(0, COUNT, few):
            await commit(broker, range(start, start + few))
        await commit(broker, range(COUNT))
        *small, wide = batches(broker)
        assert [len(records) for records in small] == [few] * 3
        assert wide == [record for records in small for record in records]


async def test_each_partition_has_its_answer() -> None:
    async with opened() as broker:
        codes = await commit(broker, range(COUNT + 5), long=(7, COUNT - 1))
        large, unknown = (
            ErrorCode.OFFSET_METADATA_TOO_LARGE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        )
        assert {number: code for number, code in enumerate(codes) if code} == {
            7: large,
            COUNT - 1: large,
            **dict.fromkeys(range(COUNT, COUNT + 5), unknown),
        }
        assert known(broker).keys() == set(range(COUNT)) - {7, COUNT - 1}


async def test_what_a_client_commits_after_it_has_hung_up_is_not_undone() -> None:
    async with opened() as broker:
        await hanging_up(lambda: commit(broker, range(COUNT)), broker)
        assert await commit(broker, range(1), long=()) == [ErrorCode.NONE]
        async with counting_turns() as turns:
            while turns.count < 10 * COUNT:
                await trio.lowlevel.checkpoint()
        assert known(broker).keys() == {0}


async def test_what_readers_of_the_log_would_not_inflate_is_not_committed() -> None:
    static = {"offsets.topic.compression.codec": str(Compression.GZIP.value)}
    static["offset.metadata.max.bytes"] = "6000"
    numbers = range(COUNT)
    assert len(TOO_LONG) * COUNT < RECORDS_BYTES_MAX < len(TOO_LONG) * COUNT * 2
    async with opened(**static) as broker:
        assert set(await commit(broker, numbers, long=tuple(numbers))) == {ErrorCode.NONE}
        committed = known(broker)
        topics = ["one", "two"]
        for name in topics:
            await create(broker, name, COUNT)
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=number, committed_offset=1, committed_metadata=TOO_LONG
            )
            for number in numbers
        ]
        request = OffsetCommitRequest(
            group_id=GROUP,
            topics=[
                OffsetCommitRequestTopic(name=name, partitions=partitions)
                for name in (*topics, "unknown")
            ],
        )
        response = await ask(offset_commit.handle, offset_commit.refuse, request, broker, 9)
        assert {
            topic.name: {each.error_code for each in topic.partitions} for topic in response.topics
        } == {
            **{name: {ErrorCode.UNKNOWN_SERVER_ERROR} for name in topics},
            "unknown": {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        }
        assert known(broker) == committed
        assert [len(records) for records in batches(broker)] == [COUNT]


async def test_nothing_is_committed_for_a_topic_that_is_deleted_meanwhile() -> None:
    async with opened() as broker, between(broker) as others:
        others.do = lambda: delete(broker)
        codes = await commit(broker, range(COUNT))
        assert set(codes) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert known(broker) == {}


async def test_a_topic_made_anew_meanwhile_is_the_one_that_is_committed_for() -> None:
    async with opened() as broker, between(broker) as others:

        async def make_anew() -> None:
            await delete(broker)
            await create(broker, WIDE, COUNT)

        others.do = make_anew
        assert set(await commit(broker, range(COUNT))) == {ErrorCode.NONE}
        assert {value.topic_id for value in known(broker).values()} == {
            broker.image.topics[WIDE].topic_id
        }


async def delete(broker: Context) -> None:
    references = [TopicReference(WIDE)]
    await broker.mirror.carry_out(lambda image: delete_topics(image, references))


async def test_who_may_not_commit_is_refused() -> None:
    async with opened() as broker:
        partitions = [
            OffsetCommitRequestPartition(
                partition_index=number, committed_offset=1, committed_metadata=""
            )
            for number in range(COUNT)
        ]
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=3,
            member_id="nobody",
            topics=[OffsetCommitRequestTopic(name=WIDE, partitions=partitions)],
        )
        response = await ask(offset_commit.handle, offset_commit.refuse, request, broker, 8)
        [topic] = response.topics
        assert {each.error_code for each in topic.partitions} == {ErrorCode.ILLEGAL_GENERATION}
        assert known(broker) == {}


@pytest.mark.parametrize("is_made_anew", [False, True])
async def test_many_are_committed_in_a_transaction(is_made_anew: bool) -> None:
    async with transactional_broker() as broker:
        await create(broker, WIDE, COUNT)
        client = Client(broker)
        await client.init()
        async with between(broker) as others:
            if is_made_anew:

                async def make_anew() -> None:
                    await delete(broker)
                    await create(broker, WIDE, COUNT)

                others.do = make_anew
            assert await commit_in_transaction(client) == {ErrorCode.NONE}
            assert others.turns > 10
        assert known(broker) == {}
        await client.commit()
        found = known(broker)
        assert {number: value.offset for number, value in found.items()} == {
            number: 10 + number for number in range(COUNT)
        }
        topic_id = broker.image.topics[WIDE].topic_id
        assert {value.topic_id for value in found.values()} == {topic_id}
        assert max(len(records) for records in batches(broker)) == COUNT


async def test_what_a_client_has_hung_up_over_is_not_in_its_next_transaction() -> None:
    async with transactional_broker() as broker:
        await create(broker, WIDE, COUNT)
        client = Client(broker)
        await client.init()
        await hanging_up(lambda: commit_in_transaction(client), broker)
        offsets = broker.groups.of(GROUP).machine.offsets
        async with counting_turns() as turns:
            while turns.count < 10 * COUNT:
                await trio.lowlevel.checkpoint()
        assert not offsets.pending(GROUP)


async def hanging_up(send: Callable[[], Awaitable[object]], broker: Context) -> None:
    """The client does so while its request is prepared."""
    with trio.CancelScope() as client:
        async with between(broker) as others:

            async def hang_up() -> None:
                client.cancel()

            others.do = hang_up
            await send()
    assert client.cancelled_caught


async def commit_in_transaction(client: Client) -> set[int]:
    partitions = [
        TxnOffsetCommitRequestPartition(
            partition_index=number, committed_offset=10 + number, committed_metadata=""
        )
        for number in range(COUNT)
    ]
    request = TxnOffsetCommitRequest(
        transactional_id=client.transactional_id,
        group_id=GROUP,
        producer_id=client.producer_id,
        producer_epoch=client.epoch,
        topics=[TxnOffsetCommitRequestTopic(name=WIDE, partitions=partitions)],
    )
    handle, refuse = txn_offset_commit.handle, txn_offset_commit.refuse
    response = await ask(handle, refuse, request, client.broker, 5)
    return {each.error_code for topic in response.topics for each in topic.partitions}
