"""Fetch from many partitions: what wakes it is looked at again and nothing else, and what was never
written to is read without a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from pyk.errors import ErrorCode
from pyk.handlers import fetch
from pyk.handlers.context import Context
from pyk.handlers.fetch import FEW, MEASURED_AT_ONCE
from pyk.metadata.image import Topic
from pyk.replication.partition import Partition
from pyk.replication.replicas import Replicas
from pyk.replication.unused import Unused
from pyk.types import TopicPartition
from pyk.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.handlers.brokers import ask, create, produce
from tests.handlers.turns import counting_turns

TOPIC = "wide"
MANY = 300
VERSION = 12


class Counting:
    """Counts how often each partition is read."""

    def __init__(self, replicas: Replicas) -> None:
        self.reads: Counter[int] = Counter()
        self.before_read: dict[int, Callable[[], object]] = {}
        """What happens before the first read of a partition."""
        self._replicas = replicas

    def readable(
        self, topic: Topic, number: int, closed: list[tuple[Topic, int]]
    ) -> Partition | Unused:
        self.reads[number] += 1
        self.before_read.pop(number, lambda: None)()
        return self._replicas.readable(topic, number, closed)


class Reader:
    """It waits for so many bytes of so many partitions."""

    def __init__(
        self,
        broker: Context,
        partitions: int,
        min_bytes: int,
        offset: int = 0,
        isolation: int = 0,
    ) -> None:
        self.counting = Counting(broker.replicas)
        replicas = cast("Replicas", self.counting)
        self.response: FetchResponse | None = None
        self._broker = msgspec.structs.replace(broker, replicas=replicas)
        wanted = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=10_000)
            for number in range(partitions)
        ]
        self._request = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=min_bytes,
            max_bytes=10_000_000,
            isolation_level=isolation,
            topics=[FetchTopic(topic=TOPIC, partitions=wanted)],
        )

    async def fetch(self) -> None:
        handle, refuse = fetch.handle, fetch.refuse
        self.response = await ask(handle, refuse, self._request, self._broker, VERSION)

    @property
    def codes(self) -> set[int]:
        assert self.response is not None
        return {each.error_code for each in self.response.responses[0].partitions}

    @property
    def read(self) -> dict[int, int]:
        """How many bytes it was given of partitions."""
        assert self.response is not None
        partitions = self.response.responses[0].partitions
        return {each.partition_index: len(each.records) for each in partitions if each.records}


@asynccontextmanager
async def waiting(*readers: Reader) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(reader.fetch)
        await wait_all_tasks_blocked()
        for reader in readers:
            assert reader.response is None
            reader.counting.reads.clear()
        yield


def bytes_of(broker: Context, number: int) -> int:
    return broker.leader_of(TOPIC, number).log.size


async def test_only_what_has_more_is_read_again(broker: Context) -> None:
    await create(broker, TOPIC, MANY)
    for number in range(MANY):
        produce(broker, TOPIC, 1, number)
        await trio.lowlevel.checkpoint()
    size, appends = bytes_of(broker, 0), 50
    reader = Reader(broker, MANY, min_bytes=MANY * size + appends * size)
    async with waiting(reader):
        for _ in range(appends - 1):
            produce(broker, TOPIC, 1, 7)
            await wait_all_tasks_blocked()
        assert reader.counting.reads == {7: appends - 1}
        assert reader.response is None
        produce(broker, TOPIC, 1, 8)
    assert reader.read == dict.fromkeys(range(MANY), size) | {7: appends * size, 8: 2 * size}
    # Each once more for the answer, and not before there is one.
    assert reader.counting.reads[0] == 1


@pytest.mark.parametrize("isolation", [0, 1])
async def test_what_comes_while_others_are_read_is_not_waited_for(
    broker: Context, isolation: int
) -> None:
    await create(broker, TOPIC, MANY)
    produce(broker, TOPIC, 1, 1)
    size = bytes_of(broker, 1)
    reader = Reader(broker, MANY, min_bytes=2 * size, isolation=isolation)
    # One has a log by then, and the other has none before.
    reader.counting.before_read[MANY - 2] = lambda: produce(broker, TOPIC, 1, 1)
    reader.counting.before_read[MANY - 1] = lambda: produce(broker, TOPIC, 1, 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader.fetch)
        await wait_all_tasks_blocked()
        assert reader.read == {0: size, 1: 2 * size}


async def test_many_readers_of_many_partitions_cost_what_has_changed(broker: Context) -> None:
    await create(broker, TOPIC, MANY)
    readers = [Reader(broker, MANY, min_bytes=10**6) for _ in range(10)]
    with trio.CancelScope() as scope:
        async with waiting(*readers):
            for number in range(5):
                produce(broker, TOPIC, 1, number)
            await wait_all_tasks_blocked()
            for reader in readers:
                assert reader.counting.reads == dict.fromkeys(range(5), 1)
            scope.cancel()


async def test_what_is_written_to_all_at_once_is_all_counted(broker: Context) -> None:
    await create(broker, TOPIC, MANY)
    for number in range(MANY):
        produce(broker, TOPIC, 1, number)
        await trio.lowlevel.checkpoint()
    size = bytes_of(broker, 0)
    reader = Reader(broker, MANY, min_bytes=2 * MANY * size)
    async with waiting(reader):
        assert MANY > MEASURED_AT_ONCE
        for number in range(MANY):
            produce(broker, TOPIC, 1, number)
    assert reader.read == dict.fromkeys(range(MANY), 2 * size)


async def test_a_limit_below_the_bytes_that_are_waited_for_is_enough(broker: Context) -> None:
    """As in Kafka, or who waits for more than it takes would wait for the whole of its time."""
    await create(broker, TOPIC, 1)
    produce(broker, TOPIC, 5)
    request = FetchRequest(
        max_wait_ms=60_000,
        min_bytes=1_000_000,
        max_bytes=10,
        topics=[
            FetchTopic(
                topic=TOPIC,
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=100)],
            )
        ],
    )
    response = await ask(fetch.handle, fetch.refuse, request, broker, VERSION)
    assert response.responses[0].partitions[0].records


async def test_at_its_deadline_it_has_what_there_is(
    broker: Context, autojump_clock: MockClock
) -> None:
    await create(broker, TOPIC, MANY)
    produce(broker, TOPIC, 1, 3)
    reader = Reader(broker, MANY, min_bytes=10**6)
    await reader.fetch()
    assert trio.current_time() == 60
    assert reader.read == {3: bytes_of(broker, 3)}


@pytest.mark.parametrize("partitions", [1, FEW, MANY])
async def test_what_was_never_written_to_is_read_without_a_log_and_waited_for(
    broker: Context, partitions: int
) -> None:
    await create(broker, TOPIC, MANY)
    reader, late = (Reader(broker, partitions, min_bytes=min_bytes) for min_bytes in (1, 100))
    async with waiting(reader, late):
        assert broker.directory.partitions == set()
        assert produce(broker, TOPIC, 1) == 0
        await wait_all_tasks_blocked()
        assert reader.read == {0: bytes_of(broker, 0)}
        assert late.response is None
        produce(broker, TOPIC, 10)
    assert late.read == {0: bytes_of(broker, 0)}
    assert broker.directory.partitions == {TopicPartition(TOPIC, 0)}


@pytest.mark.parametrize("partitions", [1, MANY])
async def test_who_waits_for_a_topic_that_is_deleted_hears_of_it(
    broker: Context, partitions: int
) -> None:
    await create(broker, TOPIC, MANY)
    reader = Reader(broker, partitions, min_bytes=1)
    async with waiting(reader):
        await delete(broker)
    assert reader.codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def delete(broker: Context) -> None:
    from pyk.metadata.topics import TopicReference, delete_topics

    references = [TopicReference(TOPIC)]
    await broker.mirror.carry_out(lambda image: delete_topics(image, references))


async def test_what_was_never_written_to_has_no_offset_but_the_first(broker: Context) -> None:
    await create(broker, TOPIC, 1)
    reader = Reader(broker, 1, min_bytes=1, offset=5)
    await reader.fetch()
    assert reader.codes == {ErrorCode.OFFSET_OUT_OF_RANGE}
    assert broker.directory.partitions == set()


async def test_others_have_their_turn_while_thousands_are_read(broker: Context) -> None:
    await create(broker, TOPIC, 9_000)
    reader = Reader(broker, 9_000, min_bytes=0)
    async with counting_turns() as turns:
        await reader.fetch()
        assert turns.count > 0
