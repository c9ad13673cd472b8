"""SyncGroup, v0-5: a member of a classic group gets its assignment, once the leader has brought
everybody's."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import caller_of, check_group_id
from pyk.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(
    request: SyncGroupRequest, call: Call, broker: Context
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    if must_name_the_protocol(call) and None in (request.protocol_type, request.protocol_name):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    check_group_id(request.group_id)
    caller = caller_of(call)
    outcome: SyncGroupResponse | Awaitable[SyncGroupResponse] = broker.groups.execute(
        request.group_id,
        lambda groups, ticket, now: groups.sync(request, caller, ticket, now),
    )
    return outcome


def refuse(request: SyncGroupRequest, refusal: KafkaError) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=refusal.code, assignment=b"")


def must_name_the_protocol(call: Call) -> bool:
    """KIP-559: since v5, so that what is between clients and brokers can tell what it sees."""
    return call.version >= 5
