"""Classic groups on `__consumer_offsets`."""

from __future__ import annotations

from pyk.wire.fields import array, bytes_, int32, int64, string
from pyk.wire.message import message, struct


@message(record_type=2, versions="0")
class GroupMetadataKey:
    group: str = string()


@struct
class MemberMetadata:
    member_id: str = string()
    group_instance_id: str | None = string(
        versions="3+", nullable="3+", default=None, ignorable=True
    )
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(versions="1+", default=-1, ignorable=True)
    session_timeout: int = int32()
    subscription: bytes = bytes_()
    assignment: bytes = bytes_()


@message(record_type=2, versions="0-4", flexible="4+")
class GroupMetadataValue:
    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64(versions="2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = array(MemberMetadata)
