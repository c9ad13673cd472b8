"""DeleteGroups, v0-2: forget groups that have no members, and their offsets."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable

from pyk.coordinator.share.partitions import ByTopic
from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import then, together
from pyk.handlers.share_calls import settled
from pyk.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(
    request: DeleteGroupsRequest, call: Call, broker: Context
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    outcomes = (_deleted(group_id, broker) for group_id in dict.fromkeys(request.groups_names))
    return together(outcomes, lambda results: DeleteGroupsResponse(results=results))


def refuse(request: DeleteGroupsRequest, refusal: KafkaError) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[_refused(group_id, refusal) for group_id in request.groups_names]
    )


def _deleted(
    group_id: str, broker: Context
) -> DeletableGroupResult | Awaitable[DeletableGroupResult]:
    def refused(refusal: KafkaError) -> DeletableGroupResult:
        return _refused(group_id, refusal)

    try:
        outcome = broker.groups.execute(
            group_id, lambda groups, ticket, now: groups.share_offsets.delete_all(group_id, ticket)
        )
        if isawaitable(outcome) or outcome:
            return then(_with_states(group_id, outcome, broker), lambda result: result, refused)
        outcome = broker.groups.execute(
            group_id, lambda groups, ticket, now: groups.delete(group_id, ticket, now)
        )
    except KafkaError as refusal:
        return refused(refusal)
    return then(outcome, lambda result: result, refused)


async def _with_states(
    group_id: str, doomed: ByTopic | Awaitable[ByTopic], broker: Context
) -> DeletableGroupResult:
    """A share group goes when nothing is left of what it has read. Raise KafkaError."""
    errors = await settled(broker.share_lifecycle.delete(group_id, await settled(doomed)))
    for error in errors.values():
        raise error
    outcome = broker.groups.execute(
        group_id, lambda groups, ticket, now: groups.delete(group_id, ticket, now)
    )
    result: DeletableGroupResult = await settled(outcome)
    return result


def _refused(group_id: str, refusal: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=refusal.code)
