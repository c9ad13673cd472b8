"""Share groups are moved, forgotten and deleted in several steps: between any two of them a member
may join, a log may refuse, the client may hang up, and the broker may be killed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from pyk.coordinator.internal_topics import GROUP_TOPIC, SHARE_TOPIC
from pyk.coordinator.share.group import ShareGroup
from pyk.coordinator.share.groups import INITIALIZED_WITHIN
from pyk.coordinator.share.partitions import SharePartitions
from pyk.coordinator.share_coordinator import Persister
from pyk.coordinator.share_lifecycle import ShareLifecycle, places
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.coordinator.share_state.state import UNINITIALISED
from pyk.errors import ErrorCode
from pyk.handlers.context import Context
from pyk.metadata.controller import set_group_config
from pyk.turns import settled
from tests.faults.failing_disk import FailingDisk, Fault, Operation, Plan
from tests.handlers.brokers import create, open_context, produce
from tests.handlers.queues import Worker, acquired, of_partition
from tests.handlers.test_share_groups import (
    GROUP,
    TOPIC,
    alter,
    beat,
    begin,
    delete,
    forget,
    held,
    key,
)
from tests.simulated_disk import SimulatedDisk

FLUSHED = {"log.flush.interval.messages": "1", "group.share.assignment.interval.ms": "0"}
"""Each record is waited for."""
STEPS = range(24)
MOVED = {0: 4, 1: 2}
DONE, NON_EMPTY = ErrorCode.NONE, ErrorCode.NON_EMPTY_GROUP

Act = Callable[[Context], Awaitable[int]]


class SlowPersister(Persister):
    """The broker's own, which asks after a while, as if a shard had to be loaded."""

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int
    ) -> Awaitable[None] | None:
        ask = super().initialize
        return later(lambda: ask(key, state_epoch=state_epoch, start_offset=start_offset))

    def delete(self, key: SharePartitionKey) -> Awaitable[None] | None:
        ask = super().delete
        return later(lambda: ask(key))


async def later(ask: Callable[[], Awaitable[None] | None]) -> None:
    for _ in range(5):
        await trio.lowlevel.checkpoint()
    kept = ask()
    if kept is not None:
        await kept


@asynccontextmanager
async def open_broker(
    disk: SimulatedDisk | None = None, *, is_slow: bool = False
) -> AsyncIterator[Context]:
    async with open_context(FLUSHED, disk=disk) as broker:
        if is_slow:
            broker.lifecycle_of_shares = ShareLifecycle(
                lambda: SlowPersister(broker.share_coordinator.shards), broker.start_soon
            )
        await begin(broker)
        produce(broker, TOPIC, 10)
        await settled(broker.share_coordinator.persister.summary(key(broker, 0)))
        yield broker


@asynccontextmanager
async def opened_again(disk: SimulatedDisk) -> AsyncIterator[Context]:
    """After the last broker is gone."""
    async with open_context(FLUSHED, disk=disk) as broker:
        _ = broker.share_coordinator
        await broker.groups.of(GROUP).wait_loaded()
        await trio.testing.wait_all_tasks_blocked()
        yield broker


async def configure(broker: Context, **values: str) -> None:
    configs = {key.replace("_", "."): value for key, value in values.items()}
    await broker.mirror.carry_out(lambda image: set_group_config(image, GROUP, configs))


async def move(broker: Context) -> int:
    answer = await alter(broker, {TOPIC: MOVED})
    if answer.error_code:
        return answer.error_code
    [topic] = answer.responses
    [code] = {each.error_code for each in topic.partitions}
    return code


async def forget_topic(broker: Context) -> int:
    answer = await forget(broker, TOPIC)
    if answer.error_code:
        return answer.error_code
    return answer.responses[0].error_code


def shown(broker: Context) -> SharePartitions:
    group = next((g for g in broker.groups.of(GROUP).machine if g.group_id == GROUP), None)
    return group.share_partitions if isinstance(group, ShareGroup) else SharePartitions()


