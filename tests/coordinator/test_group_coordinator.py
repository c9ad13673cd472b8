"""Groups in a broker without a server: their topic, their shards, and time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pytest
import trio
import trio.testing

from pyk.coordinator.consumer.group import ConsumerGroup
from pyk.coordinator.group import Caller
from pyk.coordinator.group_coordinator import Jobs
from pyk.coordinator.groups import Groups
from pyk.coordinator.internal_topics import GROUP_TOPIC, partition_for
from pyk.coordinator.machine import Decision
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_topics,
    find_coordinator,
    heartbeat,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from pyk.handlers.context import Context
from pyk.metadata.records import BrokerRecord, Listener
from pyk.metadata.topics import NewTopic, TopicDefaults, create_topics
from pyk.types import TopicPartition
from pyk.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pyk.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pyk.wire.messages.delete_topics import DeleteTopicsRequest
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pyk.wire.messages.heartbeat import HeartbeatRequest
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyk.wire.messages.list_groups import ListGroupsRequest
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pyk.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pyk.wire.messages.offset_fetch import OffsetFetchRequest
from tests.coordinator.consumer.coordinator import Coordinator
from tests.handlers.brokers import NODE_ID, ask, open_context
from tests.simulated_disk import SimulatedDisk

if TYPE_CHECKING:
    from pyk.coordinator.shard import Shard

TOPIC, GROUP = "events", "orders"
T = TypeVar("T")
THERE = BrokerRecord((Listener("PLAINTEXT", "there", 9092),), rack="b")


async def find(broker: Context, group_id: str = GROUP) -> FindCoordinatorResponse:
    request = FindCoordinatorRequest(key=group_id)
    return await ask(find_coordinator.handle, find_coordinator.refuse, request, broker, 3)


async def begin(broker: Context) -> None:
    """A topic to read, and one for groups."""
    wanted = [NewTopic(name=TOPIC, partitions=2, replication_factor=1)]
    await broker.mirror.carry_out(
        lambda image: create_topics(image, wanted, TopicDefaults(), broker.rng)
    )
    assert (await find(broker)).error_code == ErrorCode.NONE


async def commit(broker: Context, offset: int, group_id: str = GROUP) -> int:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    request = OffsetCommitRequest(
        group_id=group_id,
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )
    response = await ask(offset_commit.handle, offset_commit.refuse, request, broker, 9)
    return response.topics[0].partitions[0].error_code


async def committed(broker: Context, group_id: str = GROUP) -> tuple[int, list[int]]:
    request = OffsetFetchRequest(group_id=group_id, topics=None)
    response = await ask(offset_fetch.handle, offset_fetch.refuse, request, broker, 7)
    found = [p.committed_offset for topic in response.topics for p in topic.partitions]
    return response.error_code, found


def joining(broker: Context, member_id: str = "", *, session_timeout_ms: int = 10_000) -> Any:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    caller = Caller(3, "client", "/there")
    return broker.groups.execute(
        GROUP, lambda groups, ticket, now: groups.join(request, caller, ticket, now)
    )


@pytest.mark.parametrize(
    ("group_id", "code"),
    [("", ErrorCode.INVALID_GROUP_ID), ("nobody", ErrorCode.GROUP_ID_NOT_FOUND)],
)
async def test_a_group_that_is_not_there_is_told_of_whatever_is_asked_of_it(
    group_id: str, code: ErrorCode
) -> None:
    missing = OffsetDeleteRequestTopic(
        name="missing", partitions=[OffsetDeleteRequestPartition(partition_index=0)]
    )
    async with open_context() as broker:
        await begin(broker)
        for topics in ([], [missing]):
            delete = OffsetDeleteRequest(group_id=group_id, topics=topics)
            deleted = await ask(offset_delete.handle, offset_delete.refuse, delete, broker, 0)
            assert (deleted.error_code, deleted.topics) == (code, [])
        describe = ConsumerGroupDescribeRequest(
            group_ids=[group_id], include_authorized_operations=False
        )
        api = consumer_group_describe
        (group,) = (await ask(api.handle, api.refuse, describe, broker, 1)).groups
        assert group.error_code == code


async def test_the_topic_of_groups_is_made_by_the_first_who_asks_for_a_coordinator() -> None:
    async with open_context({"offsets.topic.num.partitions": "7"}) as broker:
        response = await find(broker)
        assert (response.error_code, response.node_id) == (ErrorCode.NONE, NODE_ID)
        topic = broker.image.topics[GROUP_TOPIC]
        assert len(topic.partitions) == 7
        assert dict(broker.image.topic_config(GROUP_TOPIC).values) == {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": "104857600",
        }


async def test_many_who_ask_at_once_get_one_topic() -> None:
    async with open_context() as broker, trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(find, broker, f"group-{number}")
    assert list(broker.image.topics) == [GROUP_TOPIC]


async def test_replicas_that_were_asked_for_and_cannot_be_had_leave_groups_without_a_topic(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_context({"offsets.topic.replication.factor": "3"}) as broker:
        response = await find(broker)
        assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "cannot be made" in caplog.text


async def test_a_broker_without_that_topic_coordinates_nothing() -> None:
    async with open_context() as broker:
        assert await committed(broker) == (ErrorCode.NOT_COORDINATOR, [])


async def test_a_group_of_another_broker_is_sent_there() -> None:
    async with open_context(others={2: THERE}) as broker:
        await begin(broker)
        partitions = broker.image.topics[GROUP_TOPIC].partitions
        elsewhere = next(
            name
            for name in (f"group-{number}" for number in range(1000))
            if partitions[partition_for(name, len(partitions))].leader == 2
        )
        response = await find(broker, elsewhere)
        assert (response.node_id, response.host) == (2, "there")
        assert await committed(broker, elsewhere) == (ErrorCode.NOT_COORDINATOR, [])


async def test_offsets_are_there_after_a_restart() -> None:
    disk = SimulatedDisk()
    async with open_context(disk=disk) as broker:
        await begin(broker)
        for number in range(100):
            assert await commit(broker, number, f"group-{number}") == ErrorCode.NONE
        broker.directory.close()
    async with open_context(disk=disk) as broker:
        await trio.testing.wait_all_tasks_blocked()
        for number in range(100):
            answer = await committed(broker, f"group-{number}")
            if answer == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, []):
                await trio.testing.wait_all_tasks_blocked()
                answer = await committed(broker, f"group-{number}")
            assert answer == (ErrorCode.NONE, [number])


async def test_groups_that_are_still_to_be_loaded_are_asked_for_later() -> None:
    disk = SimulatedDisk()
    async with open_context(disk=disk) as broker:
        await begin(broker)
        await commit(broker, 5)
        broker.directory.close()
    async with open_context(disk=disk) as broker:
        assert await committed(broker) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
        request = ListGroupsRequest()
        listed = await ask(list_groups.handle, list_groups.refuse, request, broker, 4)
        assert listed.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await trio.testing.wait_all_tasks_blocked()
        assert await committed(broker) == (ErrorCode.NONE, [5])


async def test_a_commit_that_finds_no_room_on_the_disk_changes_nothing() -> None:
    disk = SimulatedDisk()
    async with open_context(disk=disk) as broker:
        await begin(broker)
        await commit(broker, 5)
        disk.capacity = 0
        assert await commit(broker, 6) == ErrorCode.NOT_COORDINATOR
        assert await committed(broker) == (ErrorCode.NONE, [5])
        disk.capacity = None
        assert await commit(broker, 7) == ErrorCode.NONE
        assert await committed(broker) == (ErrorCode.NONE, [7])


async def test_time_passes_for_groups(autojump_clock: trio.testing.MockClock) -> None:
    async with open_context({"group.initial.rebalance.delay.ms": "3000"}) as broker:
        await begin(broker)
        began = trio.current_time()
        joined = joining(broker)
        assert isawaitable(joined)
        response = await joined
        assert response.error_code == ErrorCode.NONE
        assert trio.current_time() == began + 3
        await trio.sleep(60)
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=response.generation_id, member_id=response.member_id
        )
        answer = await ask(heartbeat.handle, heartbeat.refuse, request, broker, 3)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_who_waits_for_a_group_whose_topic_is_deleted_is_sent_away() -> None:
    async with open_context({"group.initial.rebalance.delay.ms": "3000"}) as broker:
        await begin(broker)
        waiting: Awaitable[Any] = joining(broker)
        await commit(broker, 5, "other")
        doomed = DeleteTopicsRequest(topic_names=[GROUP_TOPIC], timeout_ms=1000)
        await ask(delete_topics.handle, delete_topics.refuse, doomed, broker, 5)
        with pytest.raises(KafkaError) as refusal:
            await waiting
        assert refusal.value.code is ErrorCode.NOT_COORDINATOR
        await find(broker)
        assert await committed(broker, "other") == (ErrorCode.NONE, [])


async def test_a_member_who_hangs_up_while_it_waits_leaves_nothing_behind() -> None:
    async with open_context({"group.initial.rebalance.delay.ms": "3000"}) as broker:
        await begin(broker)
        waiting = joining(broker)
        waiting.close()
        assert await committed(broker) == (ErrorCode.NONE, [])


def test_a_group_is_where_every_broker_and_tool_looks_for_it() -> None:
    """Numbers that Java's hashCode gives."""
    assert partition_for("", 50) == 0
    assert partition_for("a", 50) == 97 % 50
    assert partition_for("test", 50) == 3556498 % 50
    assert partition_for("hello", 50) == 99162322 % 50
    assert partition_for("polygenelubricants", 50) == 0, "the least integer has no opposite"
    assert partition_for("ünïcode😀", 50) in range(50)


