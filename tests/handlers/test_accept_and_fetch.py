"""ShareFetch that accepts: that, and what is handed out for it, are persisted at once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from trio.testing import MockClock

from pyk.errors import ErrorCode
from pyk.handlers.acknowledgements import Acknowledged
from pyk.handlers.context import Context
from pyk.metadata.controller import set_group_config
from pyk.sharing.delivery import Acknowledgement
from pyk.sharing.sessions import SharedPartition
from tests.handlers.brokers import create, open_context, produce
from tests.handlers.queues import (
    GROUP,
    Worker,
    acquired,
    initialise,
    of_partition,
    state_end,
)
from tests.simulated_disk import SimulatedDisk

GAP, ACCEPT, RELEASE, REJECT = [0], [1], [2], [3]
TOPIC = "jobs"
REFUSED = ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
async def broker(disk: SimulatedDisk) -> AsyncIterator[Context]:
    async with open_context(disk=disk) as broker:
        await create(broker, TOPIC)
        await initialise(broker, TOPIC)
        produce(broker, TOPIC, 2)
        yield broker


async def begin(broker: Context) -> Worker:
    """A worker that has the first two records, where there are two more."""
    ann = Worker(broker, "ann", TOPIC)
    assert acquired(await ann.fetch()) == [(0, 1, 1)]
    produce(broker, TOPIC, 2)
    return ann


@pytest.mark.parametrize("kind", [ACCEPT, GAP])
async def test_both_are_one_record_of_the_groups_state(
    broker: Context, autojump_clock: MockClock, kind: list[int]
) -> None:
    ann = await begin(broker)
    before = state_end(broker)
    answer = await ann.fetch((0, 1, kind))
    assert of_partition(answer).acknowledge_error_code == ErrorCode.NONE
    assert acquired(answer) == [(2, 3, 1)]
    assert state_end(broker) == before + 1


async def test_what_is_accepted_is_persisted_though_nothing_is_there_to_be_had(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann = await begin(broker)
    await ann.fetch((0, 1, ACCEPT))
    before = state_end(broker)
    answer = await ann.fetch((2, 3, ACCEPT))
    assert of_partition(answer).acknowledge_error_code == ErrorCode.NONE
    assert acquired(answer) == []
    assert state_end(broker) == before + 1


async def test_both_survive_a_kill(
    disk: SimulatedDisk, broker: Context, autojump_clock: MockClock
) -> None:
    ann = await begin(broker)
    await ann.fetch((0, 1, ACCEPT))
    async with open_context(disk=disk.kill9()) as reborn:
        found = acquired(await Worker(reborn, "bob", TOPIC).fetch(max_wait_ms=1000))
        assert found == [(2, 3, 2)]


async def test_a_log_that_refuses_refuses_both_and_nothing_is_lost(
    disk: SimulatedDisk, broker: Context, autojump_clock: MockClock
) -> None:
    ann, bob = await begin(broker), Worker(broker, "bob", TOPIC)
    disk.capacity = 0
    refused = of_partition(await ann.fetch((0, 1, ACCEPT)))
    assert (refused.error_code, refused.acknowledge_error_code) == (REFUSED, REFUSED)
    disk.capacity = None
    assert acquired(await bob.fetch()) == [(2, 3, 1)], "the first two are ann's still"
    answer = of_partition(await ann.fetch((0, 1, ACCEPT)))
    assert (answer.error_code, answer.acknowledge_error_code) == (ErrorCode.NONE, ErrorCode.NONE)


async def test_what_is_released_can_be_had_with_the_same_fetch(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann = await begin(broker)
    answer = await ann.fetch((0, 0, ACCEPT), (1, 1, RELEASE))
    assert acquired(answer) == [(1, 1, 2), (2, 3, 1)]


async def test_room_for_records_is_made_by_those_that_are_accepted(
    broker: Context, autojump_clock: MockClock
) -> None:
    limit = {"share.partition.max.record.locks": "100"}
    await broker.mirror.carry_out(lambda image: set_group_config(image, GROUP, limit))
    for _ in range(20):
        produce(broker, TOPIC, 10)
    ann = Worker(broker, "ann", TOPIC)
    assert acquired(await ann.fetch()) == [(0, 101, 1)], "whole batches"
    assert acquired(await ann.fetch((0, 101, ACCEPT))) == [(102, 201, 1)]


async def test_a_partition_that_is_named_twice_is_heard_twice(
    broker: Context, autojump_clock: MockClock
) -> None:
    ann = await begin(broker)
    request = ann.request((0, 0, ACCEPT))
    request.topics.extend(ann.request((1, 1, ACCEPT)).topics)
    answer = await ann.ask(request)
    assert of_partition(answer).acknowledge_error_code == ErrorCode.NONE
    assert acquired(answer) == [(2, 3, 1)]
    refused = await ann.acknowledge((0, 1, ACCEPT))
    assert refused.responses[0].partitions[0].error_code == ErrorCode.NONE, "they are gone"
    bob = Worker(broker, "bob", TOPIC)
    assert acquired(await bob.fetch()) == []


async def test_what_is_rejected_is_decided_before_more_is_handed_out(
    broker: Context, autojump_clock: MockClock
) -> None:
    letters = {"errors.deadletterqueue.topic.name": "letters"}
    await broker.mirror.carry_out(lambda image: set_group_config(image, GROUP, letters))
    await create(broker, "letters")
    ann = await begin(broker)
    answer = await ann.fetch((0, 1, REJECT))
    assert of_partition(answer).acknowledge_error_code == ErrorCode.NONE
    assert acquired(answer) == [(2, 3, 1)]
    partition = broker.replicas.leader_of(broker.topic_named("letters"), 0)
    assert partition.log.end_offset == 2


async def test_a_share_that_was_begun_anew_is_not_handed_out_with_what_the_old_one_heard(
    broker: Context, autojump_clock: MockClock
) -> None:
    await begin(broker)
    topic = broker.topic_named(TOPIC)
    where = SharedPartition(topic.topic_id, 0)
    old = broker.shares.of(GROUP, topic, 0)
    change = old.hear("ann", [Acknowledgement(0, 1, ACCEPT)])
    acknowledged = Acknowledged()
    acknowledged.hear(where, old, change)
    broker.shares.forget(old)
    assert acknowledged.take(where, broker.shares.of(GROUP, topic, 0)) is None
    assert acknowledged.take(where, old) is change
