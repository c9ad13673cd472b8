"""DeleteGroups, v0-2: forget groups that have no members, and their offsets."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from pyk.coordinator.share.partitions import ByTopic
from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import then, together
from pyk.handlers.share_calls import to_the_end_in_turn
from pyk.turns import settled
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
        shard = broker.groups.of(group_id)
        shard.check_loaded()
        if shard.machine.share_offsets.has_states(group_id):
            deleting = to_the_end_in_turn(group_id, partial(_with_states, group_id, broker), broker)
            return then(deleting, lambda result: result, refused)
        outcome = broker.groups.execute(
            group_id, lambda groups, ticket, now: groups.delete(group_id, ticket, now)
        )
    except KafkaError as refusal:
        return refused(refusal)
    return then(outcome, lambda result: result, refused)


async def _with_states(group_id: str, broker: Context) -> DeletableGroupResult:
    """A share group goes when nothing is left of what it has read. Raise KafkaError."""
    groups = broker.groups
    doomed: ByTopic = await settled(
        groups.execute(group_id, lambda g, ticket, _: g.share_offsets.delete_all(group_id, ticket))
    )
    errors = await settled(broker.share_lifecycle.delete(group_id, doomed))
    for error in errors.values():
        raise error
    result: DeletableGroupResult = await settled(
        groups.execute(group_id, lambda g, ticket, now: g.delete(group_id, ticket, now))
    )
    return result


def _refused(group_id: str, refusal: KafkaError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=group_id, error_code=refusal.code)
