"""A share group from outside: its terms, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyk.wire.apis import ApiKey
from pyk.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponsePartition,
)
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.clients.raw import RawClient

GROUP_RESOURCE: Final = 32


def set_terms(address: str, group: str, terms: Mapping[str, str]) -> None:
    configs = [
        AlterableConfig(name=name, config_operation=0, value=value) for name, value in terms.items()
    ]
    resource = AlterConfigsResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=configs
    )
    with RawClient(address) as raw:
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        answer = raw.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
    assert [each.error_code for each in answer.responses] == [0], answer


def positions(
    address: str, group: str, topic: str, partitions: int
) -> list[DescribeShareGroupOffsetsResponsePartition]:
    wanted = DescribeShareGroupOffsetsRequestTopic(
        topic_name=topic, partitions=list(range(partitions))
    )
    asked = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=[wanted])
    with RawClient(address) as raw:
        answer = raw.ask(
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, DescribeShareGroupOffsetsRequest(groups=[asked])
        )
    return [each for found in answer.groups for of in found.topics for each in of.partitions]
