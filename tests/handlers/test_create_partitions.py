"""CreatePartitions: a topic grows, and never shrinks."""

from __future__ import annotations

import pytest

from pyk.errors import ErrorCode
from pyk.handlers import create_partitions
from pyk.handlers.context import Context
from pyk.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from tests.handlers.brokers import ask, create, produce


def topic(
    name: str, count: int, assignments: list[list[int]] | None = None
) -> CreatePartitionsTopic:
    chosen = None
    if assignments is not None:
        chosen = [CreatePartitionsAssignment(broker_ids=replicas) for replicas in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=chosen)


async def answered(
    broker: Context,
    *topics: CreatePartitionsTopic,
    version: int = 3,
    timeout_ms: int = 5000,
    validate_only: bool = False,
) -> list[CreatePartitionsTopicResult]:
    request = CreatePartitionsRequest(
        topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only
    )
    response = await ask(
        create_partitions.handle, create_partitions.refuse, request, broker, version
    )
    return response.results


def count_of(broker: Context, name: str) -> int:
    return len(broker.topic_named(name).partitions)


@pytest.mark.parametrize("version", range(4))
async def test_new_partitions_can_be_written_at_once(broker: Context, version: int) -> None:
    made = await create(broker, "orders")
    [answer] = await answered(broker, topic("orders", 3), version=version)
    assert (answer.name, answer.error_code, answer.error_message) == ("orders", 0, None)
    assert produce(broker, "orders", 1, partition=2) == 0
    assert broker.topic_named("orders").topic_id == made.topic_id


async def test_what_is_only_validated_stays_as_it_is(broker: Context) -> None:
    await create(broker, "orders")
    good, bad = await answered(broker, topic("orders", 3), topic("nope", 2), validate_only=True)
    assert (good.name, good.error_code) == ("orders", ErrorCode.NONE)
    assert bad.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert count_of(broker, "orders") == 1


@pytest.mark.parametrize("count", [2, 1, 0, -1])
async def test_a_topic_only_grows(broker: Context, count: int) -> None:
    await create(broker, "orders", 2)
    [answer] = await answered(broker, topic("orders", count))
    assert answer.error_code == ErrorCode.INVALID_PARTITIONS
    assert answer.error_message
    assert count_of(broker, "orders") == 2


async def test_of_an_unknown_topic_kafka_says_no_more_than_that(broker: Context) -> None:
    [answer] = await answered(broker, topic("nope", 3))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_message is None


async def test_a_name_that_is_there_twice_is_refused_once(broker: Context) -> None:
    await create(broker, "twice")
    await create(broker, "once")
    answers = await answered(broker, topic("twice", 2), topic("once", 2), topic("twice", 3))
    assert [(each.name, each.error_code) for each in answers] == [
        ("twice", ErrorCode.INVALID_REQUEST),
        ("once", ErrorCode.NONE),
    ]
    assert count_of(broker, "twice") == 1


@pytest.mark.parametrize(
    ("assignments", "code"),
    [
        ([[1], [1]], ErrorCode.NONE),
        ([[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([[1], [7]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
async def test_replicas_may_be_chosen_by_the_client(
    broker: Context, assignments: list[list[int]], code: ErrorCode
) -> None:
    await create(broker, "orders")
    [answer] = await answered(broker, topic("orders", 3, assignments))
    assert answer.error_code == code
    assert count_of(broker, "orders") == (1 if code else 3)


async def test_without_time_nothing_is_done(broker: Context) -> None:
    await create(broker, "orders")
    [answer] = await answered(broker, topic("orders", 3), timeout_ms=0)
    assert (answer.error_code, answer.error_message) == (ErrorCode.REQUEST_TIMED_OUT, None)
    assert count_of(broker, "orders") == 1
