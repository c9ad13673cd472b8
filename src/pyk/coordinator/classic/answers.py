"""What members of classic groups are told."""

from __future__ import annotations

from pyk.coordinator.classic.generation import Generation
from pyk.coordinator.classic.group import ClassicGroup, State
from pyk.errors import ErrorCode
from pyk.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from pyk.wire.messages.join_group import JoinGroupResponse
from pyk.wire.messages.sync_group import SyncGroupResponse


def joined(
    generation: Generation,
    member_id: str,
    *,
    leader: str | None = None,
    skip_assignment: bool = False,
    error: ErrorCode = ErrorCode.NONE,
) -> JoinGroupResponse:
    """It is part of this generation. The leader is told of the others."""
    leader = leader or generation.leader or ""
    return JoinGroupResponse(
        error_code=error,
        generation_id=generation.number,
        protocol_type=generation.protocol_type,
        protocol_name=generation.protocol,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=generation.roster() if leader == member_id else [],
    )


def not_joined(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, protocol_name=None, leader="", member_id=member_id, members=[]
    )


def synced(generation: Generation, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=generation.protocol_type,
        protocol_name=generation.protocol,
        assignment=assignment,
    )


def not_synced(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error, assignment=b"")


def described(group: ClassicGroup, authorized_operations: int) -> DescribedGroup:
    """What members can do is told when they have agreed on something."""
    protocol = group.protocol if group.state is State.STABLE else None
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=protocol or "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.host,
                member_metadata=b"" if protocol is None else member.protocols[protocol],
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
        authorized_operations=authorized_operations,
    )
