"""AlterShareGroupOffsets: move a share group's start offsets."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, int16, int32, int64, string, uuid
from pyk.wire.message import message, struct


@struct
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int = int32()
    start_offset: int = int64()


@struct
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str = string()
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition
    )


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsRequest:
    group_id: str = string()
    topics: list[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


@struct
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str = string()
    topic_id: Uuid = uuid()
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition
    )


@message(api_key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic
    )
