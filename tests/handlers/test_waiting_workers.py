"""ShareFetch that waits: it has the record as soon as that is persisted, and never before."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Self

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyk.coordinator.share_state.batches import StateBatch
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.errors import ErrorCode
from pyk.handlers import produce as produce_handler
from pyk.handlers import share_fetch
from pyk.handlers.context import Context
from pyk.handlers.parked import Parked
from pyk.metadata.controller import set_group_config
from pyk.replication.partition import Marker
from pyk.sharing.delivery import Acknowledgement
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pyk.wire.messages.share_fetch import ShareFetchResponse
from pyk.wire.prefixed import ControlType
from tests.handlers.brokers import NOW_MS, call, create, open_context, produce, sent
from tests.handlers.queues import (
    GROUP,
    LOCKS,
    TOPIC,
    Worker,
    acquired,
    initialise,
    of_partition,
    offsets_sent,
    open_queue,
    state_end,
)
from tests.log.test_log import batch
from tests.simulated_disk import SimulatedDisk

ACCEPT = [1]
COMMITTED = {"share.isolation.level": "read_committed"}


@pytest.fixture
async def broker() -> AsyncIterator[Context]:
    async with open_queue() as broker:
        yield broker


class Waiting:
    """A worker that waits for the next record, until the end of the block. What it gets is seen at
    the moment in which it is sent."""

    def __init__(
        self, worker: Worker, when_sent: Callable[[], None] = lambda: None, **wanted: Any
    ) -> None:
        self._worker = worker
        self._wanted = wanted
        self._when_sent = when_sent
        self.responses: list[ShareFetchResponse] = []

    async def __aenter__(self) -> Self:
        request = self._worker.request(max_wait_ms=10_000, **self._wanted)
        parked = share_fetch.handle(request, self._worker.call, self._worker.broker)
        assert isinstance(parked, Parked)
        self._nursery = trio.open_nursery()
        nursery = await self._nursery.__aenter__()
        nursery.start_soon(parked.wait, self._take)
        await trio.testing.wait_all_tasks_blocked()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._nursery.__aexit__(*raised)
        self._worker.epoch += 1

    def _take(self, response: ShareFetchResponse) -> None:
        self.responses.append(sent(response, 2))
        self._when_sent()


@pytest.mark.parametrize("count", [1, 3, 100])
async def test_who_waits_gets_records_when_that_is_written_down(
    broker: Context, autojump_clock: MockClock, count: int
) -> None:
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    before, when_sent = state_end(broker), list[int]()
    async with Waiting(ann, lambda: when_sent.append(state_end(broker))) as waiting:
        produce(broker, TOPIC, count)
    assert acquired(waiting.responses[0]) == [(0, count - 1, 1)]
    assert (when_sent, state_end(broker)) == ([before + 1], before + 1)


async def test_what_waits_for_the_disk_is_sent_when_it_can_be_acknowledged(
    autojump_clock: MockClock,
) -> None:
    """A member may be quicker than the disk. If it were refused, the record would come again."""
    async with open_context({**LOCKS, "log.flush.interval.messages": "1"}) as broker:
        await create(broker, TOPIC)
        await initialise(broker, TOPIC)
        ann = Worker(broker, "ann", TOPIC)
        await ann.fetch()
        (share,) = broker.shares
        for offset in range(3):
            said = Acknowledgement(offset, offset, ACCEPT)

            def accept(said: Acknowledgement = said) -> None:
                share.carry_out(share.hear("ann", [said]))

            async with Waiting(ann, accept) as waiting:
                produce(broker, TOPIC, 1)
            assert acquired(waiting.responses[0]) == [(offset, offset, 1)]
        await trio.testing.wait_all_tasks_blocked()
        assert share.machine is not None
        assert (share.machine.start_offset, share.machine.acquired) == (3, 0)


async def test_after_any_kill_a_record_counts_exactly_as_often_as_it_was_delivered(
    autojump_clock: MockClock,
) -> None:
    """A kill before each operation of the disk, while records come one by one to who waits."""
    disk, delivered = SimulatedDisk(), list[int]()
    killed: list[tuple[SimulatedDisk, list[int]]] = []
    async with open_queue(disk) as broker:
        ann = Worker(broker, "ann", TOPIC)
        await ann.fetch()
        disk.watch = lambda: killed.append((disk.kill9(), delivered.copy()))
        for offset in range(3):
            async with Waiting(ann, partial(delivered.append, offset)) as waiting:
                produce(broker, TOPIC, 1)
            assert acquired(waiting.responses[0]) == [(offset, offset, 1)]
            if offset == 1:
                await ann.acknowledge((0, 0, ACCEPT))
        disk.watch = None
    assert len(killed) >= 6
    for each, had in killed:
        async with open_context(LOCKS, disk=each) as broker:
            found = acquired(await Worker(broker, "bob", TOPIC).fetch(max_wait_ms=1000))
            counts = {o: count for first, last, count in found for o in range(first, last + 1)}
            again = [offset for offset, count in counts.items() if count == 2]
            assert again in (had, had[1:]), "the first was accepted in the end"
            new = [offset for offset, count in counts.items() if count == 1]
            assert new in ([], [len(had)]), "it was written, and nobody had it"


async def test_what_was_known_of_records_before_they_came_counts(
    autojump_clock: MockClock,
) -> None:
    """Earlier versions wrote that the next records were delivered, as they might have been."""
    disk = SimulatedDisk()
    async with open_queue(disk) as broker:
        key = SharePartitionKey(GROUP, broker.topic_named(TOPIC).topic_id, 0)
        broker.share_coordinator.persister.write(
            key,
            state_epoch=0,
            leader_epoch=0,
            start_offset=0,
            delivery_complete_count=0,
            batches=[StateBatch(0, 15, 0, 1)],
        )
        disk = disk.kill9()
    async with open_context(LOCKS, disk=disk) as broker:
        ann = Worker(broker, "ann", TOPIC)
        assert acquired(await ann.fetch(max_wait_ms=1000)) == []
        async with Waiting(ann) as waiting:
            produce(broker, TOPIC, 10)
        assert acquired(waiting.responses[0]) == [(0, 9, 2)]
        async with Waiting(ann) as waiting:
            produce(broker, TOPIC, 10)
        assert acquired(waiting.responses[0]) == [(10, 15, 2), (16, 19, 1)]


async def test_what_cannot_be_written_down_is_not_sent_and_is_there_for_the_next(
    autojump_clock: MockClock,
) -> None:
    disk = SimulatedDisk()
    async with open_queue(disk) as broker:
        ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
        await ann.fetch()
        async with Waiting(ann) as waiting:
            # The task that is told of it has its turn when the disk is full.
            produce(broker, TOPIC, 1)
            disk.capacity = 0
        (answer,) = waiting.responses
        assert of_partition(answer).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (of_partition(answer).acquired_records, of_partition(answer).records) == ([], b"")
        disk.capacity = None
        produce(broker, TOPIC, 1)
        assert acquired(await bob.fetch()) == [(0, 0, 1), (1, 1, 1)]
        disk = disk.kill9()
    async with open_context(LOCKS, disk=disk) as broker:
        assert acquired(await Worker(broker, "cy", TOPIC).fetch(max_wait_ms=1000)) == [(0, 1, 2)]


async def test_batches_that_come_together_are_sent_together(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    async with Waiting(ann) as waiting:
        produce(broker, TOPIC, 2)
        produce(broker, TOPIC, 3)
    assert offsets_sent(waiting.responses[0]) == [0, 1, 2, 3, 4]
    assert acquired(waiting.responses[0]) == [(0, 4, 1)]
    assert acquired(await bob.fetch()) == []


async def test_who_waits_has_it_before_the_answer_to_who_brought_it_is_made(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    data = [PartitionProduceData(index=0, records=bytes(batch(NOW_MS)))]
    topic = TopicProduceData(name=TOPIC, partition_data=data)
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    async with Waiting(ann) as waiting:
        # As the connection says that has no other request for now.
        broker.news.is_attended = broker.news.is_complete = True
        produce_handler.handle(request, call(9), broker)
        assert [acquired(each) for each in waiting.responses] == [[(0, 0, 1)]]


async def test_two_who_wait_are_not_sent_the_same(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    await bob.fetch()
    async with Waiting(ann) as anns, Waiting(bob) as bobs:
        produce(broker, TOPIC, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert [len(anns.responses), len(bobs.responses)] == [1, 0]
        produce(broker, TOPIC, 1)
    assert acquired(anns.responses[0]) == [(0, 0, 1)]
    assert acquired(bobs.responses[0]) == [(1, 1, 1)]


async def test_who_takes_fewer_records_than_came_is_sent_so_many(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann, bob = Worker(broker, "ann", TOPIC), Worker(broker, "bob", TOPIC)
    await ann.fetch()
    async with Waiting(ann, max_records=2, is_strict=True) as waiting:
        produce(broker, TOPIC, 3)
    assert acquired(waiting.responses[0]) == [(0, 1, 1)]
    assert acquired(await bob.fetch()) == [(2, 2, 1)]


async def test_a_marker_is_sent_to_nobody(broker: Context, autojump_clock: MockClock) -> None:
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    async with Waiting(ann) as waiting:
        end_transaction(broker)
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.responses == []
        produce(broker, TOPIC, 1)
    assert acquired(waiting.responses[0]) == [(1, 1, 1)]


async def test_what_was_aborted_is_sent_to_nobody(
    broker: Context, autojump_clock: MockClock
) -> None:
    """Though it is all that is read of the log, where an answer is to be small."""
    await broker.mirror.carry_out(lambda image: set_group_config(image, GROUP, COMMITTED))
    ann = Worker(broker, "ann", TOPIC)
    await ann.fetch()
    async with Waiting(ann, max_bytes=1) as waiting:
        data = batch(NOW_MS, producer_id=1, sequence=0, is_transactional=True)
        broker.leader_of(TOPIC, 0).produce(data, acks=1, now_ms=NOW_MS)
        end_transaction(broker)
        await trio.testing.wait_all_tasks_blocked()
        assert waiting.responses == []
        produce(broker, TOPIC, 1)
    assert acquired(waiting.responses[0]) == [(2, 2, 1)]


def end_transaction(broker: Context) -> None:
    marker = Marker(1, 0, ControlType.ABORT, 0, 0)
    broker.leader_of(TOPIC, 0).end_transaction(marker, NOW_MS)
