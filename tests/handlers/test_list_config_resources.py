"""ListConfigResources: the names of what can be configured, by type."""

from __future__ import annotations

from functools import partial

import pytest

from pyk.errors import ErrorCode
from pyk.handlers import list_config_resources
from pyk.handlers.config_resources import ResourceType
from pyk.handlers.context import Context
from pyk.metadata.controller import set_client_metrics_config, set_group_config
from pyk.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.handlers.brokers import ask, create

TOPIC, BROKER, LOGGERS, METRICS, GROUP = ResourceType


async def answered(broker: Context, *types: int, version: int = 1) -> ListConfigResourcesResponse:
    request = ListConfigResourcesRequest(resource_types=list(types))
    return await ask(
        list_config_resources.handle, list_config_resources.refuse, request, broker, version
    )


async def names(broker: Context, *types: int) -> list[tuple[int, str]]:
    response = await answered(broker, *types)
    assert response.error_code == ErrorCode.NONE
    return [(each.resource_type, each.resource_name) for each in response.config_resources]


async def test_no_types_are_all_types(broker: Context) -> None:
    await create(broker, "orders")
    assert await names(broker) == [(TOPIC, "orders"), (BROKER, "1"), (LOGGERS, "1")]


async def test_a_type_that_is_there_twice_is_answered_once(broker: Context) -> None:
    await create(broker, "orders")
    await create(broker, "parcels")
    assert await names(broker, TOPIC, TOPIC) == [(TOPIC, "orders"), (TOPIC, "parcels")]
    assert await names(broker, BROKER) == [(BROKER, "1")]


@pytest.mark.parametrize("types", [(0,), (3,), (99,), (TOPIC, 99)])
async def test_an_unknown_type_refuses_the_request(broker: Context, types: tuple[int, ...]) -> None:
    await create(broker, "orders")
    response = await answered(broker, *types)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert response.config_resources == []


async def test_groups_and_subscriptions_are_listed_while_they_are_configured(
    broker: Context,
) -> None:
    for kind, name, values in (
        (set_group_config, "readers", {"share.isolation.level": "read_committed"}),
        (set_client_metrics_config, "all", {"interval.ms": "1000"}),
    ):
        await broker.mirror.carry_out(partial(kind, name=name, values=values))
    assert await names(broker, METRICS, GROUP) == [(METRICS, "all"), (GROUP, "readers")]
    response = await answered(broker, version=0)
    assert [each.resource_name for each in response.config_resources] == ["all"]
    await broker.mirror.carry_out(partial(set_group_config, name="readers", values={}))
    assert await names(broker, GROUP) == []


async def test_the_first_version_was_for_client_metrics_only(broker: Context) -> None:
    await create(broker, "orders")
    response = await answered(broker, version=0)
    assert (response.error_code, response.config_resources) == (ErrorCode.NONE, [])
