"""DescribeConfigs: all keys of a resource with their sources, or why there are none."""

from __future__ import annotations

import pytest

from pyk.config.broker import BROKER_KEYS
from pyk.config.description import Source
from pyk.config.topic import TOPIC_KEYS
from pyk.config.values import ValueType
from pyk.errors import ErrorCode
from pyk.handlers import describe_configs
from pyk.handlers.config_resources import ResourceType
from pyk.handlers.context import Context
from pyk.metadata.controller import set_broker_config, set_broker_defaults
from pyk.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from tests.handlers.brokers import NODE_ID, ask, create, open_context

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
VERSIONS = range(1, 5)


def resource(
    resource_type: int, name: str, keys: list[str] | None = None
) -> DescribeConfigsResource:
    return DescribeConfigsResource(
        resource_type=resource_type, resource_name=name, configuration_keys=keys
    )


async def answered(
    broker: Context,
    *resources: DescribeConfigsResource,
    version: int = 4,
    synonyms: bool = False,
    documentation: bool = False,
) -> list[DescribeConfigsResult]:
    request = DescribeConfigsRequest(
        resources=list(resources),
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    response = await ask(describe_configs.handle, describe_configs.refuse, request, broker, version)
    return response.results


async def found(
    broker: Context, asked: DescribeConfigsResource, *, synonyms: bool = False
) -> dict[str, DescribeConfigsResourceResult]:
    [result] = await answered(broker, asked, synonyms=synonyms)
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, "")
    return {config.name: config for config in result.configs}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("keys", [None, []], ids=["null", "empty"])
async def test_no_keys_are_all_keys(broker: Context, version: int, keys: list[str] | None) -> None:
    await create(broker, "orders", configs={"retention.ms": "5000"})
    [result] = await answered(broker, resource(TOPIC, "orders", keys), version=version)
    assert {config.name for config in result.configs} == set(TOPIC_KEYS)
    assert (result.resource_type, result.resource_name) == (TOPIC, "orders")


async def test_keys_that_are_not_there_are_left_out(broker: Context) -> None:
    await create(broker, "orders", configs={"retention.ms": "5000"})
    keys = ["segment.ms", "nope", "retention.ms", "retention.ms"]
    configs = await found(broker, resource(TOPIC, "orders", keys))
    assert set(configs) == {"segment.ms", "retention.ms"}
    assert configs["retention.ms"].value == "5000"
    assert configs["retention.ms"].config_source == Source.DYNAMIC_TOPIC_CONFIG
    assert configs["retention.ms"].config_type == ValueType.LONG
    assert configs["segment.ms"].config_source == Source.DEFAULT_CONFIG


async def test_synonyms_are_told_to_who_asks(broker: Context) -> None:
    await create(broker, "orders", configs={"max.message.bytes": "5000"})
    asked = resource(TOPIC, "orders", ["max.message.bytes"])
    assert (await found(broker, asked))["max.message.bytes"].synonyms == []
    shown = (await found(broker, asked, synonyms=True))["max.message.bytes"].synonyms
    assert [(each.name, each.value, each.source) for each in shown] == [
        ("max.message.bytes", "5000", Source.DYNAMIC_TOPIC_CONFIG),
        ("message.max.bytes", "1048588", Source.DEFAULT_CONFIG),
    ]


@pytest.mark.parametrize("version", [3, 4])
async def test_documentation_is_told_to_who_asks(broker: Context, version: int) -> None:
    await create(broker, "orders")
    asked = resource(TOPIC, "orders", ["retention.ms"])
    [without] = await answered(broker, asked, version=version)
    assert without.configs[0].documentation is None
    [with_it] = await answered(broker, asked, version=version, documentation=True)
    assert with_it.configs[0].documentation == TOPIC_KEYS["retention.ms"].documentation


