"""ListOffsets: what is not written to has offsets, too."""

from __future__ import annotations

import pytest

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
    assert broker.directory.partitions == set()
    for number in range(PARTITIONS):
        broker.leader_of("orders", number)
    assert unused == await listed(broker, timestamp)
    assert len(broker.directory.partitions) == PARTITIONS
