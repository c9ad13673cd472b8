"""A member of a share group with many partitions: others have their turn in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyk.handlers.acknowledgements import PARTITIONS_AT_ONCE
from pyk.handlers.context import Context
from pyk.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pyk.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.handlers.brokers import create, open_context, produce
from tests.handlers.queues import GROUP, LOCKS, TOPIC, Worker, initialise

COUNT = 3 * PARTITIONS_AT_ONCE
ACCEPT = 1


@pytest.fixture
async def broker() -> AsyncIterator[Context]:
    async with open_context(LOCKS) as broker:
        await create(broker, TOPIC, partitions=COUNT)
        for number in range(COUNT):
            await initialise(broker, TOPIC, number)
            produce(broker, TOPIC, 1, number)
            await trio.lowlevel.checkpoint()
        yield broker


class Wide(Worker):
    """It fetches from all partitions."""

    async def take(self) -> set[int]:
        """The partitions that it is handed records of."""
        partitions = [
            FetchPartition(partition_index=number, acknowledgement_batches=[])
            for number in (range(COUNT) if not self.epoch else ())
        ]
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch,
            max_wait_ms=0,
            min_bytes=1,
            max_records=10 * COUNT,
            batch_size=500,
            topics=[FetchTopic(topic_id=self.topic_id, partitions=partitions)],
            forgotten_topics_data=[],
        )
        answer = await self.ask(request)
        found = [each for topic in answer.responses for each in topic.partitions]
        assert not any(each.error_code for each in found)
        return {each.partition_index for each in found if each.acquired_records}

    async def accept_all(self) -> None:
        batch = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])
        partitions = [
            AcknowledgePartition(partition_index=number, acknowledgement_batches=[batch])
            for number in range(COUNT)
        ]
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=self.epoch,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=partitions)],
        )
        answer = await self.ask_to_acknowledge(request)
        codes = [each.error_code for topic in answer.responses for each in topic.partitions]
        assert codes == [0] * COUNT


def held(broker: Context) -> int:
    return sum(share.machine.acquired for share in broker.shares if share.machine)


async def turns_of_others(run: Awaitable[object]) -> int:
    """How often others had their turn until it was over."""
    turns = 0
    async with trio.open_nursery() as nursery:

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        nursery.start_soon(count)
        await run
        nursery.cancel_scope.cancel()
    return turns


async def test_an_answer_has_records_of_some_partitions_and_the_next_has_those_of_others(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann = Wide(broker, "ann", TOPIC)
    found = [await ann.take() for _ in range(3)]
    assert [len(each) for each in found] == [PARTITIONS_AT_ONCE] * 3
    assert set().union(*found) == set(range(COUNT))
    assert await ann.take() == set()


async def test_many_share_partitions_begin_in_turns(
    broker: Context, autojump_clock: MockClock
) -> None:
    turns = await turns_of_others(Wide(broker, "ann", TOPIC).take())
    assert turns >= COUNT // PARTITIONS_AT_ONCE - 1


async def test_many_partitions_are_acknowledged_in_turns(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann = Wide(broker, "ann", TOPIC)
    for _ in range(3):
        await ann.take()
    assert held(broker) == COUNT
    turns = await turns_of_others(ann.accept_all())
    assert turns >= COUNT // PARTITIONS_AT_ONCE - 1
    assert held(broker) == 0


async def test_a_member_of_many_partitions_that_is_gone_gives_them_back_in_turns(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann = Wide(broker, "ann", TOPIC)
    for _ in range(3):
        await ann.take()
    ann.die()
    assert 0 < COUNT - held(broker) <= PARTITIONS_AT_ONCE
    turns = 0
    while held(broker):
        turns += 1
        await trio.lowlevel.checkpoint()
    assert turns >= 2
