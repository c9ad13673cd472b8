"""Share groups in a broker without a server: heartbeats, offsets, and what becomes of states."""

from __future__ import annotations

from inspect import isawaitable

import pytest
import trio
import trio.testing

from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import (
    alter_share_group_offsets,
    delete_groups,
    delete_share_group_offsets,
    describe_share_group_offsets,
    find_coordinator,
    list_groups,
    share_group_describe,
    share_group_heartbeat,
)
from pyk.handlers.context import Context
from pyk.metadata.controller import set_features
from pyk.turns import settled
from pyk.wire.messages import alter_share_group_offsets as alter_messages
from pyk.wire.messages import delete_share_group_offsets as delete_messages
from pyk.wire.messages import describe_share_group_offsets as offsets_messages
from pyk.wire.messages.delete_groups import DeleteGroupsRequest
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.list_groups import ListGroupsRequest
from pyk.wire.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from pyk.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.handlers.brokers import ask, call, create, open_context, produce
from tests.simulated_disk import SimulatedDisk

GROUP, TOPIC = "workers", "orders"


async def begin(broker: Context) -> None:
    """A topic to read, and one for groups."""
    await create(broker, TOPIC, partitions=2)
    await find(broker)


async def find(broker: Context) -> None:
    request = FindCoordinatorRequest(key=GROUP)
    found = await ask(find_coordinator.handle, find_coordinator.refuse, request, broker, 3)
    assert found.error_code == ErrorCode.NONE


def beating(epoch: int, *topics: str, member_id: str = "m") -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_names=list(topics) or None,
    )


async def beat(broker: Context, epoch: int, *topics: str) -> ShareGroupHeartbeatResponse:
    api, request = share_group_heartbeat, beating(epoch, *topics)
    return await ask(api.handle, api.refuse, request, broker, 1)


def held(answer: ShareGroupHeartbeatResponse) -> list[int]:
    assert answer.error_code == ErrorCode.NONE, answer.error_message
    assert answer.assignment is not None
    return [number for t in answer.assignment.topic_partitions for number in t.partitions]


async def described(broker: Context, group_id: str = GROUP) -> DescribedGroup:
    api = share_group_describe
    request = ShareGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=True)
    [group] = (await ask(api.handle, api.refuse, request, broker, 1)).groups
    return group


async def offsets(broker: Context, *partitions: int) -> dict[int, tuple[int, int]]:
    """Start offsets and lags."""
    asked = offsets_messages.DescribeShareGroupOffsetsRequestTopic(
        topic_name=TOPIC, partitions=list(partitions)
    )
    group = offsets_messages.DescribeShareGroupOffsetsRequestGroup(
        group_id=GROUP, topics=[asked] if partitions else None
    )
    request = offsets_messages.DescribeShareGroupOffsetsRequest(groups=[group])
    api = describe_share_group_offsets
    [found] = (await ask(api.handle, api.refuse, request, broker, 1)).groups
    assert found.error_code == ErrorCode.NONE
    return {
        each.partition_index: (each.start_offset, each.lag)
        for topic in found.topics
        for each in topic.partitions
    }


async def alter(
    broker: Context, topics: dict[str, dict[int, int]]
) -> alter_messages.AlterShareGroupOffsetsResponse:
    wanted = [
        alter_messages.AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                alter_messages.AlterShareGroupOffsetsRequestPartition(
                    partition_index=number, start_offset=offset
                )
                for number, offset in places.items()
            ],
        )
        for name, places in topics.items()
    ]
    request = alter_messages.AlterShareGroupOffsetsRequest(group_id=GROUP, topics=wanted)
    api = alter_share_group_offsets
    return await ask(api.handle, api.refuse, request, broker, 0)


async def forget(broker: Context, *topics: str) -> delete_messages.DeleteShareGroupOffsetsResponse:
    wanted = [delete_messages.DeleteShareGroupOffsetsRequestTopic(topic_name=n) for n in topics]
    request = delete_messages.DeleteShareGroupOffsetsRequest(group_id=GROUP, topics=wanted)
    api = delete_share_group_offsets
    return await ask(api.handle, api.refuse, request, broker, 0)


async def delete(broker: Context) -> int:
    request = DeleteGroupsRequest(groups_names=[GROUP])
    [result] = (await ask(delete_groups.handle, delete_groups.refuse, request, broker, 2)).results
    return result.error_code


def key(broker: Context, partition: int) -> SharePartitionKey:
    return SharePartitionKey(GROUP, broker.image.topics[TOPIC].topic_id, partition)


async def test_the_first_heartbeat_has_its_partitions(broker: Context) -> None:
    await begin(broker)
    answer = await beat(broker, 0, TOPIC)
    assert held(answer) == [0, 1]
    assert answer.member_epoch == 2
    group = await described(broker)
    assert (group.group_state, group.assignor_name) == ("Stable", "simple")
    assert group.authorized_operations > 0


async def test_nothing_has_to_wait_once_there_are_topics_for_it(broker: Context) -> None:
    await begin(broker)
    await settled(broker.share_coordinator.persister.summary(key(broker, 0)))
    answer = share_group_heartbeat.handle(beating(0, TOPIC), call(1), broker)
    assert not isawaitable(answer)
    assert held(answer) == [0, 1]


async def test_what_cannot_begin_is_not_given_to_anybody(broker: Context) -> None:
    await begin(broker)
    later = broker.share_coordinator.persister
    await settled(later.initialize(key(broker, 1), state_epoch=99, start_offset=0))
    assert held(await beat(broker, 0, TOPIC)) == [0]
    assert (await beat(broker, 2)).assignment is None


