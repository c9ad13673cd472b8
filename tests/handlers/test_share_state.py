"""The five APIs of share partitions' state, and who looks after it."""

from __future__ import annotations

from typing import Any

import pytest

from pyk.coordinator.internal_topics import SHARE_TOPIC
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import (
    delete_share_group_state,
    find_coordinator,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from pyk.handlers.context import Context
from pyk.metadata.records import printed
from pyk.types import Uuid
from pyk.wire.messages import delete_share_group_state as delete_messages
from pyk.wire.messages import initialize_share_group_state as initialize_messages
from pyk.wire.messages import read_share_group_state as read_messages
from pyk.wire.messages import read_share_group_state_summary as summary_messages
from pyk.wire.messages import write_share_group_state as write_messages
from pyk.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from tests.handlers.brokers import ask, create, open_context

GROUP, TOPIC = "workers", "orders"
NOBODY = Uuid(b"there is no such")


async def find(broker: Context, *keys: str, version: int = 6) -> list[Coordinator]:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=list(keys))
    response = await ask(find_coordinator.handle, find_coordinator.refuse, request, broker, version)
    return response.coordinators


async def begin(broker: Context) -> Uuid:
    """A topic, and the topic of state."""
    await create(broker, TOPIC, partitions=3)
    topic_id = broker.image.topics[TOPIC].topic_id
    await find(broker, f"{GROUP}:{printed(topic_id)}:0")
    return topic_id


async def initialize(
    broker: Context, topic_id: Uuid, *partitions: int, state_epoch: int = 0, group_id: str = GROUP
) -> list[initialize_messages.InitializeStateResult]:
    asked = [
        initialize_messages.PartitionData(
            partition=number, state_epoch=state_epoch, start_offset=10 + number
        )
        for number in partitions
    ]
    topic = initialize_messages.InitializeStateData(topic_id=topic_id, partitions=asked)
    request = initialize_messages.InitializeShareGroupStateRequest(
        group_id=group_id, topics=[topic]
    )
    api = initialize_share_group_state
    return (await ask(api.handle, api.refuse, request, broker, 0)).results


async def write(
    broker: Context,
    topic_id: Uuid,
    partition: int,
    *batches: tuple[int, int, int, int],
    version: int = 1,
    leader_epoch: int = 0,
) -> write_messages.PartitionResult:
    fields = "first_offset", "last_offset", "delivery_state", "delivery_count"
    count: dict[str, Any] = {"delivery_complete_count": 3} if version else {}
    data = write_messages.PartitionData(
        partition=partition,
        state_epoch=0,
        leader_epoch=leader_epoch,
        start_offset=-1,
        state_batches=[
            write_messages.StateBatch(**dict(zip(fields, batch, strict=True))) for batch in batches
        ],
        **count,
    )
    topic = write_messages.WriteStateData(topic_id=topic_id, partitions=[data])
    request = write_messages.WriteShareGroupStateRequest(group_id=GROUP, topics=[topic])
    api = write_share_group_state
    response = await ask(api.handle, api.refuse, request, broker, version)
    return response.results[0].partitions[0]


async def read(
    broker: Context, topic_id: Uuid, *partitions: int, leader_epoch: int = 0
) -> list[read_messages.PartitionResult]:
    asked = [
        read_messages.PartitionData(partition=number, leader_epoch=leader_epoch)
        for number in partitions
    ]
    topic = read_messages.ReadStateData(topic_id=topic_id, partitions=asked)
    request = read_messages.ReadShareGroupStateRequest(group_id=GROUP, topics=[topic])
    api = read_share_group_state
    return (await ask(api.handle, api.refuse, request, broker, 0)).results[0].partitions


async def summary(
    broker: Context, topic_id: Uuid, partition: int, version: int = 1
) -> tuple[int, int, int, int, int]:
    asked = summary_messages.PartitionData(partition=partition, leader_epoch=0)
    topic = summary_messages.ReadStateSummaryData(topic_id=topic_id, partitions=[asked])
    request = summary_messages.ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=[topic])
    api = read_share_group_state_summary
    response = await ask(api.handle, api.refuse, request, broker, version)
    (found,) = response.results[0].partitions
    return (
        found.error_code,
        found.state_epoch,
        found.leader_epoch,
        found.start_offset,
        found.delivery_complete_count,
    )


async def delete(broker: Context, topic_id: Uuid, *partitions: int) -> list[int]:
    asked = [delete_messages.PartitionData(partition=number) for number in partitions]
    topic = delete_messages.DeleteStateData(topic_id=topic_id, partitions=asked)
    request = delete_messages.DeleteShareGroupStateRequest(group_id=GROUP, topics=[topic])
    api = delete_share_group_state
    response = await ask(api.handle, api.refuse, request, broker, 0)
    return [each.error_code for topic in response.results for each in topic.partitions]


