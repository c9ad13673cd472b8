"""How a broker is put together from its configuration."""

from __future__ import annotations

import logging
import math
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from msgspec.structs import replace

from pyk.broker import (
    Broker,
    data_directory_of,
    follow,
    limits_of,
    listeners_of,
    open_broker,
)
from pyk.config.changes import Operation
from pyk.config.settings import BrokerSettings
from pyk.coordinator.internal_topics import GROUP_TOPIC
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import incremental_alter_configs
from pyk.handlers.config_resources import ResourceType
from pyk.handlers.context import Context
from pyk.log.checkpoints import CLEAN_SHUTDOWN
from pyk.log.opening import LogOpening
from pyk.metadata.controller import set_broker_defaults
from pyk.metadata.image import Configured
from pyk.metadata.records import BROKER_DEFAULTS
from pyk.metadata.topics import TopicReference, delete_topics
from pyk.server.binding import CannotListen
from pyk.server.limits import Limits
from pyk.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.handlers.brokers import call, create

OVERRIDES = "max.connections.per.ip.overrides"


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


def test_below_zero_no_connection_is_closed_for_being_idle() -> None:
    assert limits_of(BrokerSettings({"connections.max.idle.ms": "-1"})).idle_timeout == math.inf
    assert limits_of(BrokerSettings({"connections.max.idle.ms": "1"})).idle_timeout == 0.001


@pytest.mark.parametrize(
    ("text", "code", "limit"),
    [
        ("::1:5", ErrorCode.NONE, 5),
        ("127.0.0.1:abc", ErrorCode.INVALID_REQUEST, None),
        (":::", ErrorCode.INVALID_REQUEST, None),
    ],
)
async def test_limits_by_host_are_taken_or_refused_and_never_end_the_broker(
    text: str, code: ErrorCode, limit: int | None, tmp_path: Path
) -> None:
    async with serving(tmp_path) as broker:
        resource = AlterConfigsResource(
            resource_type=ResourceType.BROKER,
            resource_name="",
            configs=[AlterableConfig(name=OVERRIDES, config_operation=Operation.SET, value=text)],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        context = broker.context
        answer = await incremental_alter_configs.handle(request, call(1), context)
        assert answer.responses[0].error_code == code
        with trio.fail_after(10):
            while limit and not context.settings.config.max_connections_per_ip_overrides:
                await trio.lowlevel.checkpoint()
        assert limits_of(context.settings).connections_max_by_ip.get("::1") == limit


async def test_what_another_version_has_stored_ends_no_broker_and_no_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stored = {OVERRIDES: "::1:x", "listeners": "PLAINTEXT://:1", "log.retention.ms": "7000"}
    async with serving(tmp_path) as broker:
        await broker.context.mirror.carry_out(lambda image: set_broker_defaults(image, stored))
        await followed(broker)
    caplog.clear()
    async with serving(tmp_path) as broker:
        await followed(broker)
        assert broker.context.settings.config.log_retention_ms == 7000
        assert broker.context.settings.cluster_wide == {"log.retention.ms": "7000"}
        told = [each.getMessage() for each in caplog.records if "ignored" in each.getMessage()]
        assert len(told) == 2, "each is named once"
        await configure(broker, {"log.retention.ms": "8000"})
        assert broker.context.settings.config.log_retention_ms == 8000


async def followed(broker: Broker) -> None:
    with trio.fail_after(10):
        while broker.context.settings.stored[0] != broker.context.image.broker_defaults.values:
            await trio.lowlevel.checkpoint()


async def test_a_part_that_cannot_follow_the_metadata_does_not_keep_the_others_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(limits: Limits) -> None:
        raise ValueError("no limits today")

    async with serving(tmp_path) as broker:
        context = broker.context
        await create(context, "orders")
        led = context.leader_of("orders", 0)
        values = {"log.roll.ms": "7000"}
        image = replace(context.image, configured={BROKER_DEFAULTS: Configured(values)})
        caplog.clear()
        (failure,) = follow(context, image, fail)
        assert str(failure) == "no limits today"
        (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
        assert record.exc_info is not None
        image = replace(context.image, topics={})
        follow(context, image, lambda limits: None)
        assert list(context.replicas) == [], led


async def test_logs_that_take_long_to_follow_a_configuration_keep_no_image_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, is_over = trio.Event(), trio.Event()

    async def take_long(broker: Context) -> None:
        began.set()
        await is_over.wait()

    monkeypatch.setattr("pyk.broker.configure_logs", take_long)
    async with serving(tmp_path) as broker:
        await began.wait()
        context = broker.context
        await create(context, "short")
        context.leader_of("short", 0)
        references = [TopicReference("short")]
        await context.mirror.carry_out(lambda image: delete_topics(image, references))
        with trio.fail_after(5):
            while context.replicas.logs.image is not context.image:
                await trio.lowlevel.checkpoint()
        is_over.set()


async def test_a_task_that_fails_does_not_end_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    async with serving(tmp_path) as broker:
        broker.context.start_soon(fail)
        await trio.testing.wait_all_tasks_blocked()
        await create(broker.context, "orders")
    (record,) = [each for each in caplog.records if each.exc_info]
    assert "goes on" in record.getMessage()


async def test_a_start_that_finds_its_port_taken_leaves_logs_as_they_were_closed(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path):
        pass
    mark = (tmp_path / CLEAN_SHUTDOWN).read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = {"log.dirs": str(tmp_path), "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        with pytest.RaisesGroup(CannotListen, flatten_subgroups=True, allow_unwrapped=True):
            async with open_broker(BrokerSettings(config)):
                pass
    assert (tmp_path / CLEAN_SHUTDOWN).read_bytes() == mark


async def test_coordinators_have_their_logs_opened_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as broker:
        await broker.context.groups.create_topic()
        for number in range(20):
            broker.context.leader_of(GROUP_TOPIC, number)
            await trio.lowlevel.checkpoint()
    threads: list[int] = []

    def attempt(opening: LogOpening, *given: object) -> object:
        threads.append(threading.get_ident())
        return real(opening, *given)

    real: Callable[..., object] = LogOpening.attempt
    monkeypatch.setattr(LogOpening, "attempt", attempt)
    async with serving(tmp_path) as broker:
        shards = broker.context.groups
        with trio.fail_after(10):
            while len(list(shards)) < 20:
                await trio.lowlevel.checkpoint()
    assert len(threads) == 20
    assert threading.get_ident() not in threads