async def test_each_group_has_a_log_only_where_it_is_needed() -> None:
    async with open_context() as broker:
        await begin(broker)
        await commit(broker, 5)
        logs = [p for p in broker.directory.partitions if p.topic == GROUP_TOPIC]
        assert logs == [TopicPartition(GROUP_TOPIC, partition_for(GROUP, 50))]


# Expressions


class Worker:
    """Somewhere else: it counts how often it was asked, and begins when it may."""

    def __init__(self) -> None:
        self.turns = 0
        self.may_begin = trio.Event()

    async def __call__(self, run: Callable[[], T], /) -> T:
        await self.may_begin.wait()
        self.turns += 1
        return run()


async def subscribe(broker: Context, group_id: str, regex: str) -> None:
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="me",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        subscribed_topic_regex=regex,
    )
    handler = consumer_group_heartbeat
    response = await ask(handler.handle, handler.refuse, request, broker, 1)
    assert response.error_code == ErrorCode.NONE


def matches(broker: Context, group_id: str) -> dict[str, frozenset[str]]:
    (group,) = [g for g in broker.groups.of(group_id).machine if g.group_id == group_id]
    assert isinstance(group, ConsumerGroup)
    return {regex: each.topics for regex, each in group.matches.items()}


async def test_expressions_are_tried_elsewhere_and_one_that_is_slow_holds_nobody_up() -> None:
    async with open_context() as broker:
        worker = broker.offload = Worker()
        await begin(broker)
        names = [f"{'x' * 200}-{number}" for number in range(12)]
        wanted = [NewTopic(name=each, partitions=1, replication_factor=1) for each in names]
        await broker.mirror.carry_out(
            lambda image: create_topics(image, wanted, TopicDefaults(), broker.rng)
        )
        await subscribe(broker, "slow", "(.?){1000}" * 5 + "z")
        await subscribe(broker, "quick", "x+-1")
        await trio.testing.wait_all_tasks_blocked()
        worker.may_begin.set()
        while not matches(broker, "quick"):
            await trio.lowlevel.checkpoint()
        assert matches(broker, "quick") == {"x+-1": {names[1]}}
        assert matches(broker, "slow") == {}, "it takes longer than a turn"
        while not matches(broker, "slow"):
            await trio.lowlevel.checkpoint()
        assert worker.turns >= 3


