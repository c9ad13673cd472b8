"""AlterPartitionReassignments: move partitions to other replicas, or cancel that."""

from __future__ import annotations

from pyk.wire.fields import array, boolean, int16, int32, string
from pyk.wire.message import message, struct


@struct
class ReassignablePartition:
    partition_index: int = int32()
    replicas: list[int] | None = array(int32, nullable="0+", default=None)


@struct
class ReassignableTopic:
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean(versions="1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


@struct
class ReassignablePartitionResponse:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")


@struct
class ReassignableTopicResponse:
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@message(api_key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = int32(default=0)
    allow_replication_factor_change: bool = boolean(versions="1+", default=True, ignorable=True)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)
