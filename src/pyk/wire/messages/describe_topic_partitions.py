"""DescribeTopicPartitions: partitions of topics, a page at a time."""

from __future__ import annotations

from pyk.types import ZERO_UUID, Uuid
from pyk.wire.fields import array, boolean, int16, int32, nested, string, uuid
from pyk.wire.message import message, struct


@struct
class TopicRequest:
    name: str = string()


@struct
class Cursor:
    topic_name: str = string()
    partition_index: int = int32()


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = nested(Cursor, nullable="0+", default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int = int16(default=0)
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    eligible_leader_replicas: list[int] | None = array(int32, nullable="0+", default=None)
    last_known_elr: list[int] | None = array(int32, nullable="0+", default=None)
    offline_replicas: list[int] = array(int32, default=[], ignorable=True)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int = int16(default=0)
    name: str | None = string(nullable="0+")
    topic_id: Uuid = uuid(default=ZERO_UUID, ignorable=True)
    is_internal: bool = boolean(default=False, ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-(2**31))


@message(api_key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = int32(default=0, ignorable=True)
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic)
    next_cursor: Cursor | None = nested(Cursor, nullable="0+", default=None)
