"""SyncGroup: the leader of a classic group hands out assignments, every member gets its own."""

from __future__ import annotations

from pyk.wire.fields import array, bytes_, int16, int32, string
from pyk.wire.message import message, struct


@struct
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = bytes_()


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)
    protocol_type: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(api_key=14, versions="0-5", flexible="4+")
class SyncGroupResponse:
    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    error_code: int = int16(default=0)
    protocol_type: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string(versions="5+", nullable="5+", default=None, ignorable=True)
    assignment: bytes = bytes_()
