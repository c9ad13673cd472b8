"""DeleteTopics: by name and by id, and what is said of those that stay."""

from __future__ import annotations

import pytest

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import delete_topics
from pyk.handlers.context import Context
from pyk.types import ZERO_UUID, TopicPartition, Uuid
from pyk.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from tests.handlers.brokers import ask, create, open_context, produce

BY_NAME_ONLY = range(1, 6)
STRANGE = Uuid(b"of no topic here")


async def answered(
    broker: Context,
    *topics: str | Uuid | DeleteTopicState,
    version: int = 6,
    timeout_ms: int = 5000,
) -> list[DeletableTopicResult]:
    """Topics by name or id, or by both."""
    is_by_name = version in BY_NAME_ONLY
    request = DeleteTopicsRequest(
        topics=[] if is_by_name else [state(topic) for topic in topics],
        topic_names=[topic for topic in topics if isinstance(topic, str) and is_by_name],
        timeout_ms=timeout_ms,
    )
    response = await ask(delete_topics.handle, delete_topics.refuse, request, broker, version)
    return response.responses


def state(topic: str | Uuid | DeleteTopicState) -> DeleteTopicState:
    match topic:
        case str():
            return DeleteTopicState(name=topic)
        case bytes():
            return DeleteTopicState(topic_id=topic)
        case _:
            return topic


def codes(answers: list[DeletableTopicResult]) -> list[tuple[str | None, int]]:
    return [(each.name, each.error_code) for each in answers]


@pytest.mark.parametrize("version", [*BY_NAME_ONLY, 6])
async def test_a_topic_is_gone_when_the_answer_is_there(broker: Context, version: int) -> None:
    made = await create(broker, "orders")
    produce(broker, "orders", 3)
    [answer] = await answered(broker, "orders", version=version)
    assert (answer.name, answer.error_code, answer.error_message) == ("orders", 0, None)
    assert answer.topic_id == (made.topic_id if version == 6 else ZERO_UUID)
    with pytest.raises(KafkaError):
        broker.leader_of("orders", 0)


async def test_a_topic_of_the_same_name_begins_empty(broker: Context) -> None:
    await create(broker, "orders")
    produce(broker, "orders", 3)
    await answered(broker, "orders")
    await create(broker, "orders")
    assert broker.leader_of("orders", 0).offsets.end == 0
    assert broker.directory.partitions == {TopicPartition("orders", 0)}


async def test_an_id_is_answered_with_the_name(broker: Context) -> None:
    made = await create(broker, "orders")
    [answer] = await answered(broker, made.topic_id)
    assert (answer.name, answer.topic_id, answer.error_code) == ("orders", made.topic_id, 0)
    assert not broker.image.topics


async def test_what_is_not_there_is_said_to_be_unknown(broker: Context) -> None:
    by_id, by_name = await answered(broker, "nope", STRANGE)
    assert (by_id.name, by_id.topic_id) == (None, STRANGE)
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert (by_name.name, by_name.topic_id) == ("nope", ZERO_UUID)
    assert by_name.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert by_id.error_message
    assert by_name.error_message


@pytest.mark.parametrize("version", [1, 4])
async def test_old_clients_get_the_code_without_words(broker: Context, version: int) -> None:
    [answer] = await answered(broker, "nope", version=version)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_message is None


@pytest.mark.parametrize("version", [1, 5, 6])
async def test_what_is_named_twice_stays(broker: Context, version: int) -> None:
    await create(broker, "orders")
    answers = await answered(broker, "orders", "orders", version=version)
    assert codes(answers) == [("orders", ErrorCode.INVALID_REQUEST)]
    assert "orders" in broker.image.topics


async def test_a_name_and_its_id_are_twice_the_same(broker: Context) -> None:
    made = await create(broker, "orders")
    [answer] = await answered(broker, "orders", made.topic_id)
    assert (answer.name, answer.topic_id) == ("orders", made.topic_id)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


async def test_a_topic_is_named_either_way_and_not_both(broker: Context) -> None:
    made = await create(broker, "orders")
    both = DeleteTopicState(name="orders", topic_id=made.topic_id)
    [answer] = await answered(broker, both)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    [answer] = await answered(broker, DeleteTopicState())
    assert (answer.name, answer.error_code) == (None, ErrorCode.INVALID_REQUEST)


async def test_one_refusal_does_not_stop_the_others(broker: Context) -> None:
    await create(broker, "orders")
    answers = await answered(broker, "nope", "orders", version=5)
    assert codes(answers) == [("nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("orders", 0)]


async def test_without_time_nothing_is_done(broker: Context) -> None:
    made = await create(broker, "orders")
    answers = await answered(broker, "orders", made.topic_id, timeout_ms=0)
    assert codes(answers) == [
        ("orders", ErrorCode.REQUEST_TIMED_OUT),
        (None, ErrorCode.REQUEST_TIMED_OUT),
    ]
    assert "orders" in broker.image.topics


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)],
)
async def test_deletion_may_be_disabled(version: int, code: ErrorCode) -> None:
    async with open_context({"delete.topic.enable": "false"}) as broker:
        await create(broker, "orders")
        assert codes(await answered(broker, "orders", version=version)) == [("orders", code)]
        assert "orders" in broker.image.topics


async def test_no_topics_are_none(broker: Context) -> None:
    assert await answered(broker) == []
