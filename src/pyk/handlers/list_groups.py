"""ListGroups, v0-5: the groups that this broker coordinates."""

from __future__ import annotations

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(request: ListGroupsRequest, call: Call, broker: Context) -> ListGroupsResponse:
    found: list[ListedGroup] = []
    for shard in broker.groups:
        if not shard.is_loaded:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        found += shard.machine.listed(request)
    return ListGroupsResponse(groups=found)


def refuse(request: ListGroupsRequest, refusal: KafkaError) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=refusal.code, groups=[])
