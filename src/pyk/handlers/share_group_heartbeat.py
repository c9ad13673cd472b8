"""ShareGroupHeartbeat, v1: a member of a share group joins it, stays in it, leaves it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import caller_of
from pyk.handlers.share_calls import check_enabled
from pyk.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

MEMBER_ID_LENGTH_MAX: Final = 36
"""That of a UUID in the longest way to write it."""


def handle(
    request: ShareGroupHeartbeatRequest, call: Call, broker: Context
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    check_enabled(broker)
    if not 0 < len(request.member_id) <= MEMBER_ID_LENGTH_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    caller = caller_of(call)
    outcome: ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]
    outcome = broker.groups.execute(
        request.group_id,
        lambda groups, ticket, now: groups.share_heartbeat(request, caller, ticket, now),
    )
    return outcome


def refuse(request: ShareGroupHeartbeatRequest, refusal: KafkaError) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(
        error_code=refusal.code,
        error_message=refusal.message,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )
