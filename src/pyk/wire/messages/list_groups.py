"""ListGroups: the groups that this broker coordinates."""

from __future__ import annotations

from pyk.wire.fields import array, int16, int32, string
from pyk.wire.message import message, struct


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest:
    states_filter: list[str] = array(string, versions="4+", default=[])
    types_filter: list[str] = array(string, versions="5+", default=[])


@struct
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(versions="4+", default="", ignorable=True)
    group_type: str = string(versions="5+", default="", ignorable=True)


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsResponse:
    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    error_code: int = int16(default=0)
    groups: list[ListedGroup] = array(ListedGroup)
