"""ConsumerGroupHeartbeat, v0-1: a member of a consumer group joins it, stays in it, leaves it."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from typing import Final

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import caller_of
from pyk.turns import in_turns
from pyk.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

SUBSCRIBED_AT_ONCE_MAX: Final = 1_000
"""Topics: three milliseconds."""


def handle(
    request: ConsumerGroupHeartbeatRequest, call: Call, broker: Context
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    names = request.subscribed_topic_names
    if names is not None and len(names) > SUBSCRIBED_AT_ONCE_MAX:
        return _handle_wide(request, names, call, broker)
    return _heartbeat(request, call, broker)


async def _handle_wide(
    request: ConsumerGroupHeartbeatRequest, names: list[str], call: Call, broker: Context
) -> ConsumerGroupHeartbeatResponse:
    """To hash topics takes longest, and does not depend on the group."""
    shard = broker.groups.of(request.group_id)
    shard.check_loaded()
    await in_turns(shard.machine.consumer.learn_topics(names))
    outcome = _heartbeat(request, call, broker)
    return await outcome if isawaitable(outcome) else outcome


def _heartbeat(
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
