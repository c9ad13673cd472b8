"""DescribeGroups: state and members of classic groups."""

from __future__ import annotations

from pyk.wire.fields import array, boolean, bytes_, int16, int32, string
from pyk.wire.message import message, struct


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest:
    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean(versions="3+", default=False)


@struct
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string(
        versions="4+", nullable="4+", default=None, ignorable=True
    )
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = bytes_()
    member_assignment: bytes = bytes_()


@struct
class DescribedGroup:
    error_code: int = int16(default=0)
    error_message: str | None = string(versions="6+", nullable="6+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember, often_same=True)
    authorized_operations: int = int32(versions="3+", default=-(2**31))


@message(api_key=15, versions="0-6", flexible="5+")
class DescribeGroupsResponse:
    throttle_time_ms: int = int32(versions="1+", default=0, ignorable=True)
    groups: list[DescribedGroup] = array(DescribedGroup)
