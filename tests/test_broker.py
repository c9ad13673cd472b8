"""How a broker is put together from its configuration."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pyk.broker import (
    Broker,
    data_directory_of,
    limits_of,
    listeners_of,
    open_broker,
)
from pyk.config.settings import BrokerSettings
from pyk.errors import KafkaError
from pyk.metadata.controller import set_broker_defaults
from pyk.server.limits import Limits


def test_listeners_of_controllers_are_not_for_clients() -> None:
    settings = BrokerSettings(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093,INSIDE://localhost:0",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                f"{name}:PLAINTEXT" for name in ("PLAINTEXT", "INSIDE", "CONTROLLER")
            ),
        }
    )
    assert [(each.name, each.host, each.port) for each in listeners_of(settings)] == [
        ("PLAINTEXT", "", 9092),
        ("INSIDE", "localhost", 0),
    ]


@pytest.mark.parametrize("listener", ["SSL://:9092", "SASL_PLAINTEXT://:9092"])
def test_what_is_not_plain_is_refused(listener: str) -> None:
    with pytest.raises(KafkaError, match="PLAINTEXT only"):
        listeners_of(BrokerSettings({"listeners": listener}))


def test_logs_in_several_directories_are_refused() -> None:
    with pytest.raises(KafkaError, match="one directory"):
        data_directory_of(BrokerSettings({"log.dirs": "/a,/b"}))


async def test_a_limit_on_connections_that_is_set_at_run_time_holds_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        first = await trio.open_tcp_stream(broker.addresses[0].host, broker.addresses[0].port)
        await configure(broker, {"max.connections.per.ip": "1"})
        second = await trio.open_tcp_stream(broker.addresses[0].host, broker.addresses[0].port)
        with trio.fail_after(10):
            assert await second.receive_some() == b"", "it is hung up on"
        assert len(broker.server.connections) == 1, "the first one stays"
        await configure(broker, {})
        third = await trio.open_tcp_stream(broker.addresses[0].host, broker.addresses[0].port)
        with trio.fail_after(10):
            while len(broker.server.connections) < 2:
                await trio.lowlevel.checkpoint()
        for stream in (first, second, third):
            await stream.aclose()


@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncIterator[Broker]:
    settings = BrokerSettings({"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"})
    async with open_broker(settings) as broker:
        yield broker


async def configure(broker: Broker, values: dict[str, str]) -> None:
    """Return when the broker has heard of it."""
    await broker.context.mirror.carry_out(lambda image: set_broker_defaults(image, values))
    with trio.fail_after(10):
        while broker.context.settings.cluster_wide != values:
            await trio.lowlevel.checkpoint()


def test_sizes_of_buffers_and_queues_are_kafkas_only_where_they_are_given() -> None:
    assert limits_of(BrokerSettings({})) == Limits()
    given = {
        "queued.max.request.bytes": "1000",
        "socket.send.buffer.bytes": "2000",
        "socket.receive.buffer.bytes": "-1",
        "socket.listen.backlog.size": "7",
    }
    limits = limits_of(BrokerSettings(given))
    assert limits == Limits(buffered_bytes_max=1000, send_buffer_bytes=2000, backlog=7)
