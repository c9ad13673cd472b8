"""What is asked of a broker about a share group, and not by its members."""

from __future__ import annotations

from typing import NamedTuple

from pyk.wire.apis import ApiKey
from pyk.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pyk.wire.messages.share_group_describe import ShareGroupDescribeRequest
from tests.clients.groups.coordinator import when_loaded
from tests.clients.groups.programs.member import Partition


class Progress(NamedTuple):
    start_offset: int
    """The first that is not done with. -1 if nobody has read anything."""
    lag: int


def progress(address: str, group: str) -> dict[Partition, Progress]:
    """How far a group is with all partitions that it has begun with."""
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    request = DescribeShareGroupOffsetsRequest(groups=[asked])
    found = when_loaded(address, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, request, "groups")
    return {
        Partition(topic.topic_name, each.partition_index): Progress(each.start_offset, each.lag)
        for topic in found.topics
        for each in topic.partitions
        if each.error_code == 0
    }


def assignments(address: str, group: str) -> list[set[Partition]]:
    """What each member of a group has been given."""
    request = ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)
    found = when_loaded(address, ApiKey.SHARE_GROUP_DESCRIBE, 1, request, "groups")
    return [
        {
            Partition(topic.topic_name, number)
            for topic in member.assignment.topic_partitions
            for number in topic.partitions
        }
        for member in found.members
    ]
