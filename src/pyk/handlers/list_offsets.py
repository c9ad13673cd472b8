"""ListOffsets, v1-11: the offset at a time, or at a position such as the latest."""

from __future__ import annotations

from collections import Counter
from typing import Final

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.replication.partition import Isolation, Partition
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
NOTHING: Final = -1


def handle(request: ListOffsetsRequest, call: Call, broker: Context) -> ListOffsetsResponse:
    isolation = Isolation(request.isolation_level == Isolation.READ_COMMITTED)
    topics = []
    for topic in request.topics:
        counts = Counter(asked.partition_index for asked in topic.partitions)
        partitions = []
        for asked in {each.partition_index: each for each in topic.partitions}.values():
            try:
                if counts[asked.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "the partition is asked for twice")
                check_position(asked.timestamp, call.version)
                partitions.append(answer(broker, topic.name, asked, isolation, call.version))
            except KafkaError as refusal:
                partitions.append(refused(asked, refusal))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return ListOffsetsResponse(topics=topics)


def check_position(timestamp: int, version: int) -> None:
    """Raise KafkaError for a position that the version does not know."""
    if version < SINCE_VERSION.get(timestamp, 0) or timestamp < EARLIEST_PENDING_UPLOAD:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"v{version} has no position {timestamp}")


def answer(
    broker: Context, name: str, asked: ListOffsetsPartition, isolation: Isolation, version: int
) -> ListOffsetsPartitionResponse:
    """Raise KafkaError."""
    topic, number = broker.topic_named(name), asked.partition_index
    # Whoever asks for all partitions of many topics makes no log for each that has none.
    partition = broker.replicas.leader_of_used(topic, number)
    if partition is None:
        leader_epoch = topic.partitions[number].leader_epoch
        if asked.current_leader_epoch in (NOTHING, leader_epoch):
            return of_unused(asked, leader_epoch, version)
        partition = broker.replicas.leader_of(topic, number)
    return find(partition, asked, isolation, version)


def of_unused(
    asked: ListOffsetsPartition, leader_epoch: int, version: int
) -> ListOffsetsPartitionResponse:
    """Of a partition that nobody has written to or read yet."""
    is_latest = asked.timestamp == LATEST
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=NOTHING,
        offset=0 if is_latest or asked.timestamp in (EARLIEST, EARLIEST_LOCAL) else NOTHING,
        leader_epoch=leader_epoch if is_latest and knows_leader_epochs(version) else NOTHING,
    )


def find(
    partition: Partition, asked: ListOffsetsPartition, isolation: Isolation, version: int
) -> ListOffsetsPartitionResponse:
    """Raise KafkaError."""
    partition.check_leader_epoch(asked.current_leader_epoch)
    timestamp, offset, epoch = NOTHING, NOTHING, NOTHING
    if asked.timestamp == LATEST:
        offset, epoch = partition.visible_end(isolation), partition.leader_epoch
    elif asked.timestamp in (EARLIEST, EARLIEST_LOCAL):
        offset = partition.offsets.start
        epoch = partition.epoch_for(offset)
    elif asked.timestamp not in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):  # Nothing is tiered.
        if asked.timestamp == OF_MAX_TIMESTAMP:
            found = partition.find_newest(isolation)
        else:
            found = partition.find_timestamp(asked.timestamp, isolation)
        if found is not None:
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
