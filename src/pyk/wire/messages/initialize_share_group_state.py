"""InitializeShareGroupState: a share partition's state begins at an offset."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, int16, int32, int64, string, uuid
from pyk.wire.message import message, struct


@struct
class PartitionData:
    partition: int = int32()
    state_epoch: int = int32()
    start_offset: int = int64()


@struct
class InitializeStateData:
    topic_id: Uuid = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateRequest:
    group_id: str = string()
    topics: list[InitializeStateData] = array(InitializeStateData)


@struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class InitializeStateResult:
    topic_id: Uuid = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(api_key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse:
    results: list[InitializeStateResult] = array(InitializeStateResult)
