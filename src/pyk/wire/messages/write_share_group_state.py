"""WriteShareGroupState: a share partition's leader has its progress kept."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, int8, int16, int32, int64, string, uuid
from pyk.wire.message import message, struct


@struct
class StateBatch:
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@struct
class PartitionData:
    partition: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(versions="1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = array(StateBatch)


@struct
class WriteStateData:
    topic_id: Uuid = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateRequest:
    group_id: str = string()
    topics: list[WriteStateData] = array(WriteStateData)


@struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class WriteStateResult:
    topic_id: Uuid = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(api_key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse:
    results: list[WriteStateResult] = array(WriteStateResult)
