"""What is said in time is heard, however long something has held the loop meanwhile."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from pyk.broker import Broker, open_broker
from pyk.client.address import Address
from pyk.client.connection import Connection
from pyk.config.settings import BrokerSettings
from pyk.coordinator.internal_topics import GROUP_TOPIC
from pyk.coordinator.shards import Shards
from pyk.errors import ErrorCode
from pyk.late_wakeups import LATE, let_sockets_be_read
from pyk.turns import in_turns
from pyk.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pyk.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tests.handlers.brokers import create


def hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


@pytest.mark.parametrize("due_ago", [0.0, 2 * LATE])
async def test_a_task_that_was_readable_runs_before_what_was_due(due_ago: float) -> None:
    here, there = socket.socketpair()
    with here, there:
        here.setblocking(False)
        order = list[str]()

        async def read() -> None:
            await trio.lowlevel.wait_readable(here)
            order.append(here.recv(10).decode())

        async def expire() -> None:
            await trio.sleep(0.001)
            await let_sockets_be_read(trio.current_time() - due_ago)
            order.append("expired")

        for _ in range(20):
            order.clear()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read)
                nursery.start_soon(expire)
                await trio.lowlevel.checkpoint()
                there.send(b"read")
                hold_the_loop(0.002)
            assert order == ["read", "expired"]


class Machine:
    """Of a shard with many timers that are due."""

    def __init__(self, timers: int) -> None:
        self.timers = timers

    def expire(self, moment: float) -> bool:
        is_due = self.timers > 0
        self.timers -= is_due
        return is_due


async def test_timers_are_expired_together_however_busy_the_loop_is() -> None:
    """Each pass of the loop takes longer than what counts as late."""
    passes, shards = 0, [Machine(100) for _ in range(50)]

    async def keep_busy() -> None:
        nonlocal passes
        while True:
            hold_the_loop(1.5 * LATE)
            passes += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_busy)
        await trio.lowlevel.checkpoint()
        moment = await let_sockets_be_read(trio.current_time())
        await in_turns(Shards._expire_due(shards, moment))  # type: ignore[arg-type]
        nursery.cancel_scope.cancel()
    assert not any(shard.timers for shard in shards)
    assert passes < 10


async def test_nothing_is_expired_that_was_not_due_when_sockets_were_let_be_read() -> None:
    before = trio.current_time()
    moment = await let_sockets_be_read(before - 1)
    assert before <= moment <= trio.current_time()


MEMBERS = 30
SESSION = 1.5
IN_FRONT = 40
"""Requests that lie in each socket before the heartbeat."""


def connected(broker: Broker) -> Connection:
    address = broker.addresses[0]
    return Connection.open(Address(address.host, address.port))


def beat(member_id: str, epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="orders",
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=-1 if epoch else 60_000,
        subscribed_topic_names=None if epoch else ["events"],
        topic_partitions=None if epoch else [],
    )


def answers(members: Mapping[str, Connection]) -> dict[str, ConsumerGroupHeartbeatResponse]:
    return {
        member_id: connection.receive(ConsumerGroupHeartbeatResponse)
        for member_id, connection in members.items()
    }


def answers_behind_others(
    members: Mapping[str, Connection],
) -> dict[str, ConsumerGroupHeartbeatResponse]:
    for connection in members.values():
        for _ in range(IN_FRONT):
            connection.receive(ApiVersionsResponse)
    return answers(members)


async def test_nobody_is_put_out_whose_heartbeat_lies_in_a_socket(tmp_path: Path) -> None:
    config = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "group.consumer.min.session.timeout.ms": "1",
        "group.consumer.session.timeout.ms": str(int(SESSION * 1000)),
        "group.consumer.min.heartbeat.interval.ms": "1",
        "group.consumer.heartbeat.interval.ms": "50",
    }
    async with open_broker(BrokerSettings(config)) as broker:
        await create(broker.context, GROUP_TOPIC)
        with ExitStack() as closing:
            members = {
                f"member-{number}": await trio.to_thread.run_sync(connected, broker)
                for number in range(MEMBERS)
            }
            for member_id, connection in members.items():
                closing.enter_context(connection)
                connection.send(beat(member_id, 0), version=1)
            joined = await trio.to_thread.run_sync(answers, members)
            for member_id, connection in members.items():
                for _ in range(IN_FRONT):
                    connection.send(ApiVersionsRequest(), version=0)
                connection.send(beat(member_id, joined[member_id].member_epoch), version=1)
            hold_the_loop(1.2 * SESSION)
            heard = await trio.to_thread.run_sync(answers_behind_others, members)
            assert {each.error_code for each in heard.values()} == {ErrorCode.NONE}
