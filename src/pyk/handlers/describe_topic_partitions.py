"""DescribeTopicPartitions, v0: partitions of topics, a page at a time.

topics by name, from the cursor's on -> their partitions, until the page is full -> next cursor
"""

from __future__ import annotations

from collections.abc import Sequence

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import INTERNAL_TOPICS, Context
from pyk.handlers.operations import ALL_OF_TOPIC
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.records import NO_LEADER, PartitionState
from pyk.metadata.topic_names import check_topic_name
from pyk.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)


def handle(
    request: DescribeTopicPartitionsRequest, call: Call, broker: Context
) -> DescribeTopicPartitionsResponse:
    limit_max = broker.settings.config.max_request_partition_size_limit
    room = max(1, min(request.response_partition_limit, limit_max))
    cursor = request.cursor
    image = broker.image
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for name in _names(request, image):
        if room == 0:
            return _page(topics, Cursor(topic_name=name, partition_index=0))
        topic = image.topics.get(name)
        if topic is None:
            topics.append(_unknown(name))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        states = list(enumerate(topic.partitions))[start : start + room]
        topics.append(_described(topic, states, image))
        room -= len(states)
        if start + len(states) < len(topic.partitions):
            next_partition = start + len(states)
            return _page(topics, Cursor(topic_name=name, partition_index=next_partition))
    return _page(topics, None)


def refuse(
    request: DescribeTopicPartitionsRequest, refusal: KafkaError
) -> DescribeTopicPartitionsResponse:
    topics = [
        DescribeTopicPartitionsResponseTopic(
            error_code=refusal.code, name=topic.name, partitions=[]
        )
        for topic in request.topics
    ]
    return _page(topics, None)


def _page(
    topics: list[DescribeTopicPartitionsResponseTopic], cursor: Cursor | None
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=cursor)


def _names(request: DescribeTopicPartitionsRequest, image: ClusterImage) -> list[str]:
    """In their order, from the cursor's on. Without any in the request, of all topics."""
    asked = {topic.name for topic in request.topics}
    cursor = request.cursor
    if cursor is not None:
        if asked and cursor.topic_name not in asked:
            message = f"The topic of the cursor is not asked for: {cursor.topic_name}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        if cursor.partition_index < 0:
            message = f"The cursor has no partition: {cursor.partition_index}"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    first = "" if cursor is None else cursor.topic_name
    return sorted(name for name in asked or image.topics if name >= first)


def _described(
    topic: Topic, states: Sequence[tuple[int, PartitionState]], image: ClusterImage
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(number, state, image) for number, state in states],
        topic_authorized_operations=ALL_OF_TOPIC,
    )


def _partition(
    number: int, state: PartitionState, image: ClusterImage
) -> DescribeTopicPartitionsResponsePartition:
    is_led = state.leader != NO_LEADER
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=[],
        offline_replicas=[replica for replica in state.replicas if not _is_online(replica, image)],
    )


def _is_online(replica: int, image: ClusterImage) -> bool:
    broker = image.brokers.get(replica)
    return broker is not None and not broker.fenced


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except KafkaError as refusal:
        code = refusal.code
    return DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[],
        topic_authorized_operations=ALL_OF_TOPIC,
    )