async def test_state_is_initialised_written_read_and_deleted() -> None:
    async with open_context() as broker:
        topic_id = await begin(broker)
        (begun,) = await initialize(broker, topic_id, 0, 1, 2)
        assert [each.error_code for each in begun.partitions] == [0, 0, 0]
        assert (await write(broker, topic_id, 1, (11, 15, 2, 1))).error_code == 0
        found = await read(broker, topic_id, 0, 1)
        assert [(each.start_offset, len(each.state_batches)) for each in found] == [
            (10, 0),
            (11, 1),
        ]
        batch = read_messages.StateBatch(
            first_offset=11, last_offset=15, delivery_state=2, delivery_count=1
        )
        assert found[1].state_batches == [batch]
        assert await summary(broker, topic_id, 1) == (0, 0, 0, 11, 3)
        assert await delete(broker, topic_id, 0, 1, 2) == [0, 0, 0]
        assert await summary(broker, topic_id, 1) == (0, 0, 0, -1, -1)


async def test_old_versions_know_nothing_of_how_many_are_complete() -> None:
    async with open_context() as broker:
        topic_id = await begin(broker)
        await initialize(broker, topic_id, 0)
        await write(broker, topic_id, 0, version=0)
        assert await summary(broker, topic_id, 0, version=1) == (0, 0, 0, 10, -1)
        await write(broker, topic_id, 0, version=1)
        assert await summary(broker, topic_id, 0, version=0) == (0, 0, 0, 10, -1)
        assert await summary(broker, topic_id, 0, version=1) == (0, 0, 0, 10, 3)


async def test_each_partition_is_refused_on_its_own() -> None:
    async with open_context() as broker:
        topic_id = await begin(broker)
        (begun,) = await initialize(broker, topic_id, 0, -1, 3)
        assert {each.partition: each.error_code for each in begun.partitions} == {
            0: ErrorCode.NONE,
            -1: ErrorCode.INVALID_REQUEST,
            3: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert all(each.error_message for each in begun.partitions[1:])
        (unknown,) = await initialize(broker, NOBODY, 0)
        assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_fenced_leaders_hear_of_it() -> None:
    async with open_context() as broker:
        topic_id = await begin(broker)
        await initialize(broker, topic_id, 0, state_epoch=2)
        await read(broker, topic_id, 0, leader_epoch=4)
        (fenced,) = await read(broker, topic_id, 0, leader_epoch=3)
        assert (fenced.error_code, fenced.start_offset) == (ErrorCode.FENCED_LEADER_EPOCH, 0)
        written = await write(broker, topic_id, 0, leader_epoch=4)
        assert written.error_code == ErrorCode.FENCED_STATE_EPOCH
        (late,) = await initialize(broker, topic_id, 0, state_epoch=1)
        assert late.partitions[0].error_code == ErrorCode.FENCED_STATE_EPOCH


async def test_a_partition_that_is_there_twice_is_answered_once() -> None:
    async with open_context() as broker:
        topic_id = await begin(broker)
        (begun,) = await initialize(broker, topic_id, 0, 1, 0)
        assert [each.partition for each in begun.partitions] == [0, 1]


async def test_a_group_without_a_name_and_a_topic_without_partitions_have_no_state() -> None:
    async with open_context() as broker:
        topic_id = await begin(broker)
        assert await initialize(broker, topic_id, 0, group_id="") == []
        assert await initialize(broker, topic_id) == []
        assert await delete(broker, topic_id) == []


async def test_before_there_is_a_topic_there_is_no_coordinator() -> None:
    async with open_context() as broker:
        await create(broker, TOPIC)
        (refused,) = await initialize(broker, broker.image.topics[TOPIC].topic_id, 0)
        assert refused.partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert SHARE_TOPIC not in broker.image.topics


def test_all_partitions_may_be_refused_at_once() -> None:
    asked = delete_messages.PartitionData(partition=1)
    topic = delete_messages.DeleteStateData(topic_id=NOBODY, partitions=[asked])
    request = delete_messages.DeleteShareGroupStateRequest(group_id=GROUP, topics=[topic])
    response = delete_share_group_state.refuse(request, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
    assert response.results[0].partitions[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


# FindCoordinator


async def test_the_coordinator_of_a_share_partition_is_found() -> None:
    async with open_context() as broker:
        key = f"{GROUP}:{printed(NOBODY)}:0"
        (found,) = await find(broker, key)
        assert (found.key, found.node_id, found.error_code) == (key, 1, ErrorCode.NONE)
        assert SHARE_TOPIC in broker.image.topics


async def test_keys_that_are_none_are_refused_and_no_topic_is_made_for_them() -> None:
    async with open_context() as broker:
        refused = await find(broker, "", "workers", f"workers:{printed(NOBODY)}:x")
        assert {each.error_code for each in refused} == {ErrorCode.INVALID_REQUEST}
        assert SHARE_TOPIC not in broker.image.topics
        bad, good = await find(broker, "workers", f"workers:{printed(NOBODY)}:0")
        assert (bad.error_code, good.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)


@pytest.mark.parametrize("version", [4, 5])
async def test_versions_before_share_groups_do_not_find_them(version: int) -> None:
    async with open_context() as broker:
        (refused,) = await find(broker, f"{GROUP}:{printed(NOBODY)}:0", version=version)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