async def test_a_broker_has_its_own_keys(broker: Context) -> None:
    configs = await found(broker, resource(BROKER, str(NODE_ID)))
    assert set(configs) == set(BROKER_KEYS)
    assert (configs["node.id"].value, configs["node.id"].read_only) == ("1", True)
    assert configs["node.id"].config_source == Source.STATIC_BROKER_CONFIG


async def test_what_was_changed_is_shown_at_once(broker: Context) -> None:
    name = "log.cleaner.threads"
    await broker.mirror.carry_out(lambda image: set_broker_defaults(image, {name: "2"}))
    configs = await found(broker, resource(BROKER, "1", [name]))
    assert configs[name].config_source == Source.DYNAMIC_DEFAULT_BROKER_CONFIG
    await broker.mirror.carry_out(lambda image: set_broker_config(image, NODE_ID, {name: "3"}))
    configs = await found(broker, resource(BROKER, "1", [name]))
    assert configs[name].value == "3"
    assert configs[name].config_source == Source.DYNAMIC_BROKER_CONFIG


async def test_a_broker_without_a_name_is_what_is_set_for_all(broker: Context) -> None:
    assert await found(broker, resource(BROKER, "")) == {}
    values = {"log.cleaner.threads": "2"}
    await broker.mirror.carry_out(lambda image: set_broker_defaults(image, values))
    assert set(await found(broker, resource(BROKER, ""))) == {"log.cleaner.threads"}


async def test_secrets_are_not_shown() -> None:
    async with open_context({"ssl.key.password": "secret"}) as broker:
        configs = await found(broker, resource(BROKER, "1", ["ssl.key.password"]), synonyms=True)
        shown = configs["ssl.key.password"]
        assert (shown.value, shown.is_sensitive) == (None, True)
        assert {synonym.value for synonym in shown.synonyms} == {None}


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (ResourceType.BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_described_is_refused(
    broker: Context, resource_type: int, name: str, code: ErrorCode
) -> None:
    [refused] = await answered(broker, resource(resource_type, name))
    assert (refused.resource_type, refused.resource_name) == (resource_type, name)
    assert (refused.error_code, refused.configs) == (code, [])
    assert bool(refused.error_message) == (code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


async def test_a_resource_that_is_there_twice_is_answered_twice(broker: Context) -> None:
    await create(broker, "orders")
    asked = [resource(TOPIC, "orders", [key]) for key in ("retention.ms", "segment.ms")]
    results = await answered(broker, asked[0], resource(TOPIC, "nope"), asked[1])
    assert [[config.name for config in result.configs] for result in results] == [
        ["retention.ms"],
        [],
        ["segment.ms"],
    ]


async def test_loggers_have_levels(broker: Context) -> None:
    configs = await found(broker, resource(ResourceType.BROKER_LOGGER, "1"))
    assert {"root", "pyk.metadata.mirror"} <= set(configs)
    root = (await found(broker, resource(ResourceType.BROKER_LOGGER, "1", ["root"])))["root"]
    assert (root.value, root.config_source, root.documentation) == ("WARN", 6, "")
    assert (root.read_only, root.config_type) == (False, ValueType.UNKNOWN)


@pytest.mark.parametrize(
    ("kind", "key", "default"),
    [
        (ResourceType.GROUP, "consumer.session.timeout.ms", "45000"),
        (ResourceType.CLIENT_METRICS, "interval.ms", "300000"),
    ],
)
async def test_groups_and_subscriptions_have_defaults_before_they_exist(
    broker: Context, kind: int, key: str, default: str
) -> None:
    [nobody, unnamed] = await answered(broker, resource(kind, "nobody", [key]), resource(kind, ""))
    assert [(each.name, each.value) for each in nobody.configs] == [(key, default)]
    assert (nobody.error_code, unnamed.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("name", [" 1", "1 ", "x", "1.0", "99999999999"])
async def test_a_brokers_number_is_written_as_one(broker: Context, name: str) -> None:
    [answer] = await answered(broker, resource(BROKER, name))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