async def starts(broker: Context) -> dict[int, int]:
    """Where states begin: what was never begun, or is deleted, has none."""
    persister = broker.share_coordinator.persister
    found = {}
    for number in range(2):
        summary = await settled(persister.summary(key(broker, number)))
        if summary != UNINITIALISED:
            found[number] = summary.start_offset
    return found


async def check(broker: Context) -> None:
    """Everything that the group may read has a state, and can be read by its members."""
    there = shown(broker)
    assert there.initializing == {}
    begun = await starts(broker)
    assert {number for _, number in places(there.initialized)} == set(begun)
    for number in begun:
        worker = Worker(broker, "reader", TOPIC, number)
        acquired(await worker.fetch())
        await worker.leave()


async def interrupted(broker: Context, act: Act, steps: int, between: Act) -> tuple[int, int]:
    """What comes of both: one is begun so many steps after the other."""
    codes: list[int] = []

    async def run() -> None:
        codes.append(await act(broker))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        for _ in range(steps):
            await trio.lowlevel.checkpoint()
        other = await between(broker)
    await trio.testing.wait_all_tasks_blocked()
    return codes[0], other


async def join(broker: Context) -> int:
    assert held(await beat(broker, 0, TOPIC)) == [0, 1]
    return 0


# A member joins


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("steps", STEPS)
async def test_a_group_that_is_moved_is_there_though_a_member_joins_meanwhile(
    is_slow: bool, steps: int
) -> None:
    async with open_broker(is_slow=is_slow) as broker:
        code, _ = await interrupted(broker, move, steps, join)
        assert await starts(broker) == (MOVED if code == DONE else {0: -1, 1: -1})
        assert code in (DONE, NON_EMPTY)
        await check(broker)


@pytest.mark.parametrize("act", [forget_topic, delete])
@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("steps", STEPS)
async def test_a_member_that_joins_while_its_group_is_forgotten_can_read(
    act: Act, is_slow: bool, steps: int
) -> None:
    async with open_broker(is_slow=is_slow) as broker:
        await move(broker)
        code, _ = await interrupted(broker, act, steps, join)
        assert code in (DONE, NON_EMPTY)
        assert len(await starts(broker)) == 2
        if act is forget_topic and code == DONE:
            assert await starts(broker) == {0: -1, 1: -1}
        await check(broker)


async def test_who_joins_and_leaves_while_its_group_is_deleted_leaves_no_states() -> None:
    async def pass_by(broker: Context) -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat, broker, 0, TOPIC)
            await trio.lowlevel.checkpoint()
            return (await beat(broker, -1)).error_code

    for steps in STEPS:
        async with open_broker(is_slow=bool(steps % 2)) as broker:
            await move(broker)
            await interrupted(broker, delete, steps, pass_by)
            if await delete(broker) != ErrorCode.NON_EMPTY_GROUP:
                assert await starts(broker) == {}


class FirstIsSlow(Persister):
    """The broker's own, that takes longer to begin with something than a group believes in it."""

    count = 0

    def initialize(
        self, key: SharePartitionKey, *, state_epoch: int, start_offset: int
    ) -> Awaitable[None] | None:
        ask = super().initialize
        self.count += 1

        async def ask_later() -> None:
            await trio.sleep(INITIALIZED_WITHIN * 4 / 3)
            kept = ask(key, state_epoch=state_epoch, start_offset=start_offset)
            if kept is not None:
                await kept

        return ask_later()


async def test_what_has_begun_late_does_not_begin_again(autojump_clock: MockClock) -> None:
    """Its members may have read some of it by then."""
    async with open_context(FLUSHED) as broker:
        persister = FirstIsSlow(broker.share_coordinator.shards)
        broker.lifecycle_of_shares = ShareLifecycle(lambda: persister, broker.start_soon)
        await begin(broker)
        answer = await beat(broker, 0, TOPIC)
        assert held(answer) == []
        await trio.sleep(INITIALIZED_WITHIN)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat, broker, answer.member_epoch, TOPIC)
            await trio.sleep(2 * INITIALIZED_WITHIN)
        assert held(await beat(broker, 0, TOPIC)) == [0, 1]
        await trio.sleep(4 * INITIALIZED_WITHIN)
        assert persister.count == 2, "one for each partition"
        await check(broker)