class ShardOfOne:
    """What jobs need of a shard, around a machine without a log on a disk."""

    is_loaded = True

    def __init__(self, it: Coordinator) -> None:
        self._it = it
        self.machine = it.groups

    def perform(self, decide: Callable[[Groups, float], Decision]) -> None:
        self._it.perform(decide(self.machine, self._it.now))


@pytest.mark.parametrize("other_is_under_way", [False, True])
async def test_jobs_that_are_cancelled_and_begin_again_leave_no_group_without_a_target(
    other_is_under_way: bool,
) -> None:
    it = Coordinator({"a": 2}, inline_max=0)
    it.takes_jobs = False
    shard, worker = cast("Shard[Groups]", ShardOfOne(it)), Worker()
    jobs = Jobs(worker)
    groups = ["other", "mine"] if other_is_under_way else ["mine"]
    for group_id in groups:
        it.join("ann", "a", group_id=group_id)
    jobs.note_change(shard)
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(jobs.run)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
    worker.may_begin.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(jobs.run)
        await trio.testing.wait_all_tasks_blocked()
        for group_id in groups:
            it.beat("ann", 1, group_id=group_id)
        jobs.note_change(shard)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    for group_id in groups:
        group = it.surroundings.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        assert group.targets == {"ann": {it.topic_id("a"): {0, 1}}}


async def test_jobs_that_begin_again_go_on_with_those_that_wait() -> None:
    it = Coordinator({"a": 2}, inline_max=0)
    it.takes_jobs = False
    shard, worker = cast("Shard[Groups]", ShardOfOne(it)), Worker()
    jobs = Jobs(worker)
    for group_id in ("first", "second"):
        it.join("ann", "a", group_id=group_id)
    jobs.note_change(shard)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(jobs.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    worker.may_begin.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(jobs.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    second = it.surroundings.groups["second"]
    assert isinstance(second, ConsumerGroup)
    assert second.targets.keys() == {"ann"}


async def test_targets_that_the_log_refuses_are_told_of_sparingly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    it = Coordinator({"a": 2}, inline_max=0)
    it.takes_jobs = False
    shard, worker = cast("Shard[Groups]", ShardOfOne(it)), Worker()
    worker.may_begin.set()
    jobs = Jobs(worker)
    for number in range(100):
        it.join("ann", "a", group_id=f"group-{number}")
    it.log_refuses = ErrorCode.UNKNOWN_SERVER_ERROR
    jobs.note_change(shard)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(jobs.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    lines = [each.message for each in caplog.records if "refuses its target" in each.message]
    assert "group-0" in lines[0]
    assert len(lines) < 10
    error = it.beat("ann", 1, group_id="group-99").error
    assert error is ErrorCode.UNKNOWN_SERVER_ERROR
