"""DeleteGroups, v0-2: forget groups that have no members, and their offsets."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import then, together
from pyk.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(
    request: DeleteGroupsRequest, call: Call, broker: Context
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    outcomes = [_deleted(group_id, broker) for group_id in dict.fromkeys(request.groups_names)]
    return together(outcomes, lambda results: DeleteGroupsResponse(results=results))


def refuse(request: DeleteGroupsRequest, refusal: KafkaError) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[_refused(group_id, refusal) for group_id in request.groups_names]
    )


def _deleted(
    group_id: str, broker: Context
) -> DeletableGroupResult | Awaitable[DeletableGroupResult]:
    try:
        outcome = broker.groups.execute(
            group_id, lambda groups, ticket, now: groups.delete(group_id, ticket, now)
        )
    except KafkaError as refusal:
        return _refused(group_id, refusal)
    return then(outcome, lambda result: result, lambda refusal: _refused(group_id, refusal))


def _refused(group_id: str, refusal: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=refusal.code)
