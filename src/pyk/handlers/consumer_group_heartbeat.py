"""ConsumerGroupHeartbeat, v0-1: a member of a consumer group joins it, stays in it, leaves it."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import caller_of
from pyk.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(
    request: ConsumerGroupHeartbeatRequest, call: Call, broker: Context
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    caller = caller_of(call)
    outcome: ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]
    outcome = broker.groups.execute(
        request.group_id,
        lambda groups, ticket, now: groups.consumer_heartbeat(request, caller, ticket, now),
    )
    return outcome


def refuse(
    request: ConsumerGroupHeartbeatRequest, refusal: KafkaError
) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=refusal.code,
        error_message=refusal.message,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )
