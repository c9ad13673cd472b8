"""AlterConfigs: what a resource has of its own becomes what is sent, and nothing else."""

from __future__ import annotations

import pytest

from pyk.errors import ErrorCode
from pyk.handlers import alter_configs
from pyk.handlers.config_resources import ResourceType
from pyk.handlers.context import Context
from pyk.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
)
from tests.handlers.brokers import NODE_ID, ask, create

TOPIC, BROKER = ResourceType.TOPIC, ResourceType.BROKER
THREADS = ("log.cleaner.threads", "2")


def resource(
    resource_type: int, name: str, *configs: tuple[str, str | None]
) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[AlterableConfig(name=key, value=value) for key, value in configs],
    )


async def answered(
    broker: Context,
    *resources: AlterConfigsResource,
    version: int = 2,
    validate_only: bool = False,
) -> list[AlterConfigsResourceResponse]:
    request = AlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    response = await ask(alter_configs.handle, alter_configs.refuse, request, broker, version)
    return response.responses


async def code_of(broker: Context, asked: AlterConfigsResource) -> int:
    [answer] = await answered(broker, asked)
    assert bool(answer.error_code) == bool(answer.error_message)
    return answer.error_code


@pytest.mark.parametrize("version", range(3))
async def test_what_is_not_sent_is_forgotten(broker: Context, version: int) -> None:
    await create(broker, "orders", configs={"retention.ms": "5000"})
    asked = resource(TOPIC, "orders", ("segment.ms", "1000"))
    [answer] = await answered(broker, asked, version=version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    assert (answer.resource_type, answer.resource_name) == (TOPIC, "orders")
    assert broker.image.topic_config("orders").values == {"segment.ms": "1000"}
    await answered(broker, resource(TOPIC, "orders"), version=version)
    assert broker.image.topic_config("orders").values == {}


async def test_what_is_only_validated_stays_as_it_is(broker: Context) -> None:
    await create(broker, "orders")
    before = broker.image
    good, bad = await answered(
        broker,
        resource(TOPIC, "orders", ("segment.ms", "1000")),
        resource(BROKER, "1", ("node.id", "2")),
        validate_only=True,
    )
    assert (good.error_code, bad.error_code) == (ErrorCode.NONE, ErrorCode.INVALID_REQUEST)
    assert broker.image is before


async def test_one_refusal_does_not_stop_the_others(broker: Context) -> None:
    await create(broker, "orders")
    await create(broker, "parcels")
    answers = await answered(
        broker,
        resource(TOPIC, "orders", ("segment.ms", "x")),
        resource(TOPIC, "parcels", ("segment.ms", "1000")),
        resource(BROKER, "", THREADS),
    )
    codes = [answer.error_code for answer in answers]
    assert codes == [ErrorCode.INVALID_CONFIG, ErrorCode.NONE, ErrorCode.NONE]
    assert broker.image.topic_config("orders").values == {}
    assert broker.image.topic_config("parcels").values == {"segment.ms": "1000"}
    assert broker.image.broker_defaults.values == {"log.cleaner.threads": "2"}


async def test_a_brokers_configuration_takes_effect(broker: Context) -> None:
    assert await code_of(broker, resource(BROKER, "1", THREADS)) == ErrorCode.NONE
    assert broker.image.broker_config(NODE_ID).values == {"log.cleaner.threads": "2"}
    assert await code_of(broker, resource(BROKER, "1")) == ErrorCode.NONE
    assert broker.image.broker_config(NODE_ID).values == {}


async def test_a_key_that_nobody_knows_is_kept_for_a_broker(broker: Context) -> None:
    assert await code_of(broker, resource(BROKER, "1", ("nope", "2"))) == ErrorCode.NONE
    assert broker.image.broker_config(NODE_ID).values == {"nope": "2"}


@pytest.mark.parametrize(
    ("name", "configs", "code"),
    [
        ("orders", [("segment.ms", None)], ErrorCode.INVALID_REQUEST),
        ("orders", [("segment.ms", "1"), ("segment.ms", "2")], ErrorCode.INVALID_REQUEST),
        ("orders", [("nope", "1")], ErrorCode.INVALID_CONFIG),
        ("orders", [("segment.ms", "x")], ErrorCode.INVALID_CONFIG),
        ("nope", [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nope", [("segment.ms", "x")], ErrorCode.INVALID_CONFIG),
        ("a b", [("segment.ms", "x")], ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("", [], ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_topic_refuses(
    broker: Context, name: str, configs: list[tuple[str, str | None]], code: ErrorCode
) -> None:
    await create(broker, "orders")
    assert await code_of(broker, resource(TOPIC, name, *configs)) == code


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("1", ("node.id", "2")),
        ("1", ("log.cleaner.threads", "x")),
        ("2", THREADS),
        ("x", THREADS),
        ("01", THREADS),
        ("", ("listeners", "PLAINTEXT://:1")),
    ],
)
async def test_a_broker_refuses(broker: Context, name: str, config: tuple[str, str]) -> None:
    assert await code_of(broker, resource(BROKER, name, config)) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("resource_type", [0, 3, ResourceType.BROKER_LOGGER, 99])
async def test_other_resources_are_unknown(broker: Context, resource_type: int) -> None:
    assert await code_of(broker, resource(resource_type, "1")) == ErrorCode.INVALID_REQUEST


async def test_a_resource_that_is_there_twice_is_refused_twice(broker: Context) -> None:
    """Kafka never answers this one."""
    await create(broker, "orders")
    await create(broker, "parcels")
    twice = resource(TOPIC, "orders", ("segment.ms", "1000"))
    answers = await answered(broker, twice, resource(TOPIC, "parcels"), twice)
    codes = [answer.error_code for answer in answers]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert broker.image.topic_config("orders").values == {}
