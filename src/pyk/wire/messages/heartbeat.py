"""Heartbeat: a classic group member says that it is alive."""

from __future__ import annotations

from pyk.wire.fields import int16, int32, string
from pyk.wire.message import message


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)


@message(api_key=12, versions="0-4", flexible="4+")
class HeartbeatResponse:
    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    error_code: int = int16(default=0)
