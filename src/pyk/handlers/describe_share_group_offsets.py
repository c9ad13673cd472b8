"""DescribeShareGroupOffsets, v0-1: where share groups begin to read, and how much is left to them.

What is not known is no error: then there is no offset, and no lag.
"""

from __future__ import annotations

from typing import Final

from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.coordinator.share_state.state import Summary
from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.share_calls import check_enabled
from pyk.metadata.image import Topic
from pyk.replication.partition import Isolation
from pyk.turns import settled
from pyk.types import ZERO_UUID, TopicPartition, Uuid
from pyk.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

NOTHING: Final = -1
NO_EPOCH: Final = 0
INT64_MAX: Final = 2**63 - 1
"""A group may be told to begin anywhere, and a lag has no room for more."""


async def handle(
    request: DescribeShareGroupOffsetsRequest, call: Call, broker: Context
) -> DescribeShareGroupOffsetsResponse:
    check_enabled(broker)
    groups = []
    whole: dict[str, DescribeShareGroupOffsetsResponseGroup] = {}
    for asked in request.groups:
        group = whole.get(asked.group_id) if asked.topics is None else None
        if group is None:
            group = await _group(asked, broker)
        if asked.topics is None:
            whole[asked.group_id] = group
        groups.append(group)
    return DescribeShareGroupOffsetsResponse(groups=groups)


def refuse(
    request: DescribeShareGroupOffsetsRequest, refusal: KafkaError
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(
                group_id=asked.group_id, topics=[], error_code=refusal.code
            )
            for asked in request.groups
        ]
    )


async def _group(
    asked: DescribeShareGroupOffsetsRequestGroup, broker: Context
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = asked.group_id
    try:
        wanted = await _all_of(group_id, broker) if asked.topics is None else asked.topics
    except KafkaError as refusal:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, topics=[], error_code=refusal.code, error_message=refusal.message
        )
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id, topics=[await _topic(group_id, each, broker) for each in wanted]
    )


async def _all_of(group_id: str, broker: Context) -> list[DescribeShareGroupOffsetsRequestTopic]:
    """What the group may read. Raise KafkaError."""
    outcome = broker.groups.execute(
        group_id, lambda groups, ticket, now: groups.share_offsets.partitions(group_id, ticket)
    )
    initialized = await settled(outcome)
    return [
        DescribeShareGroupOffsetsRequestTopic(
            topic_name=broker.image.names[topic_id], partitions=sorted(known.partitions)
        )
        for topic_id, known in initialized.items()
        if topic_id in broker.image.names
    ]


async def _topic(
    group_id: str, asked: DescribeShareGroupOffsetsRequestTopic, broker: Context
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = broker.image.topics.get(asked.topic_name)
    if topic is None:
        return _described(asked, ZERO_UUID, [_unknown(number) for number in asked.partitions])
    summaries = {
        number: await _summary(SharePartitionKey(group_id, topic.topic_id, number), broker)
        for number in asked.partitions
    }
    closed = [
        (topic, number)
        for number, summary in summaries.items()
        if summary is not None
        and _is_known(summary)
        and broker.directory.is_dormant(TopicPartition(topic.name, number))
    ]
    if closed:
        await broker.ensure_logs_in_time(closed)
    partitions = [
        _partition(summaries[number], topic, number, broker) for number in asked.partitions
    ]
    return _described(asked, topic.topic_id, partitions)


def _described(
    asked: DescribeShareGroupOffsetsRequestTopic,
    topic_id: Uuid,
    partitions: list[DescribeShareGroupOffsetsResponsePartition],
) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name, topic_id=topic_id, partitions=partitions
    )


async def _summary(key: SharePartitionKey, broker: Context) -> Summary | None:
    try:
        return await settled(broker.share_coordinator.persister.summary(key))
    except KafkaError:
        return None


def _partition(
    summary: Summary | None, topic: Topic, number: int, broker: Context
) -> DescribeShareGroupOffsetsResponsePartition:
    if summary is None:
        return _unknown(number)
    try:
        lag = _lag(summary, topic, number, broker)
    except KafkaError as refusal:
        return _refused(number, refusal)
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=number,
        start_offset=summary.start_offset,
        leader_epoch=summary.leader_epoch,
        lag=lag,
    )


def _is_known(summary: Summary) -> bool:
    return NOTHING not in (summary.start_offset, summary.delivery_complete_count)


def _lag(summary: Summary, topic: Topic, number: int, broker: Context) -> int:
    """Raise KafkaError."""
    if not _is_known(summary):
        return NOTHING
    # One that could not be opened in time is for who comes again.
    partition = broker.replicas.leader_of_used(topic, number, [])
    end = 0 if partition is None else partition.visible_end(Isolation.READ_UNCOMMITTED)
    lag = end - summary.start_offset - summary.delivery_complete_count
    return max(min(lag, INT64_MAX), -INT64_MAX)


def _unknown(number: int) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=number, start_offset=NOTHING, leader_epoch=NO_EPOCH
    )


def _refused(number: int, refusal: KafkaError) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=number,
        start_offset=0,
        leader_epoch=NO_EPOCH,
        error_code=refusal.code,
        error_message=refusal.message,
    )
