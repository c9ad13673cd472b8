"""DeleteShareGroupState: forget the state of share partitions."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, int16, int32, string, uuid
from pyk.wire.message import message, struct


@struct
class PartitionData:
    partition: int = int32()


@struct
class DeleteStateData:
    topic_id: Uuid = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateRequest:
    group_id: str = string()
    topics: list[DeleteStateData] = array(DeleteStateData)


@struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@struct
class DeleteStateResult:
    topic_id: Uuid = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(api_key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = array(DeleteStateResult)
