"""What is asked of a broker about a group, and not by its members."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from pyk.errors import ErrorCode
from pyk.wire.apis import ApiKey
from pyk.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from pyk.wire.messages.describe_groups import DescribedGroup as DescribedClassicGroup
from pyk.wire.messages.describe_groups import DescribeGroupsRequest
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyk.wire.messages.list_groups import ListGroupsRequest
from pyk.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pyk.wire.payloads.consumer_protocol import ConsumerProtocolSubscription
from pyk.wire.prefixed import decode_value
from tests.clients.groups.programs.member import Partition
from tests.clients.raw import RawClient

LOADING = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
LOAD_SECONDS = 90.0
RESOURCE_GROUP = 32
SET = 0


def when_loaded(address: str, key: ApiKey, version: int, request: Any, answers: str) -> Any:
    """The only one of the answers that a response has under that name, once the coordinator has
    loaded what it is asked about."""
    deadline = time.monotonic() + LOAD_SECONDS
    with RawClient(address) as raw:
        while True:
            (found,) = getattr(raw.ask(key, version, request), answers)
            if found.error_code not in LOADING or time.monotonic() > deadline:
                break
    assert found.error_code == 0, found
    return found


def configure(address: str, group: str, configs: Mapping[str, str]) -> None:
    """A broker may answer before it has heard of what it has asked a controller for, so that this
    is for groups that have no members yet."""
    resource = AlterConfigsResource(
        resource_type=RESOURCE_GROUP,
        resource_name=group,
        configs=[
            AlterableConfig(name=name, config_operation=SET, value=value)
            for name, value in configs.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    with RawClient(address) as raw:
        answer = raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert [each.error_code for each in answer.responses] == [0], answer


def committed_offsets(address: str, group: str) -> dict[Partition, int]:
    """The next to read, of all partitions that have one."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    found = when_loaded(address, ApiKey.OFFSET_FETCH, 8, request, "groups")
    return {
        Partition(topic.name, each.partition_index): each.committed_offset
        for topic in found.topics
        for each in topic.partitions
    }


def group_type(address: str, group: str) -> str:
    with RawClient(address) as raw:
        answer = raw.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
    assert answer.error_code == 0
    (found,) = [each.group_type for each in answer.groups if each.group_id == group]
    return str(found)


def group_epoch(address: str, group: str) -> int:
    """Of a consumer group."""
    return int(_described(address, group).group_epoch)


def members_count(address: str, group: str) -> int:
    if group_type(address, group) == "consumer":
        return len(_described(address, group).members)
    return len(_described_classic(address, group).members)


def racks(address: str, group: str) -> set[str | None]:
    """Of the members, of either protocol."""
    if group_type(address, group) == "consumer":
        return {each.rack_id for each in _described(address, group).members}
    return {
        decode_value(ConsumerProtocolSubscription, each.member_metadata).rack_id
        for each in _described_classic(address, group).members
    }


def _described_classic(address: str, group: str) -> DescribedClassicGroup:
    with RawClient(address) as raw:
        (answer,) = raw.ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest(groups=[group])).groups
    described: DescribedClassicGroup = answer
    return described


def _described(address: str, group: str) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    with RawClient(address) as raw:
        (answer,) = raw.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, request).groups
    assert answer.error_code == 0
    described: DescribedGroup = answer
    return described
