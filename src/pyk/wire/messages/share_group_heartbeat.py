"""ShareGroupHeartbeat: membership of a share group (KIP-932)."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, int16, int32, nested, string, uuid
from pyk.wire.message import message, struct


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = array(string, nullable="0+", default=None)


@struct
class TopicPartitions:
    topic_id: Uuid = uuid()
    partitions: list[int] = array(int32)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


@message(api_key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+", default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = nested(Assignment, nullable="0+", default=None)
