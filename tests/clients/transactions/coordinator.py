"""What is asked of a broker about transactions, and not by those who take part."""

from __future__ import annotations

import time
from typing import NamedTuple

from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.messages.describe_transactions import DescribeTransactionsRequest
from pyk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.clients.groups.coordinator import LOAD_SECONDS, when_loaded
from tests.clients.groups.programs.member import Partition
from tests.clients.stored import stored_batches


class Described(NamedTuple):
    state: str
    producer_id: int
    epoch: int
    partitions: frozenset[Partition]


def described(address: str, transactional_id: str) -> Described:
    """What the coordinator says of a transaction, when it has loaded it."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    found = when_loaded(address, ApiKey.DESCRIBE_TRANSACTIONS, 0, request, "transaction_states")
    partitions = (
        Partition(each.topic, number) for each in found.topics for number in each.partitions
    )
    return Described(
        found.transaction_state, found.producer_id, found.producer_epoch, frozenset(partitions)
    )


def pending_or_committed(address: str, group: str, partition: Partition) -> int | None:
    """The next to read, -1 if there is none, None while a transaction is about to change it."""
    topics = [OffsetFetchRequestTopics(name=partition.topic, partition_indexes=[partition.number])]
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
    request = OffsetFetchRequest(groups=[asked], require_stable=True)
    answer = when_loaded(address, ApiKey.OFFSET_FETCH, 8, request, "groups")
    ((found,),) = [topic.partitions for topic in answer.topics]
    if found.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
        return None
    assert found.error_code == 0, answer
    return int(found.committed_offset)


def committed_offset(address: str, group: str, partition: Partition) -> int:
    """The next to read, or -1, when no transaction is about to change it.

    One that was told its outcome may still be about to: markers are written after that.
    """
    deadline = time.monotonic() + LOAD_SECONDS
    while (offset := pending_or_committed(address, group, partition)) is None:
        assert time.monotonic() < deadline, f"{group} has a pending offset for {partition}"
    return offset


class Batch(NamedTuple):
    epoch: int
    is_marker: bool


def written_batches(address: str, partition: Partition) -> list[Batch]:
    return [
        Batch(each.producer_epoch, each.is_control)
        for each in stored_batches(address, partition.topic, partition.number)
    ]
