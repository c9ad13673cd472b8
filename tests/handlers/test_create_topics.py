"""CreateTopics: what is made, and what is said of what is not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pyk.config.description import Source
from pyk.config.topic import TOPIC_KEYS
from pyk.errors import ErrorCode
from pyk.handlers import create_topics
from pyk.handlers.context import Context
from pyk.metadata.controller import set_broker_defaults
from pyk.types import ZERO_UUID
from pyk.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from tests.handlers.brokers import ask, open_context

VERSIONS = range(2, 8)


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    *,
    assignments: Sequence[tuple[int, list[int]]] = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=number, broker_ids=replicas)
            for number, replicas in assignments
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


async def answered(
    broker: Context,
    *topics: CreatableTopic,
    version: int = 7,
    timeout_ms: int = 5000,
    validate_only: bool = False,
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(
        topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only
    )
    response = await ask(create_topics.handle, create_topics.refuse, request, broker, version)
    return response.topics


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_topic_is_there_when_the_answer_is(broker: Context, version: int) -> None:
    [made] = await answered(broker, topic("orders", 3), version=version)
    assert (made.name, made.error_code, made.error_message) == ("orders", ErrorCode.NONE, None)
    assert len(broker.topic_named("orders").partitions) == 3
    assert broker.leader_of("orders", 2).offsets.end == 0


async def test_the_answer_has_the_id_the_numbers_and_all_configs(broker: Context) -> None:
    [made] = await answered(broker, topic("orders", 3, configs=[("retention.ms", "5000")]))
    assert made.topic_id == broker.topic_named("orders").topic_id
    assert (made.num_partitions, made.replication_factor) == (3, 1)
    assert made.topic_config_error_code == ErrorCode.NONE
    assert made.configs is not None
    assert [config.name for config in made.configs] == sorted(TOPIC_KEYS)
    shown = {config.name: config for config in made.configs}
    assert shown["retention.ms"].value == "5000"
    assert shown["retention.ms"].config_source == Source.DYNAMIC_TOPIC_CONFIG
    assert shown["segment.ms"].config_source == Source.DEFAULT_CONFIG
    assert not shown["segment.ms"].read_only
    assert broker.image.topic_config("orders").values == {"retention.ms": "5000"}


async def test_values_are_shown_as_they_were_written(broker: Context) -> None:
    policy = ("cleanup.policy", "delete, compact")
    [made] = await answered(broker, topic("orders", configs=[policy]))
    assert made.configs is not None
    assert policy in [(each.name, each.value) for each in made.configs]


@pytest.mark.parametrize("version", [3, 4, 7])
async def test_minus_one_is_what_the_broker_is_configured_with(version: int) -> None:
    """Kafka takes it also before v4, in which KIP-464 brought it."""
    async with open_context({"num.partitions": "5"}) as broker:
        await answered(broker, topic("orders", -1, -1), version=version)
        assert len(broker.topic_named("orders").partitions) == 5


async def test_the_defaults_are_those_of_this_moment(broker: Context) -> None:
    values = {"log.retention.ms": "7000"}
    await broker.mirror.carry_out(lambda image: set_broker_defaults(image, values))
    [made] = await answered(broker, topic("orders"))
    shown = {config.name: config for config in made.configs or ()}
    assert shown["retention.ms"].value == "7000"
    assert shown["retention.ms"].config_source == Source.DYNAMIC_DEFAULT_BROKER_CONFIG


async def test_what_is_only_validated_is_answered_as_if_it_were_made(broker: Context) -> None:
    before = broker.image
    good, bad = await answered(broker, topic("good", 3), topic("a b"), validate_only=True)
    assert (good.error_code, good.num_partitions) == (ErrorCode.NONE, 3)
    assert good.topic_id != ZERO_UUID
    assert good.configs
    assert bad.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert broker.image is before


async def test_a_refusal_has_no_id_no_numbers_and_no_configs(broker: Context) -> None:
    await answered(broker, topic("orders"))
    [refused] = await answered(broker, topic("orders"))
    assert refused.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert refused.error_message == "Topic 'orders' already exists."
    assert refused.topic_id == ZERO_UUID
    assert (refused.num_partitions, refused.replication_factor) == (-1, -1)
    assert refused.configs == []


async def test_one_refusal_does_not_stop_the_others(broker: Context) -> None:
    answers = await answered(broker, topic("a b"), topic("good"), topic("zero", 0))
    assert [(each.name, each.error_code) for each in answers] == [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("good", ErrorCode.NONE),
        ("zero", ErrorCode.INVALID_PARTITIONS),
    ]
    assert set(broker.image.topics) == {"good"}


async def test_a_name_that_is_there_twice_is_refused_once(broker: Context) -> None:
    answers = await answered(broker, topic("twice"), topic("good"), topic("twice", 2))
    assert [(each.name, each.error_code) for each in answers] == [
        ("good", ErrorCode.NONE),
        ("twice", ErrorCode.INVALID_REQUEST),
    ]


@pytest.mark.parametrize(
    "configs",
    [[("nope", "1")], [("retention.ms", None)], [("retention.ms", "x")]],
    ids=["unknown", "null", "bad"],
)
async def test_a_bad_config_refuses_the_topic(
    broker: Context, configs: list[tuple[str, str | None]]
) -> None:
    [refused] = await answered(broker, topic("orders", configs=configs))
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert refused.topic_config_error_code == ErrorCode.NONE
    assert refused.error_message
    assert configs[0][0] in refused.error_message


async def test_of_a_config_that_is_there_twice_the_last_counts(broker: Context) -> None:
    configs = [("retention.ms", "1000"), ("retention.ms", "2000")]
    await answered(broker, topic("orders", configs=configs))
    assert broker.image.topic_config("orders").values == {"retention.ms": "2000"}


async def test_replicas_may_be_chosen_by_the_client(broker: Context) -> None:
    good, bad = await answered(
        broker,
        topic("good", -1, -1, assignments=[(0, [1]), (1, [1])]),
        topic("bad", -1, -1, assignments=[(0, [9])]),
    )
    assert (good.error_code, good.num_partitions) == (ErrorCode.NONE, 2)
    assert bad.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize("timeout_ms", [0, -1])
async def test_without_time_nothing_is_done(broker: Context, timeout_ms: int) -> None:
    before = broker.image
    answers = await answered(broker, topic("one"), topic("a b"), timeout_ms=timeout_ms)
    assert [(each.error_code, each.error_message) for each in answers] == [
        (ErrorCode.REQUEST_TIMED_OUT, None)
    ] * 2
    assert broker.image is before


async def test_too_many_partitions_refuse_the_whole_request(broker: Context) -> None:
    answers = await answered(broker, topic("small"), topic("large", 10_000))
    assert {each.error_code for each in answers} == {ErrorCode.POLICY_VIOLATION}
    assert not broker.image.topics


async def test_no_topics_are_none(broker: Context) -> None:
    assert await answered(broker) == []
