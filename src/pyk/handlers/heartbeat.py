"""Heartbeat, v0-4: a member of a classic group lives, and hears whether it has to rejoin."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import caller_of, check_group_id
from pyk.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    request: HeartbeatRequest, call: Call, broker: Context
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    check_group_id(request.group_id)
    caller = caller_of(call)
    outcome: HeartbeatResponse | Awaitable[HeartbeatResponse] = broker.groups.execute(
        request.group_id,
        lambda groups, ticket, now: groups.heartbeat(request, caller, ticket, now),
    )
    return outcome


def refuse(request: HeartbeatRequest, refusal: KafkaError) -> HeartbeatResponse:
    """While groups are loaded, nobody's session ends, and there is nothing to worry about."""
    is_loading = refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else refusal.code)
