"""ListGroups, v0-5: the groups that this broker coordinates.

As in Kafka, those of a shard that is loading make the client ask again, and those of one that could
not be loaded are left out.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.turns import Work, answered
from pyk.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from pyk.coordinator.groups import Groups


def handle(
    request: ListGroupsRequest, call: Call, broker: Context
) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    shards = [shard for shard in broker.groups if not shard.has_failed]
    for shard in shards:
        shard.check_loaded()
    return answered(_listed(request, [shard.machine for shard in shards]))


def _listed(request: ListGroupsRequest, machines: list[Groups]) -> Work[ListGroupsResponse]:
    found: list[ListedGroup] = []
    for groups in machines:
        found += yield from groups.listed(request)
    return ListGroupsResponse(groups=found)


def refuse(request: ListGroupsRequest, refusal: KafkaError) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=refusal.code, groups=[])
