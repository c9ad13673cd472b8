"""DeleteGroups: remove empty groups and their offsets."""

from __future__ import annotations

from pyk.wire.fields import array, int16, int32, string
from pyk.wire.message import message, struct


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest:
    groups_names: list[str] = array(string)


@struct
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16(default=0)


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsResponse:
    throttle_time_ms: int = int32(default=0)
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
