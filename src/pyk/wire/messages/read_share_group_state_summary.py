"""ReadShareGroupStateSummary: where share partitions start, without their batches."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, int16, int32, int64, string, uuid
from pyk.wire.message import message, struct


@struct
class PartitionData:
    partition: int = int32()
    leader_epoch: int = int32()


@struct
class ReadStateSummaryData:
    topic_id: Uuid = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryRequest:
    group_id: str = string()
    topics: list[ReadStateSummaryData] = array(ReadStateSummaryData)


@struct
class PartitionResult:
    partition: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(versions="1+", default=-1, ignorable=True)


@struct
class ReadStateSummaryResult:
    topic_id: Uuid = uuid()
    partitions: list[PartitionResult] = array(PartitionResult)


@message(api_key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult] = array(ReadStateSummaryResult)
