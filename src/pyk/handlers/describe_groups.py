"""DescribeGroups, v0-6: the state of classic groups and their members."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import once_each, then, together
from pyk.handlers.operations import ALL_OF_GROUP, NOT_ASKED_FOR
from pyk.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

DEAD: Final = "Dead"


def handle(
    request: DescribeGroupsRequest, call: Call, broker: Context
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    outcomes = once_each(
        request.groups, lambda group_id: _described(group_id, request, call, broker)
    )
    return together(outcomes, lambda groups: DescribeGroupsResponse(groups=groups))


def refuse(request: DescribeGroupsRequest, refusal: KafkaError) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[_refused(group_id, refusal.code) for group_id in request.groups]
    )


def tells_of_missing_groups(call: Call) -> bool:
    """KIP-1043. Before, a group that is not there is a dead one, and that is no error."""
    return call.version >= 6


def _described(
    group_id: str, request: DescribeGroupsRequest, call: Call, broker: Context
) -> DescribedGroup | Awaitable[DescribedGroup]:
    operations = ALL_OF_GROUP if request.include_authorized_operations else NOT_ASKED_FOR

    def refused(refusal: KafkaError) -> DescribedGroup:
        if refusal.code != ErrorCode.GROUP_ID_NOT_FOUND:
            return _refused(group_id, refusal.code)
        if tells_of_missing_groups(call):
            return _refused(group_id, refusal.code, refusal.message, DEAD)
        return _refused(group_id, ErrorCode.NONE, None, DEAD, operations)

    try:
        outcome = broker.groups.execute(
            group_id,
            lambda groups, ticket, now: groups.describe(group_id, operations, ticket, now),
        )
    except KafkaError as refusal:
        return refused(refusal)
    return then(outcome, lambda group: group, refused)


def _refused(
    group_id: str,
    code: ErrorCode,
    message: str | None = None,
    state: str = "",
    operations: int = NOT_ASKED_FOR,
) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=[],
        authorized_operations=operations,
    )
