"""ReadShareGroupState: a share partition's whole state, for its leader."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, int8, int16, int32, int64, string, uuid
from pyk.wire.message import message, struct


@struct
class PartitionData:
    partition: int = int32()
    leader_epoch: int = int32()


@struct
class ReadStateData:
    topic_id: Uuid = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateRequest:
    group_id: str = string()
    topics: list[ReadStateData] = array(ReadStateData)


@struct
class StateBatch:
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_state: int = int8()
    delivery_count: int = int16()


@struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    start_offset: int = int64()
    state_batches: list[StateBatch] = array(StateBatch)


@struct
class ReadStateResult:
    topic_id: Uuid = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(api_key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse:
    results: list[ReadStateResult] = array(ReadStateResult)
