"""What a request names again and again is answered for as often, and is in memory once."""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import Any

import pytest

from pyk.handlers import (
    consumer_group_describe,
    describe_configs,
    describe_groups,
    describe_share_group_offsets,
    offset_fetch,
    share_group_describe,
)
from pyk.handlers.config_resources import ResourceType
from pyk.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pyk.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pyk.wire.messages.describe_groups import DescribeGroupsRequest
from pyk.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from pyk.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from pyk.wire.messages.share_group_describe import ShareGroupDescribeRequest
from tests.coordinator.test_group_coordinator import TOPIC, begin, commit, find
from tests.handlers.brokers import NODE_ID, call, open_context

GROUP, TIMES = "readers", 50


def configs_of(kind: ResourceType, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return DescribeConfigsRequest(resources=[resource] * TIMES)


CASES: dict[str, tuple[Any, int, Any, Callable[[Any], list[Any]]]] = {
    "OffsetFetch": (
        offset_fetch.handle,
        9,
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)] * TIMES),
        lambda response: [group.topics for group in response.groups],
    ),
    "DescribeGroups": (
        describe_groups.handle,
        6,
        DescribeGroupsRequest(groups=[GROUP] * TIMES),
        lambda response: [group.members for group in response.groups],
    ),
    "ConsumerGroupDescribe": (
        consumer_group_describe.handle,
        1,
        ConsumerGroupDescribeRequest(
            group_ids=[GROUP] * TIMES, include_authorized_operations=False
        ),
        lambda response: [group.members for group in response.groups],
    ),
    "ShareGroupDescribe": (
        share_group_describe.handle,
        1,
        ShareGroupDescribeRequest(group_ids=[GROUP] * TIMES, include_authorized_operations=False),
        lambda response: [group.members for group in response.groups],
    ),
    "DescribeShareGroupOffsets": (
        describe_share_group_offsets.handle,
        1,
        DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=GROUP, topics=None)] * TIMES
        ),
        lambda response: [group.topics for group in response.groups],
    ),
    **{
        f"DescribeConfigs of {kind.name}": (
            describe_configs.handle,
            4,
            configs_of(kind, name),
            lambda response: [result.configs for result in response.results],
        )
        for kind, name in {
            ResourceType.TOPIC: TOPIC,
            ResourceType.BROKER: str(NODE_ID),
            ResourceType.BROKER_LOGGER: str(NODE_ID),
            ResourceType.GROUP: GROUP,
        }.items()
    },
}


@pytest.mark.parametrize("flush_interval", [1, 2**63 - 1])
@pytest.mark.parametrize(
    ("handle", "version", "request_", "lists"), CASES.values(), ids=CASES.keys()
)
async def test_there_is_one_list_for_all_answers(
    handle: Any,
    version: int,
    request_: Any,
    lists: Callable[[Any], list[Any]],
    flush_interval: int,
) -> None:
    static = {"log.flush.interval.messages": str(flush_interval)}
    async with open_context(static) as broker:
        await begin(broker)
        await find(broker, GROUP)
        await commit(broker, 5, GROUP)
        response = handle(request_, call(version), broker)
        if isawaitable(response):
            response = await response
        found = lists(response)
        assert len(found) == TIMES
        assert {id(each) for each in found} == {id(found[0])}
