"""ListOffsets: what is not written to has offsets, too."""

from __future__ import annotations

import pytest

from pyk.errors import ErrorCode
from pyk.handlers import list_offsets
from pyk.handlers.context import Context
from pyk.handlers.list_offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    OF_MAX_TIMESTAMP,
)
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from tests.handlers.brokers import ask, create

PARTITIONS = 3
POSITIONS = (LATEST, EARLIEST, EARLIEST_LOCAL, OF_MAX_TIMESTAMP, LATEST_TIERED, 0)


async def listed(broker: Context, timestamp: int) -> list[ListOffsetsPartitionResponse]:
    asked = [
        ListOffsetsPartition(partition_index=n, timestamp=timestamp) for n in range(PARTITIONS)
    ]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=asked)]
    )
    response = await ask(list_offsets.handle, list_offsets.refuse, request, broker, version=9)
    (topic,) = response.topics
    return topic.partitions


@pytest.mark.parametrize("timestamp", POSITIONS)
async def test_a_partition_that_was_never_used_answers_as_an_empty_log_and_gets_none(
    broker: Context, timestamp: int
) -> None:
    await create(broker, "orders", PARTITIONS)
    unused = await listed(broker, timestamp)
    epoch = 0 if timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL) else -1
    assert [each.leader_epoch for each in unused] == [epoch] * PARTITIONS
    assert broker.directory.partitions == set()
    for number in range(PARTITIONS):
        broker.leader_of("orders", number)
    assert unused == await listed(broker, timestamp)
    assert len(broker.directory.partitions) == PARTITIONS


@pytest.mark.parametrize("is_used", [False, True])
async def test_the_start_of_an_empty_partition_is_of_the_epoch_of_its_leader(
    broker: Context, is_used: bool
) -> None:
    """As in Kafka, where an epoch begins when its leader does."""
    await create(broker, "orders", PARTITIONS)
    for number in range(PARTITIONS) if is_used else ():
        broker.leader_of("orders", number)
    for timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL):
        found = await listed(broker, timestamp)
        assert [(each.offset, each.leader_epoch) for each in found] == [(0, 0)] * PARTITIONS


async def test_a_topic_that_is_there_twice_is_one_and_so_is_its_partition(broker: Context) -> None:
    await create(broker, "orders", PARTITIONS)

    def topic(*numbers: int) -> ListOffsetsTopic:
        asked = [ListOffsetsPartition(partition_index=n, timestamp=LATEST) for n in numbers]
        return ListOffsetsTopic(name="orders", partitions=asked)

    request = ListOffsetsRequest(replica_id=-1, topics=[topic(0, 1), topic(1, 2), topic(1)])
    response = await ask(list_offsets.handle, list_offsets.refuse, request, broker, version=9)
    (found,) = response.topics
    assert [(each.partition_index, each.error_code) for each in found.partitions] == [
        (0, ErrorCode.NONE),
        (1, ErrorCode.INVALID_REQUEST),
        (2, ErrorCode.NONE),
    ]
