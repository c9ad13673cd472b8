"""Requests about very many groups or transactions, which are answered in turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from inspect import isawaitable
from typing import Any

import pytest
import trio

from pyk import turns as turns_of_work
from pyk.errors import ErrorCode
from pyk.handlers import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    describe_transactions,
    find_coordinator,
    list_groups,
    share_group_describe,
)
from pyk.handlers.consumer_group_heartbeat import SUBSCRIBED_AT_ONCE_MAX
from pyk.handlers.context import Context
from pyk.metadata.topics import NewTopic, TopicDefaults, create_topics
from pyk.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from pyk.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pyk.wire.messages.delete_groups import DeleteGroupsRequest
from pyk.wire.messages.describe_groups import DescribeGroupsRequest
from pyk.wire.messages.describe_transactions import DescribeTransactionsRequest
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.list_groups import ListGroupsRequest
from pyk.wire.messages.share_group_describe import ShareGroupDescribeRequest
from tests.coordinator.test_group_coordinator import begin, commit
from tests.handlers.brokers import ask, call, open_context
from tests.handlers.turns import counting_turns

NAMES = [f"group-{number}" for number in range(20_000)]

CONSUMERS = ConsumerGroupDescribeRequest(group_ids=NAMES, include_authorized_operations=False)
SHARE_GROUPS = ShareGroupDescribeRequest(group_ids=NAMES, include_authorized_operations=False)


@pytest.fixture
async def broker() -> AsyncIterator[Context]:
    async with open_context() as broker:
        await begin(broker)
        await commit(broker, 5, NAMES[0])
        request = FindCoordinatorRequest(key="copy", key_type=1)
        await ask(find_coordinator.handle, find_coordinator.refuse, request, broker, 3)
        yield broker


@pytest.mark.parametrize(
    ("handler", "request_of_many", "version", "answers"),
    [
        (describe_groups, DescribeGroupsRequest(groups=NAMES), 5, "groups"),
        (consumer_group_describe, CONSUMERS, 1, "groups"),
        (share_group_describe, SHARE_GROUPS, 1, "groups"),
        (delete_groups, DeleteGroupsRequest(groups_names=NAMES), 2, "results"),
        (find_coordinator, FindCoordinatorRequest(coordinator_keys=NAMES), 4, "coordinators"),
        (
            describe_transactions,
            DescribeTransactionsRequest(transactional_ids=NAMES),
            0,
            "transaction_states",
        ),
    ],
)
async def test_many_that_are_named_keep_nobody_waiting(
    broker: Context, handler: Any, request_of_many: Any, version: int, answers: str
) -> None:
    async with counting_turns() as turns:
        response = await ask(handler.handle, handler.refuse, request_of_many, broker, version)
        count = turns.count
    assert len(getattr(response, answers)) == len(NAMES)
    assert count >= 3


async def test_a_list_of_many_groups_keeps_nobody_waiting(broker: Context) -> None:
    classic = broker.groups.of(NAMES[0]).machine.classic
    for number in range(40_000):
        classic.simple(f"group-{number}")
        if not number % 1_000:
            await trio.lowlevel.checkpoint()
    async with counting_turns() as turns:
        listed = list_groups.handle(ListGroupsRequest(), call(5), broker)
        if isawaitable(listed):
            listed = await listed
        count = turns.count
    assert listed.error_code == ErrorCode.NONE
    assert len({group.group_id for group in listed.groups}) == 40_000
    assert count >= 1


async def test_who_subscribes_to_very_many_topics_keeps_nobody_waiting(
    broker: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns_of_work, "TURN_SECONDS", 0.0)
    names = [f"topic-{number}" for number in range(2 * SUBSCRIBED_AT_ONCE_MAX)]
    for start in range(0, len(names), 500):
        wanted = [
            NewTopic(name=name, partitions=1, replication_factor=1)
            for name in names[start : start + 500]
        ]
        await broker.mirror.carry_out(
            partial(create_topics, topics=wanted, defaults=TopicDefaults(), rng=broker.rng)
        )
    request = ConsumerGroupHeartbeatRequest(
        group_id=NAMES[1],
        member_id="ann",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=names,
        topic_partitions=[],
    )
    handle, refuse = consumer_group_heartbeat.handle, consumer_group_heartbeat.refuse
    async with counting_turns() as turns:
        response = await ask(handle, refuse, request, broker, 1)
        assert response.error_code == ErrorCode.NONE
        assert response.assignment is not None
        assert len(response.assignment.topic_partitions) == len(names)
        assert turns.count > len(names) // 2
    few = ConsumerGroupHeartbeatRequest(
        group_id=NAMES[2], member_id="bob", member_epoch=0, rebalance_timeout_ms=60_000,
        subscribed_topic_names=names[:1], topic_partitions=[],
    )  # fmt: skip
    assert not isawaitable(handle(few, call(1), broker))
