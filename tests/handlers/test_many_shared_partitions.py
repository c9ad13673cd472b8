"""ShareFetch from several partitions: one that has enough will do, and others are for later."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from trio.testing import MockClock

from pyk.handlers.context import Context
from pyk.wire.messages.share_fetch import ShareFetchResponse
from tests.handlers.brokers import create, open_context, produce
from tests.handlers.queues import Worker, initialise

TOPIC = "jobs"
PARTITIONS = range(3)
RELEASE = [2]


@pytest.fixture
async def broker() -> AsyncIterator[Context]:
    async with open_context() as broker:
        await create(broker, TOPIC, partitions=len(PARTITIONS))
        for partition in PARTITIONS:
            await initialise(broker, TOPIC, partition)
        yield broker


class Wide(Worker):
    """It fetches from all partitions."""

    async def take(self, records_max: int) -> dict[int, list[tuple[int, int]]]:
        """The offsets of each partition that it is handed."""
        request = self.request(max_records=records_max, is_strict=True)
        if not self.epoch:
            others = [Worker(self.broker, self.name, TOPIC, each) for each in PARTITIONS[1:]]
            request.topics.extend(topic for each in others for topic in each.request().topics)
        return _offsets(await self.ask(request))


def _offsets(response: ShareFetchResponse) -> dict[int, list[tuple[int, int]]]:
    return {
        each.partition_index: [(a.first_offset, a.last_offset) for a in each.acquired_records]
        for topic in response.responses
        for each in topic.partitions
        if each.acquired_records
    }


async def test_each_has_its_turn(broker: Context, autojump_clock: MockClock) -> None:
    for partition in PARTITIONS:
        produce(broker, TOPIC, 20, partition)
    ann = Wide(broker, "ann", TOPIC)
    found = [await ann.take(10) for _ in range(6)]
    assert all(len(each) == 1 for each in found)
    assert sorted((p, *offsets) for each in found for p, offsets in each.items()) == [
        (partition, offsets) for partition in PARTITIONS for offsets in ((0, 9), (10, 19))
    ]
    assert await ann.take(10) == {}


async def test_what_one_lacks_others_have(broker: Context, autojump_clock: MockClock) -> None:
    for partition, count in zip(PARTITIONS, (4, 5, 20), strict=True):
        produce(broker, TOPIC, count, partition)
    found = await Wide(broker, "ann", TOPIC).take(10)
    assert sum(last - first + 1 for each in found.values() for first, last in each) == 10


async def test_what_somebody_else_has_does_not_count(
    broker: Context, autojump_clock: MockClock
) -> None:
    produce(broker, TOPIC, 20, 0)
    produce(broker, TOPIC, 4, 1)
    bob = Worker(broker, "bob", TOPIC)
    await bob.fetch(max_records=20)
    await bob.acknowledge((0, 0, RELEASE))
    assert await Wide(broker, "ann", TOPIC).take(5) == {0: [(0, 0)], 1: [(0, 3)]}