async def test_members_and_offsets_outlive_the_broker() -> None:
    disk = SimulatedDisk()
    async with open_context(disk=disk) as broker:
        await begin(broker)
        await alter(broker, {TOPIC: {0: 3}})
        assert held(await beat(broker, 0, TOPIC)) == [0, 1]
    async with open_context(disk=disk) as broker:
        _ = broker.groups
        await broker.groups.of(GROUP).wait_loaded()
        answer = await beat(broker, 2)
        assert answer.error_code == ErrorCode.NONE
        assert answer.assignment is None
        assert (await offsets(broker, 0))[0][0] == 3


async def test_an_id_has_to_be_one(broker: Context) -> None:
    await begin(broker)
    for member_id in ("", "m" * 37):
        with pytest.raises(KafkaError) as refusal:
            share_group_heartbeat.handle(beating(0, TOPIC, member_id=member_id), call(1), broker)
        assert refusal.value.code == ErrorCode.INVALID_REQUEST


async def test_a_group_that_is_not_there_is_described_as_such(broker: Context) -> None:
    await begin(broker)
    assert (await described(broker)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await described(broker, "")).error_code == ErrorCode.INVALID_GROUP_ID
    assert await offsets(broker) == {}


async def test_the_lag_is_what_is_left_to_read(broker: Context) -> None:
    await begin(broker)
    produce(broker, TOPIC, 10)
    await alter(broker, {TOPIC: {0: 4, 1: 0}})
    await settled(
        broker.share_coordinator.persister.write(
            key(broker, 0),
            state_epoch=1,
            leader_epoch=0,
            start_offset=5,
            delivery_complete_count=2,
            batches=[],
        )
    )
    assert (await offsets(broker))[0] == (5, 3)
    assert (await offsets(broker, 0, 7))[7] == (-1, -1)


async def test_a_lag_has_no_more_room_than_an_offset(broker: Context) -> None:
    """Brokers take any offset to begin from. A lag that cannot be sent would take the answer for
    all partitions with it."""
    await begin(broker)
    produce(broker, TOPIC, 10)
    await alter(broker, {TOPIC: {0: -(2**63), 1: 0}})
    assert (await offsets(broker))[0] == (-(2**63), 2**63 - 1)


@pytest.mark.parametrize("steps", range(1, 9))
async def test_a_group_is_moved_though_its_client_hangs_up_meanwhile(steps: int) -> None:
    """Or else a new group would begin anew with its first member, where it is configured to."""
    async with open_context({"log.flush.interval.messages": "1"}) as broker:
        await begin(broker)
        produce(broker, TOPIC, 10)
        await settled(broker.share_coordinator.persister.summary(key(broker, 0)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(alter, broker, {TOPIC: {0: 4}})
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert await offsets(broker) == {0: (4, 6)}


async def test_only_a_group_without_members_lets_itself_be_moved(broker: Context) -> None:
    await begin(broker)
    await beat(broker, 0, TOPIC)
    assert (await alter(broker, {TOPIC: {0: 3}})).error_code == ErrorCode.NON_EMPTY_GROUP
    assert (await forget(broker, TOPIC)).error_code == ErrorCode.NON_EMPTY_GROUP
    assert await delete(broker) == ErrorCode.NON_EMPTY_GROUP
    await beat(broker, -1)
    moved = await alter(broker, {TOPIC: {0: 3, 9: 0}, "nothing": {0: 0}})
    assert [[p.error_code for p in topic.partitions] for topic in moved.responses] == [[0, 3], [3]]
    assert (await offsets(broker))[0][0] == 3


async def test_what_cannot_be_moved_is_named(broker: Context) -> None:
    await begin(broker)
    later = broker.share_coordinator.persister
    await settled(later.initialize(key(broker, 1), state_epoch=99, start_offset=0))
    [topic] = (await alter(broker, {TOPIC: {0: 3, 1: 3}})).responses
    codes = [each.error_code for each in topic.partitions]
    assert codes == [ErrorCode.NONE, ErrorCode.FENCED_STATE_EPOCH]


async def test_what_was_read_of_a_topic_is_forgotten(broker: Context) -> None:
    await begin(broker)
    await alter(broker, {TOPIC: {0: 3}})
    found = {each.topic_name: each.error_code for each in (await forget(broker, TOPIC)).responses}
    assert found == {TOPIC: ErrorCode.NONE}
    again = (await forget(broker, TOPIC, "nothing")).responses
    assert [each.error_code for each in again] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    assert await offsets(broker) == {}
    assert (await offsets(broker, 0))[0] == (-1, -1)


async def test_a_group_that_is_deleted_leaves_no_states(broker: Context) -> None:
    await begin(broker)
    await alter(broker, {TOPIC: {0: 3}})
    assert await delete(broker) == ErrorCode.NONE
    assert await delete(broker) == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await offsets(broker, 0))[0] == (-1, -1)
    assert (await described(broker)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_groups_are_listed_by_their_type(broker: Context) -> None:
    await begin(broker)
    await beat(broker, 0, TOPIC)
    for types, count in ((["SHARE"], 1), (["consumer"], 0), ([], 1)):
        request = ListGroupsRequest(types_filter=types)
        found = await ask(list_groups.handle, list_groups.refuse, request, broker, 5)
        assert [group.protocol_type for group in found.groups] == ["share"] * count


async def test_a_cluster_may_have_no_share_groups(broker: Context) -> None:
    await begin(broker)
    await broker.mirror.carry_out(lambda image: set_features(image, {"metadata.version": 30}))
    assert (await beat(broker, 0, TOPIC)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await described(broker)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await alter(broker, {})).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await forget(broker)).error_code == ErrorCode.UNSUPPORTED_VERSION
