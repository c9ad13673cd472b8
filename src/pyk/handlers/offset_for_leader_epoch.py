"""OffsetForLeaderEpoch, v2-4: where a leader epoch ended."""

from __future__ import annotations

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    request: OffsetForLeaderEpochRequest, call: Call, broker: Context
) -> OffsetForLeaderEpochResponse:
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[find(broker, topic.topic, asked) for asked in topic.partitions],
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def find(broker: Context, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.leader_of(topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
    except KafkaError as refusal:
        return EpochEndOffset(error_code=refusal.code, partition=asked.partition)
    epoch, end_offset = partition.end_of_epoch(asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)


def refuse(
    request: OffsetForLeaderEpochRequest, refusal: KafkaError
) -> OffsetForLeaderEpochResponse:
    topics = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[
                EpochEndOffset(error_code=refusal.code, partition=asked.partition)
                for asked in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)