@pytest.mark.parametrize("is_slow", [False, True])
@pytest.mark.parametrize("steps", STEPS)
async def test_a_group_is_moved_and_then_deleted_or_deleted_and_then_moved(
    is_slow: bool, steps: int
) -> None:
    async with open_broker(is_slow=is_slow) as broker:
        moved, deleted = await interrupted(broker, move, steps, delete)
        assert moved == DONE
        assert await starts(broker) == ({} if deleted == DONE else MOVED)
        await check(broker)
        assert await delete(broker) == (DONE if deleted else ErrorCode.GROUP_ID_NOT_FOUND)
        assert await starts(broker) == {}


# The client hangs up


@pytest.mark.parametrize("act", [move, forget_topic, delete])
@pytest.mark.parametrize("steps", STEPS)
async def test_what_a_client_has_asked_for_is_done_though_it_hangs_up(act: Act, steps: int) -> None:
    async with open_broker() as broker:
        if act is not move:
            await move(broker)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(act, broker)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        if steps:
            assert await starts(broker) == (MOVED if act is move else {})
        assert shown(broker).deleting == {}
        await check(broker)


# The broker is killed


@pytest.mark.parametrize("steps", STEPS)
async def test_a_group_whose_broker_is_killed_while_it_is_moved_can_be_read(steps: int) -> None:
    disk = SimulatedDisk()
    async with open_broker(disk) as broker:
        codes: list[int] = []

        async def run() -> None:
            codes.append(await move(broker))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(run)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            left, was_told = disk.kill9(), bool(codes)
    async with opened_again(left) as broker:
        await join(broker)
        if was_told:
            assert await starts(broker) == MOVED
        await check(broker)


@pytest.mark.parametrize("act", [forget_topic, delete])
@pytest.mark.parametrize("joins", [False, True])
@pytest.mark.parametrize("steps", STEPS)
async def test_what_a_killed_broker_was_about_to_delete_is_deleted(
    act: Act, joins: bool, steps: int
) -> None:
    disk = SimulatedDisk()
    async with open_broker(disk) as broker:
        await move(broker)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(act, broker)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            if joins:
                nursery.start_soon(beat, broker, 0, TOPIC)
                for _ in range(3):
                    await trio.lowlevel.checkpoint()
            left = disk.kill9()
    async with opened_again(left) as broker:
        assert shown(broker).deleting == {}
        begun = await starts(broker)
        assert begun.keys() == {n for _, n in places(shown(broker).initialized)} or joins
        if joins:
            await beat(broker, -1)
        await join(broker)
        await check(broker)


# A log refuses


def refusing(topic: str, after: int, times: int = 1) -> Plan:
    count = 0

    def plan(operation: Operation) -> Fault | None:
        nonlocal count
        if operation.kind != "append" or not operation.path.parent.name.startswith(f"{topic}-"):
            return None
        if operation.path.suffix != ".log":
            return None
        count += 1
        return Fault.ENOSPC if after < count <= after + times else None

    return plan


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("topic", [GROUP_TOPIC, SHARE_TOPIC])
async def test_whoever_is_told_that_a_group_is_moved_has_moved_it(topic: str, after: int) -> None:
    disk = FailingDisk()
    async with open_broker(disk) as broker:
        disk.plan = refusing(topic, after)
        answer = await alter(broker, {TOPIC: MOVED})
        disk.plan = refusing(topic, 0, 0)
        codes = {
            each.partition_index: each.error_code for t in answer.responses for each in t.partitions
        }
        moved = {n: MOVED[n] for n, code in codes.items() if not code and not answer.error_code}
        assert (moved == MOVED) == (after >= 2)
        await join(broker)
        assert await starts(broker) == {0: -1, 1: -1, **moved}
        await check(broker)


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("topic", [GROUP_TOPIC, SHARE_TOPIC])
@pytest.mark.parametrize("act", [forget_topic, delete])
async def test_what_a_log_refuses_to_delete_can_be_deleted_later(
    act: Act, topic: str, after: int
) -> None:
    disk = FailingDisk()
    async with open_broker(disk) as broker:
        await move(broker)
        disk.plan = refusing(topic, after)
        code = await act(broker)
        disk.plan = refusing(topic, 0, 0)
        assert (code == DONE) == (after >= 2)
        if code == DONE:
            assert await starts(broker) == {}
            return
        again = await act(broker)
        assert again == DONE, again
        assert await starts(broker) == {}


