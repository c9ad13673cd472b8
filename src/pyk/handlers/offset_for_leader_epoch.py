"""OffsetForLeaderEpoch, v2-4: where a leader epoch ended."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.metadata.image import Topic
from pyk.turns import Work, answered, in_turns
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
    closed: list[tuple[Topic, int]] = []
    response = answered(_answer(request, broker, closed))
    if isinstance(response, OffsetForLeaderEpochResponse) and not closed:
        return response
    return _answer_later(response, closed, request, broker)


async def _answer_later(
    response: OffsetForLeaderEpochResponse | Awaitable[OffsetForLeaderEpochResponse],
    closed: list[tuple[Topic, int]],
    request: OffsetForLeaderEpochRequest,
    broker: Context,
) -> OffsetForLeaderEpochResponse:
    if not isinstance(response, OffsetForLeaderEpochResponse):
        response = await response
    if closed:
        await broker.ensure_logs_in_time(closed)
        response = await in_turns(_answer(request, broker, []))
    return response


def _answer(
    request: OffsetForLeaderEpochRequest,
    broker: Context,
    closed: list[tuple[Topic, int]],
) -> Work[OffsetForLeaderEpochResponse]:
    topics = []
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            partitions.append(find(broker, topic.topic, asked, closed))
            yield
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def find(
    broker: Context,
    topic: str,
    asked: OffsetForLeaderPartition,
    closed: list[tuple[Topic, int]],
) -> EpochEndOffset:
    try:
        partition = broker.readable(topic, asked.partition, closed)
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
