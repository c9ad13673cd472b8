"""OffsetForLeaderEpoch: where a leader epoch ended, so that a reader can find where logs part."""

from __future__ import annotations

from pyk.wire.fields import array, int16, int32, int64, string
from pyk.wire.message import message, struct


@struct
class OffsetForLeaderPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(default=-1, ignorable=True)
    leader_epoch: int = int32()


@struct
class OffsetForLeaderTopic:
    topic: str = string()
    partitions: list[OffsetForLeaderPartition] = array(OffsetForLeaderPartition)


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest:
    replica_id: int = int32(versions="3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = array(OffsetForLeaderTopic)


@struct
class EpochEndOffset:
    error_code: int = int16(default=0)
    partition: int = int32()
    leader_epoch: int = int32(default=-1, ignorable=True)
    end_offset: int = int64(default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = string()
    partitions: list[EpochEndOffset] = array(EpochEndOffset)


@message(api_key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = int32(default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = array(OffsetForLeaderTopicResult)
