"""ListGroups, v0-5: the groups that this broker coordinates.

As in Kafka, those of a shard that is loading make the client ask again, and those of one that could
not be loaded are left out.
"""

from __future__ import annotations

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


def handle(request: ListGroupsRequest, call: Call, broker: Context) -> ListGroupsResponse:
    found: list[ListedGroup] = []
    for shard in broker.groups:
        if shard.has_failed:
            continue
        shard.check_loaded()
        found += shard.machine.listed(request)
    return ListGroupsResponse(groups=found)


def refuse(request: ListGroupsRequest, refusal: KafkaError) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=refusal.code, groups=[])
