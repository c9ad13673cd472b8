"""DescribeTopicPartitions: topics by name, as many partitions as fit, and where to go on."""

from __future__ import annotations

import pytest

from pyk.errors import ErrorCode
from pyk.handlers import describe_topic_partitions
from pyk.handlers.context import Context
from pyk.metadata.controller import unregister_broker
from pyk.metadata.records import BrokerRecord
from pyk.types import ZERO_UUID
from pyk.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from tests.handlers.brokers import NODE_ID, ask, create, open_context

ALL_OPERATIONS = 3576
NOT_ASKED_FOR = -(2**31)
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def answered(
    broker: Context, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return await ask(
        describe_topic_partitions.handle, describe_topic_partitions.refuse, request, broker, 0
    )


def numbers(response: DescribeTopicPartitionsResponse) -> dict[str | None, list[int]]:
    return {
        topic.name: [partition.partition_index for partition in topic.partitions]
        for topic in response.topics
    }


def cursor_of(response: DescribeTopicPartitionsResponse) -> tuple[str, int] | None:
    found = response.next_cursor
    return None if found is None else (found.topic_name, found.partition_index)


def codes(response: DescribeTopicPartitionsResponse) -> list[tuple[str | None, int]]:
    return [(topic.name, topic.error_code) for topic in response.topics]


async def filled(broker: Context) -> None:
    for name, count in {"c": 2, "a": 3, "b": 1}.items():
        await create(broker, name, count)


async def test_a_partition_is_described(broker: Context) -> None:
    made = await create(broker, "orders", 2)
    [topic] = (await answered(broker, "orders")).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (0, "orders", made.topic_id)
    assert (topic.is_internal, topic.topic_authorized_operations) == (False, ALL_OPERATIONS)
    second = topic.partitions[1]
    assert (second.error_code, second.partition_index) == (ErrorCode.NONE, 1)
    assert (second.leader_id, second.leader_epoch) == (NODE_ID, 0)
    assert (second.replica_nodes, second.isr_nodes, second.offline_replicas) == ([1], [1], [])
    assert (second.eligible_leader_replicas, second.last_known_elr) == ([], [])


async def test_replicas_that_are_away_are_named() -> None:
    async with open_context(others={2: BrokerRecord(())}) as broker:
        await create(broker, "orders", replicas=2)
        await broker.mirror.carry_out(lambda image: unregister_broker(image, 2))
        [topic] = (await answered(broker, "orders")).topics
        assert sorted(topic.partitions[0].replica_nodes) == [1, 2]
        assert topic.partitions[0].offline_replicas == [2]


async def test_topics_are_in_the_order_of_their_names_and_each_once(broker: Context) -> None:
    await filled(broker)
    response = await answered(broker, "c", "a", "nope", "c")
    assert codes(response) == [("a", 0), ("c", 0), ("nope", UNKNOWN)]
    assert numbers(response) == {"a": [0, 1, 2], "c": [0, 1], "nope": []}
    assert response.next_cursor is None


async def test_no_topics_are_all_topics(broker: Context) -> None:
    await filled(broker)
    await create(broker, "__consumer_offsets")
    response = await answered(broker)
    assert list(numbers(response)) == ["__consumer_offsets", "a", "b", "c"]
    assert [topic.is_internal for topic in response.topics] == [True, False, False, False]


@pytest.mark.parametrize(
    ("limit", "page", "cursor"),
    [
        (1, {"a": [0]}, ("a", 1)),
        (0, {"a": [0]}, ("a", 1)),
        (-1, {"a": [0]}, ("a", 1)),
        (3, {"a": [0, 1, 2]}, ("b", 0)),
        (5, {"a": [0, 1, 2], "b": [0], "c": [0]}, ("c", 1)),
        (6, {"a": [0, 1, 2], "b": [0], "c": [0, 1]}, None),
        (100_000, {"a": [0, 1, 2], "b": [0], "c": [0, 1]}, None),
    ],
)
async def test_a_page_ends_at_the_limit(
    broker: Context, limit: int, page: dict[str, list[int]], cursor: tuple[str, int] | None
) -> None:
    await filled(broker)
    for names in ((), ("a", "b", "c")):
        response = await answered(broker, *names, limit=limit)
        assert numbers(response) == page
        assert cursor_of(response) == cursor


async def test_the_brokers_own_limit_holds_too() -> None:
    async with open_context({"max.request.partition.size.limit": "2"}) as broker:
        await filled(broker)
        response = await answered(broker)
        assert (numbers(response), cursor_of(response)) == ({"a": [0, 1]}, ("a", 2))


@pytest.mark.parametrize(
    ("cursor", "page"),
    [
        (("a", 1), {"a": [1, 2], "b": [0], "c": [0, 1]}),
        (("b", 0), {"b": [0], "c": [0, 1]}),
        (("a", 9), {"a": [], "b": [0], "c": [0, 1]}),
    ],
)
async def test_the_next_page_goes_on_at_the_cursor(
    broker: Context, cursor: tuple[str, int], page: dict[str, list[int]]
) -> None:
    await filled(broker)
    for names in ((), ("a", "b", "c")):
        assert numbers(await answered(broker, *names, cursor=cursor)) == page


async def test_all_pages_are_everything(broker: Context) -> None:
    await filled(broker)
    cursor: tuple[str, int] | None = ("", 0)
    seen: list[tuple[str | None, int]] = []
    while cursor is not None:
        response = await answered(broker, limit=2, cursor=cursor)
        seen += [(name, number) for name, found in numbers(response).items() for number in found]
        cursor = cursor_of(response)
    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]


async def test_of_all_topics_the_cursors_may_be_gone(broker: Context) -> None:
    await filled(broker)
    assert numbers(await answered(broker, cursor=("aa", 7))) == {"b": [0], "c": [0, 1]}
    assert numbers(await answered(broker, cursor=("zzz", 0))) == {}


@pytest.mark.parametrize("cursor", [("b", 0), ("a", -1)], ids=["not asked for", "negative"])
async def test_a_bad_cursor_refuses_the_request(broker: Context, cursor: tuple[str, int]) -> None:
    await filled(broker)
    response = await answered(broker, "c", "a", cursor=cursor)
    invalid = ErrorCode.INVALID_REQUEST
    assert codes(response) == [("c", invalid), ("a", invalid)]
    assert {topic.topic_authorized_operations for topic in response.topics} == {NOT_ASKED_FOR}


async def test_what_is_not_there_is_said_to_be_unknown(broker: Context) -> None:
    response = await answered(broker, "nope", "a b", "__transaction_state")
    invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert codes(response) == [
        ("__transaction_state", UNKNOWN),
        ("a b", invalid),
        ("nope", UNKNOWN),
    ]
    assert [topic.is_internal for topic in response.topics] == [True, False, False]
    for topic in response.topics:
        assert (topic.topic_id, topic.partitions) == (ZERO_UUID, [])
        assert topic.topic_authorized_operations == ALL_OPERATIONS


async def test_an_unknown_topic_takes_no_room(broker: Context) -> None:
    await filled(broker)
    response = await answered(broker, "Nope", "a", "b", limit=3)
    assert numbers(response) == {"Nope": [], "a": [0, 1, 2]}
    assert cursor_of(response) == ("b", 0)
    response = await answered(broker, "a", "nope", limit=3)
    assert cursor_of(response) == ("nope", 0)
