"""FindCoordinator: which broker looks after a group, a transactional id or a share partition."""

from __future__ import annotations

from pyk.wire.fields import array, int8, int16, int32, string
from pyk.wire.message import message, struct


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    key: str = string(versions="0-3", default="")
    key_type: int = int8(versions="1+", default=0)
    coordinator_keys: list[str] = array(string, versions="4+", default=[])


@struct
class Coordinator:
    key: str = string(versions="4+", default="")
    node_id: int = int32(versions="4+", default=0)
    host: str = string(versions="4+", default="")
    port: int = int32(versions="4+", default=0)
    error_code: int = int16(versions="4+", default=0)
    error_message: str | None = string(versions="4+", nullable="4+", default="", ignorable=True)


@message(api_key=10, versions="0-6", flexible="3+")
class FindCoordinatorResponse:
    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    error_code: int = int16(versions="0-3", default=0)
    error_message: str | None = string(versions="1-3", nullable="1-3", default="", ignorable=True)
    node_id: int = int32(versions="0-3", default=0)
    host: str = string(versions="0-3", default="")
    port: int = int32(versions="0-3", default=0)
    coordinators: list[Coordinator] = array(Coordinator, versions="4+", default=[])
