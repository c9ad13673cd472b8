"""What is asked of a broker about a share group, and not by its members."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from pyk.wire.apis import ApiKey
from pyk.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pyk.wire.messages.share_group_describe import ShareGroupDescribeRequest
from tests.clients.groups.coordinator import LOAD_SECONDS, LOADING, RESOURCE_GROUP, SET
from tests.clients.groups.programs.member import Partition
from tests.clients.raw import RawClient


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


class Progress(NamedTuple):
    start_offset: int
    """The first that is not done with. -1 if nobody has read anything."""
    lag: int


def progress(address: str, group: str) -> dict[Partition, Progress]:
    """How far a group is with all partitions that it has begun with."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[asked])
    deadline = time.monotonic() + LOAD_SECONDS
    with RawClient(address) as raw:
        while True:
            (found,) = raw.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request).groups
            if found.error_code not in LOADING or time.monotonic() > deadline:
                break
    assert found.error_code == 0, found
    return {
        Partition(topic.topic_name, each.partition_index): Progress(each.start_offset, each.lag)
        for topic in found.topics
        for each in topic.partitions
        if each.error_code == 0
    }


def assignments(address: str, group: str) -> list[set[Partition]]:
    """What each member of a group has been given."""
    request = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    deadline = time.monotonic() + LOAD_SECONDS
    with RawClient(address) as raw:
        while True:
            (found,) = raw.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, request).groups
            if found.error_code not in LOADING or time.monotonic() > deadline:
                break
    assert found.error_code == 0, found
    return [
        {
            Partition(topic.topic_name, number)
            for topic in member.assignment.topic_partitions
            for number in topic.partitions
        }
        for member in found.members
    ]
