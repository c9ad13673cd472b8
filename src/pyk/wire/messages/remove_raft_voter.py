"""RemoveRaftVoter: remove a voter from the metadata quorum."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import int16, int32, string, uuid
from pyk.wire.message import message


@message(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterRequest:
    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: Uuid = uuid()


@message(api_key=81, versions="0", flexible="0+")
class RemoveRaftVoterResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default="", ignorable=True)
