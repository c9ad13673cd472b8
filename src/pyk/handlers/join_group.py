"""JoinGroup, v0-9: be part of the next generation of a classic group.

The answer comes when that begins, or at once if there is something to be told before.
"""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import caller_of, then
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


def handle(
    request: JoinGroupRequest, call: Call, broker: Context
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    error = _objection(request, broker)
    if error is not None:
        return _fitting(_refused(error, request.member_id), call)
    caller = caller_of(call)

    def refused(refusal: KafkaError) -> JoinGroupResponse:
        return _fitting(_refused(refusal.code), call)

    try:
        outcome = broker.groups.execute(
            request.group_id,
            lambda groups, ticket, now: groups.join(request, caller, ticket, now),
        )
    except KafkaError as refusal:
        return refused(refusal)
    return then(outcome, lambda response: _fitting(response, call), refused)


def refuse(request: JoinGroupRequest, refusal: KafkaError) -> JoinGroupResponse:
    return _refused(refusal.code, protocol="")


def can_have_no_protocol(call: Call) -> bool:
    """Since v7 there is a null for the name of a protocol that was not chosen."""
    return call.version >= 7


def _objection(request: JoinGroupRequest, broker: Context) -> ErrorCode | None:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    config = broker.settings.config
    shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not shortest <= request.session_timeout_ms <= longest:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    return None


def _refused(error: int, member_id: str = "", protocol: str | None = None) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error, protocol_name=protocol, leader="", member_id=member_id, members=[]
    )


def _fitting(response: JoinGroupResponse, call: Call) -> JoinGroupResponse:
    """Who is refused is not told of a protocol."""
    if response.protocol_name is not None or can_have_no_protocol(call):
        return response
    return _refused(response.error_code, response.member_id, protocol="")