@pytest.mark.parametrize("after", range(2))
async def test_what_a_log_has_refused_to_delete_is_deleted_when_a_member_comes(after: int) -> None:
    """It reads something else, and so the first topic does not begin again."""
    disk = FailingDisk()
    async with open_broker(disk) as broker:
        await create(broker, "other")
        await move(broker)
        disk.plan = refusing(SHARE_TOPIC, after)
        assert await forget_topic(broker) != DONE
        assert shown(broker).deleting != {}
        disk.plan = refusing(SHARE_TOPIC, 0)
        await beat(broker, 0, "other")
        await trio.testing.wait_all_tasks_blocked()
        assert held(await beat(broker, 0, "other")) == [0]
        await trio.testing.wait_all_tasks_blocked()
        assert shown(broker).deleting == {}
        assert await starts(broker) == {}


async def test_partitions_begin_again_though_the_log_has_refused_that_they_have(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FailingDisk()
    async with open_broker(disk) as broker:
        disk.plan = refusing(GROUP_TOPIC, 1)
        answer = await beat(broker, 0, TOPIC)
        assert held(answer) == []
        assert "it is not kept that partitions of workers have begun" in caplog.text
        assert held(await beat(broker, answer.member_epoch, TOPIC)) == [0, 1]
        await check(broker)


# The log has it when the client hears it


async def test_a_move_that_is_told_outlives_a_power_cut() -> None:
    disk = SimulatedDisk()
    async with open_broker(disk) as broker:
        assert await move(broker) == DONE
        left = disk.synced()
    async with opened_again(left) as broker:
        assert shown(broker).initializing == {}
        assert await starts(broker) == MOVED
        await join(broker)
        assert await starts(broker) == MOVED
        await check(broker)


# A state that is lost


@pytest.mark.parametrize("reset", ["earliest", "latest"])
async def test_a_group_whose_state_is_lost_begins_anew(
    caplog: pytest.LogCaptureFixture, reset: str
) -> None:
    """At the start of the log, wherever new groups begin: what was not delivered is not lost."""
    async with open_broker() as broker:
        await configure(broker, share_auto_offset_reset=reset)
        await move(broker)
        await join(broker)
        await settled(broker.share_coordinator.persister.delete(key(broker, 0)))
        worker = Worker(broker, "m", TOPIC)
        lost = of_partition(await worker.fetch())
        assert lost.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        await trio.testing.wait_all_tasks_blocked()
        assert acquired(await worker.fetch(max_wait_ms=1000)) == [(0, 9, 1)]
        assert (await starts(broker))[1] == MOVED[1]
    assert caplog.text.count("was lost, and it begins anew") == 1


async def test_what_a_group_has_not_begun_does_not_begin_for_who_fetches_from_it() -> None:
    async with open_broker() as broker:
        await alter(broker, {TOPIC: {1: 2}})
        worker = Worker(broker, "m", TOPIC)
        for _ in range(2):
            refused = of_partition(await worker.fetch())
            assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
            await trio.testing.wait_all_tasks_blocked()
        assert await starts(broker) == {1: 2}


async def test_a_lost_state_that_is_looked_for_is_where_its_group_is_moved() -> None:
    for steps in STEPS:
        async with open_broker() as broker:
            await move(broker)
            await settled(broker.share_coordinator.persister.delete(key(broker, 0)))

            async def fetch(broker: Context) -> int:
                worker = Worker(broker, "m", TOPIC)
                return of_partition(await worker.fetch()).error_code

            await interrupted(broker, fetch, steps, move)
            assert await starts(broker) == MOVED
