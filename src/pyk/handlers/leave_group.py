"""LeaveGroup, v0-5: members of a classic group go, or are sent away. Before v3 it was one alone."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import caller_of, check_group_id, then
from pyk.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity


def handle(
    request: LeaveGroupRequest, call: Call, broker: Context
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    check_group_id(request.group_id)
    caller = caller_of(call)
    if is_about_many(call):
        outcome: LeaveGroupResponse | Awaitable[LeaveGroupResponse] = broker.groups.execute(
            request.group_id,
            lambda groups, ticket, now: groups.leave(request, caller, ticket, now),
        )
        return outcome
    alone = LeaveGroupRequest(
        group_id=request.group_id, members=[MemberIdentity(member_id=request.member_id)]
    )
    outcome = broker.groups.execute(
        request.group_id, lambda groups, ticket, now: groups.leave(alone, caller, ticket, now)
    )
    return then(outcome, _of_one, lambda refusal: refuse(request, refusal))


def refuse(request: LeaveGroupRequest, refusal: KafkaError) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=refusal.code)


def is_about_many(call: Call) -> bool:
    """KIP-345: since v3 each has an error of its own."""
    return call.version >= 3


def _of_one(response: LeaveGroupResponse) -> LeaveGroupResponse:
    (member,) = response.members
    return LeaveGroupResponse(error_code=member.error_code)
