"""OffsetDelete: forget a group's offsets for some partitions."""

from __future__ import annotations

from pyk.wire.fields import array, int16, int32, string
from pyk.wire.message import message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = int32()


@struct
class OffsetDeleteRequestTopic:
    name: str = string()
    partitions: list[OffsetDeleteRequestPartition] = array(OffsetDeleteRequestPartition)


@message(api_key=47, versions="0")
class OffsetDeleteRequest:
    group_id: str = string()
    topics: list[OffsetDeleteRequestTopic] = array(OffsetDeleteRequestTopic)


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = int32()
    error_code: int = int16(default=0)


@struct
class OffsetDeleteResponseTopic:
    name: str = string()
    partitions: list[OffsetDeleteResponsePartition] = array(OffsetDeleteResponsePartition)


@message(api_key=47, versions="0")
class OffsetDeleteResponse:
    error_code: int = int16(default=0)
    throttle_time_ms: int = int32(default=0, ignorable=True)
    topics: list[OffsetDeleteResponseTopic] = array(OffsetDeleteResponseTopic)
