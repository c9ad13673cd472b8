"""IncrementalAlterConfigs: single values change, and the others stay."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TypeAlias

import pytest

from pyk.config.changes import Operation
from pyk.errors import ErrorCode
from pyk.handlers import incremental_alter_configs
from pyk.handlers.config_resources import ResourceType
from pyk.handlers.context import Context
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
)
from tests.handlers.brokers import NODE_ID, ask, create

TOPIC, BROKER, LOGGERS, METRICS, GROUP = ResourceType
SET, DELETE, APPEND, SUBTRACT = Operation

Change: TypeAlias = tuple[str, int, str | None]
THREADS: Change = ("log.cleaner.threads", SET, "2")


def resource(resource_type: int, name: str, *changes: Change) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ],
    )


async def answered(
    broker: Context,
    *resources: AlterConfigsResource,
    version: int = 1,
    validate_only: bool = False,
) -> list[AlterConfigsResourceResponse]:
    request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
    response = await ask(
        incremental_alter_configs.handle,
        incremental_alter_configs.refuse,
        request,
        broker,
        version,
    )
    return response.responses


async def code_of(broker: Context, resource_type: int, name: str, *changes: Change) -> int:
    [answer] = await answered(broker, resource(resource_type, name, *changes))
    assert (answer.resource_type, answer.resource_name) == (resource_type, name)
    assert bool(answer.error_code) == bool(answer.error_message)
    return answer.error_code


@pytest.mark.parametrize("version", range(2))
async def test_values_are_set_and_deleted(broker: Context, version: int) -> None:
    await create(broker, "orders", configs={"retention.ms": "5000", "segment.ms": "7000"})
    changes: list[Change] = [("flush.ms", SET, "9"), ("segment.ms", DELETE, None)]
    [answer] = await answered(broker, resource(TOPIC, "orders", *changes), version=version)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    values = broker.image.topic_config("orders").values
    assert values == {"retention.ms": "5000", "flush.ms": "9"}


async def test_lists_are_appended_to_and_subtracted_from(broker: Context) -> None:
    await create(broker, "orders")
    await code_of(broker, TOPIC, "orders", ("cleanup.policy", APPEND, "compact"))
    assert broker.image.topic_config("orders").values == {"cleanup.policy": "delete,compact"}
    await code_of(broker, TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete"))
    assert broker.image.topic_config("orders").values == {"cleanup.policy": "compact"}


async def test_what_is_only_validated_stays_as_it_is(broker: Context) -> None:
    await create(broker, "orders")
    before = broker.image
    asked = resource(TOPIC, "orders", ("segment.ms", SET, "3000"))
    [answer] = await answered(broker, asked, validate_only=True)
    assert answer.error_code == ErrorCode.NONE
    assert broker.image is before


async def test_a_broker_and_all_brokers_have_their_layers(broker: Context) -> None:
    await answered(broker, resource(BROKER, "1", THREADS), resource(BROKER, "", THREADS))
    assert broker.image.broker_config(NODE_ID).values == {"log.cleaner.threads": "2"}
    assert broker.image.broker_defaults.values == {"log.cleaner.threads": "2"}
    await code_of(broker, BROKER, "1", ("log.cleaner.threads", DELETE, None))
    assert broker.image.broker_config(NODE_ID).values == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("segment.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("cleanup.policy", APPEND, None), ErrorCode.INVALID_REQUEST),
        (("segment.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("segment.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (("nope", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("nope", DELETE, None), ErrorCode.NONE),
    ],
)
async def test_a_change_of_a_topic_is_refused(
    broker: Context, change: Change, code: ErrorCode
) -> None:
    await create(broker, "orders")
    assert await code_of(broker, TOPIC, "orders", change) == code
    assert broker.image.topic_config("orders").values == {}


@pytest.mark.parametrize("operation", [9, -1])
async def test_an_unknown_operation_is_a_bad_request(broker: Context, operation: int) -> None:
    """Kafka says UNKNOWN_SERVER_ERROR, though it is the client who erred."""
    await create(broker, "orders")
    code = await code_of(broker, TOPIC, "orders", ("segment.ms", operation, "1"))
    assert code == ErrorCode.INVALID_REQUEST


async def test_a_key_that_is_there_twice_is_refused(broker: Context) -> None:
    await create(broker, "orders")
    changes: list[Change] = [("segment.ms", SET, "1000"), ("segment.ms", DELETE, None)]
    assert await code_of(broker, TOPIC, "orders", *changes) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("resource_type", "name", "code"),
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_REQUEST),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGERS, "2", ErrorCode.INVALID_REQUEST),
        (LOGGERS, "", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_is_not_there_cannot_change(
    broker: Context, resource_type: int, name: str, code: ErrorCode
) -> None:
    assert await code_of(broker, resource_type, name) == code


async def test_no_changes_are_no_fault(broker: Context) -> None:
    await create(broker, "orders")
    assert await code_of(broker, TOPIC, "orders") == ErrorCode.NONE


async def test_a_resource_that_is_there_twice_is_refused_twice(broker: Context) -> None:
    await create(broker, "orders")
    await create(broker, "parcels")
    change: Change = ("segment.ms", SET, "1000")
    answers = await answered(
        broker,
        resource(TOPIC, "orders"),
        resource(TOPIC, "orders", change),
        resource(TOPIC, "parcels", change),
    )
    codes = [answer.error_code for answer in answers]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert broker.image.topic_config("orders").values == {}


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    it = logging.getLogger("tests.handlers")
    yield it
    it.setLevel(logging.NOTSET)


async def test_a_logger_is_given_a_level_and_loses_it(
    broker: Context, logger: logging.Logger
) -> None:
    change: Change = (logger.name, SET, "DEBUG")
    await answered(broker, resource(LOGGERS, "1", change), validate_only=True)
    assert logger.level == logging.NOTSET
    assert await code_of(broker, LOGGERS, "1", change) == ErrorCode.NONE
    assert logger.level == logging.DEBUG
    assert await code_of(broker, LOGGERS, "1", (logger.name, DELETE, None)) == ErrorCode.NONE
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("tests.handlers", SET, "info"), ErrorCode.INVALID_CONFIG),
        (("nope", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("nope", DELETE, None), ErrorCode.INVALID_CONFIG),
        (("tests.handlers", SET, None), ErrorCode.INVALID_REQUEST),
        (("tests.handlers", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_a_level_is_refused(
    broker: Context, logger: logging.Logger, change: Change, code: ErrorCode
) -> None:
    good: Change = (logger.name, SET, "ERROR")
    changes = [change] if change[0] == logger.name else [good, change]
    assert await code_of(broker, LOGGERS, "1", *changes) == code
    assert logger.level == logging.NOTSET
    assert await code_of(broker, LOGGERS, "1", good, good) == ErrorCode.INVALID_REQUEST


async def test_a_group_is_configured_before_it_exists(broker: Context) -> None:
    session = "consumer.session.timeout.ms"
    assert await code_of(broker, GROUP, "readers", (session, SET, "50000")) == ErrorCode.NONE
    assert broker.image.group_config("readers").values == {session: "50000"}
    assert await code_of(broker, GROUP, "readers", (session, SET, "1")) == ErrorCode.INVALID_CONFIG
    assert await code_of(broker, GROUP, "readers", (session, DELETE, None)) == ErrorCode.NONE
    assert broker.image.configured_groups == []


async def test_metrics_are_subscribed_to(broker: Context) -> None:
    changes: list[Change] = [("interval.ms", SET, "1000"), ("match", SET, "client_id=a.*")]
    assert await code_of(broker, METRICS, "a/b", *changes) == ErrorCode.NONE
    assert broker.image.client_metrics == ["a/b"]
    stored = broker.image.client_metrics_config("a/b").values
    assert stored == {"interval.ms": "1000", "match": "client_id=a.*"}


@pytest.mark.parametrize("kind", [GROUP, METRICS])
async def test_what_is_configured_by_name_has_one(broker: Context, kind: int) -> None:
    assert await code_of(broker, kind, "") == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("name", ["", "a b"])
async def test_a_request_is_looked_at_before_the_name(broker: Context, name: str) -> None:
    append: Change = ("retention.ms", APPEND, "5")
    assert await code_of(broker, TOPIC, name, append) == ErrorCode.INVALID_CONFIG
    twice: Change = ("retention.ms", SET, "5")
    assert await code_of(broker, TOPIC, name, twice, twice) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("kind", [GROUP, METRICS])
async def test_only_topics_and_brokers_have_lists_to_append_to(broker: Context, kind: int) -> None:
    change: Change = ("metrics", APPEND, "org.apache")
    assert await code_of(broker, kind, "all", change) == ErrorCode.INVALID_CONFIG
