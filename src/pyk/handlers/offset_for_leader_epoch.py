"""OffsetForLeaderEpoch, v2-4: where a leader epoch ended."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.turns import Work, answered
from pyk.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    request: OffsetForLeaderEpochRequest, call: Call, broker: Context
) -> OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse]:
    return answered(_answer(request, broker))


def _answer(
    request: OffsetForLeaderEpochRequest, broker: Context
) -> Work[OffsetForLeaderEpochResponse]:
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            partitions.append(find(broker, topic.topic, asked))
            yield
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def find(broker: Context, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.readable(topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
        epoch, end_offset = partition.end_of_epoch(asked.leader_epoch)
    except Exception as failure:
        refusal = broker.failures.refusal(failure, f"{topic}-{asked.partition}")
        return EpochEndOffset(error_code=refusal.code, partition=asked.partition)
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
