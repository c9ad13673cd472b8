"""ListOffsets, v1-11: the offset at a time, or at a position such as the latest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from typing import Final

from msgspec import Struct

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.log.index import TimedOffset
from pyk.log.timestamps import TimestampSearch
from pyk.metadata.image import Topic
from pyk.replication.partition import Isolation, Partition
from pyk.replication.unused import Unused
from pyk.turns import Work, answered, in_turns
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST: Final = -1
EARLIEST: Final = -2
OF_MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

SINCE_VERSION: Final = {
    OF_MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
POSITIONS: Final = frozenset(
    {LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD}
)
"""Those that are no times. Nothing is tiered."""
NOTHING: Final = -1


class Search(Struct):
    """A search by time that takes long, and where its outcome belongs."""

    responses: list[ListOffsetsPartitionResponse]
    at: int
    asked: ListOffsetsPartition
    partition: Partition
    begun: TimestampSearch


def handle(
    request: ListOffsetsRequest, call: Call, broker: Context
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    searches: list[Search] = []
    closed: list[tuple[Topic, int]] = []
    response = answered(_answer(request, call, broker, searches, closed))
    if isinstance(response, ListOffsetsResponse) and not searches and not closed:
        return response
    return _answer_later(response, searches, closed, request, call, broker)


async def _answer_later(
    response: ListOffsetsResponse | Awaitable[ListOffsetsResponse],
    searches: list[Search],
    closed: list[tuple[Topic, int]],
    request: ListOffsetsRequest,
    call: Call,
    broker: Context,
) -> ListOffsetsResponse:
    if not isinstance(response, ListOffsetsResponse):
        response = await response
    if closed:
        await broker.ensure_logs_in_time(closed)
        searches = []
        response = await in_turns(_answer(request, call, broker, searches, []))
    return await _search_too(response, searches, request, call, broker)


def _answer(
    request: ListOffsetsRequest,
    call: Call,
    broker: Context,
    searches: list[Search],
    closed: list[tuple[Topic, int]],
) -> Work[ListOffsetsResponse]:
    """All but the `searches`, and those whose logs are `closed`. As in Kafka a topic that is there
    twice is one."""
    isolation = _isolation(request)
    counts = Counter(
        (t.name, each.partition_index) for t in request.topics for each in t.partitions
    )
    wanted: dict[str, dict[int, ListOffsetsPartition]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update((p.partition_index, p) for p in topic.partitions)
    topics = []
    for name, partitions in wanted.items():
        responses: list[ListOffsetsPartitionResponse] = []
        for number, asked in partitions.items():
            try:
                if counts[name, number] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the partition is asked for twice")
                check_position(asked.timestamp, call.version)
                partition = broker.readable(name, number, closed)
                partition.check_leader_epoch(asked.current_leader_epoch)
                found = begin(partition, asked)
                if isinstance(found, TimestampSearch):
                    assert isinstance(partition, Partition)
                    searches.append(Search(responses, len(responses), asked, partition, found))
                    found = None
                responses.append(describe(partition, asked, found, isolation, call.version))
            except Exception as failure:
                refusal = broker.failures.refusal(failure, f"{name}-{number}")
                responses.append(refused(asked, refusal))
            yield
        topics.append(ListOffsetsTopicResponse(name=name, partitions=responses))
    return ListOffsetsResponse(topics=topics)


async def _search_too(
    response: ListOffsetsResponse,
    searches: list[Search],
    request: ListOffsetsRequest,
    call: Call,
    broker: Context,
) -> ListOffsetsResponse:
    isolation = _isolation(request)
    for each in searches:
        partition, asked = each.partition, each.asked
        try:
            found: TimedOffset | TimestampSearch | None = each.begun
            while isinstance(found, TimestampSearch):
                await broker.search(found.run)
                found = partition.log.end_find_timestamp(found)
            each.responses[each.at] = describe(partition, asked, found, isolation, call.version)
        except Exception as failure:
            refusal = broker.failures.refusal(failure, str(partition.partition))
            each.responses[each.at] = refused(asked, refusal)
    return response


def _isolation(request: ListOffsetsRequest) -> Isolation:
    return Isolation(request.isolation_level == Isolation.READ_COMMITTED)


def check_position(timestamp: int, version: int) -> None:
    """Raise KafkaError for a position that the version does not know."""
    if version < SINCE_VERSION.get(timestamp, 0) or timestamp < EARLIEST_PENDING_UPLOAD:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"v{version} has no position {timestamp}")


def begin(
    partition: Partition | Unused, asked: ListOffsetsPartition
) -> TimedOffset | TimestampSearch | None:
    """What is found by time, or what is to be run first. Where a position is asked for, nothing."""
    if isinstance(partition, Unused) or asked.timestamp in POSITIONS:
        return None
    if asked.timestamp == OF_MAX_TIMESTAMP:
        return partition.log.begin_find_newest()
    return partition.log.begin_find_timestamp(asked.timestamp)


def describe(
    partition: Partition | Unused,
    asked: ListOffsetsPartition,
    found: TimedOffset | None,
    isolation: Isolation,
    version: int,
) -> ListOffsetsPartitionResponse:
    timestamp, offset, epoch = NOTHING, NOTHING, NOTHING
    if asked.timestamp == LATEST:
        offset, epoch = partition.visible_end(isolation), partition.leader_epoch
    elif asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset = partition.offsets.start
        epoch = partition.epoch_for(offset)
    elif found is not None and found.offset < partition.visible_end(isolation):
        timestamp, offset = found
        epoch = partition.epoch_for(offset)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if knows_leader_epochs(version) else NOTHING,
    )


def knows_leader_epochs(version: int) -> bool:
    """KIP-320."""
    return version >= 4


def refused(asked: ListOffsetsPartition, refusal: KafkaError) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=refusal.code
    )


def refuse(request: ListOffsetsRequest, refusal: KafkaError) -> ListOffsetsResponse:
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name, partitions=[refused(asked, refusal) for asked in topic.partitions]
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)
