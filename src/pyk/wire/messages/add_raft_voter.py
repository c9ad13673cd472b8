"""AddRaftVoter: add a voter to the metadata quorum."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, boolean, int16, int32, string, uint16, uuid
from pyk.wire.message import message, struct


@struct
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@message(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterRequest:
    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean(versions="1+", default=True)


@message(api_key=80, versions="0-1", flexible="0+")
class AddRaftVoterResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="", ignorable=True)
