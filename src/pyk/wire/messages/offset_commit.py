"""OffsetCommit: a group remembers how far it has read."""

from __future__ import annotations

from pyk.types import ZERO_UUID, Uuid
from pyk.wire.fields import array, int16, int32, int64, string, uuid
from pyk.wire.message import message, struct


@struct
class OffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(versions="6+", default=-1, ignorable=True)
    committed_metadata: str | None = string(nullable="0+")


@struct
class OffsetCommitRequestTopic:
    name: str = string(versions="0-9", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest:
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1, ignorable=True)
    member_id: str = string(default="", ignorable=True)
    group_instance_id: str | None = string(versions="7+", nullable="7+", default=None)
    retention_time_ms: int = int64(versions="2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@struct
class OffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16(default=0)


@struct
class OffsetCommitResponseTopic:
    name: str = string(versions="0-9", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@message(api_key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse:
    throttle_time_ms: int = int32(versions="3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
