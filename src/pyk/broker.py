"""The broker: its parts, and how their lifetimes nest.

    data directory > metadata store > its image > logs, recovered > upkeep > server

Leaving the block of `open_broker` is the shutdown: connections first, the logs last.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from random import Random, SystemRandom
from typing import Final, NamedTuple

import trio
from msgspec import Struct, field

from pyk.config.listeners import parse_limits_by_host, parse_listener, parse_protocol_map
from pyk.config.settings import BrokerSettings, valid
from pyk.config.topic import TOPIC_KEYS, TopicConfig
from pyk.disk import Disk, RealDisk
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.context import Context
from pyk.handlers.failures import Failures, Tasks
from pyk.handlers.features import SUPPORTED_FEATURES
from pyk.handlers.table import ENDPOINTS, Endpoint, served
from pyk.log.directory import DataDirectory
from pyk.log.recovery import Recovery
from pyk.metadata.controller import initialise, new_uuid, register_broker, unregister_broker
from pyk.metadata.embedded import open_embedded
from pyk.metadata.identity import Identity, check_identity, read_identity, write_identity
from pyk.metadata.image import ClusterImage
from pyk.metadata.journal import DIRECTORY_NAME
from pyk.metadata.mirror import Mirror, open_mirror
from pyk.metadata.producer_ids import ProducerIdBlocks
from pyk.metadata.records import BrokerRecord, printed
from pyk.metadata.records import Listener as Advertised
from pyk.offload import Elsewhere, in_thread
from pyk.replication.checkpoints import Checkpoints
from pyk.replication.fetch_sessions import FetchSessions
from pyk.replication.flushing import Flusher
from pyk.replication.recovery import recover_logs
from pyk.replication.replicas import Replicas
from pyk.replication.topic_logs import TopicLogs
from pyk.replication.upkeep import Care, Upkeep
from pyk.server.binding import Listener
from pyk.server.dispatch import Dispatcher
from pyk.server.limits import Limits
from pyk.server.listeners import Address, Server, open_listeners, serve
from pyk.turns import in_turns
from pyk.wire.apis import ApiKey

logger = logging.getLogger(__name__)

_PROTOCOLS: Final = "listener.security.protocol.map"
GRACE: Final = 5.0
"""Seconds that a request may go on for when the broker is to stop."""
FEATURES: Final = {name: levels.highest for name, levels in SUPPORTED_FEATURES.items()}


def _system_time_ms() -> int:
    return time.time_ns() // 1_000_000


class World(Struct, frozen=True, kw_only=True):
    """What a broker finds around itself: this machine, unless a test has made another."""

    disk: Disk = field(default_factory=RealDisk)
    now_ms: Callable[[], int] = _system_time_ms
    offload: Elsewhere = in_thread
    endpoints: Mapping[ApiKey, Endpoint] = field(default_factory=lambda: ENDPOINTS)
    """Who answers. A test puts something between them and their clients."""
    rng: Random = field(default_factory=SystemRandom)
    """The broker draws its ids from it."""
    logs_offload: Elsewhere | None = None
    """Runs what makes and opens logs. None: `offload` does."""
    grace: float = GRACE
    recovery: Recovery = field(default_factory=Recovery)
    """Where a start tells how far it is with logs."""


class Broker(NamedTuple):
    """What is open."""

    context: Context
    server: Server
    dispatcher: Dispatcher

    @property
    def addresses(self) -> Sequence[Address]:
        return self.server.addresses


def only_one(failure: BaseException) -> BaseException:
    """What is in the group, if it is alone: what somebody who starts a broker has to hear."""
    while isinstance(failure, BaseExceptionGroup) and len(failure.exceptions) == 1:
        failure = failure.exceptions[0]
    return failure


@asynccontextmanager
async def open_broker(
    settings: BrokerSettings, world: World | None = None
) -> AsyncIterator[Broker]:
    """Serve while the block runs."""
    world = world or World()
    disk, path = world.disk, data_directory_of(settings)
    async with (
        _open_directory(disk, path, world.offload) as directory,
        open_embedded(disk, path / DIRECTORY_NAME, world.offload) as store,
        open_mirror(store) as mirror,
        AsyncExitStack() as stack,
        trio.open_nursery() as nursery,
    ):
        await _register(mirror, settings, world, path)
        # Before logs are touched: if a port is taken, the next start need not recover any.
        bound = await stack.enter_async_context(
            open_listeners(listeners_of(settings), limits_of(settings))
        )
        context = make_context(settings, mirror, directory, world, nursery)
        directory.begin()
        await context.replicas.logs.move_strays_aside()
        threads = settings.config.num_recovery_threads_per_data_dir
        await recover_logs(context.replicas.logs, threads, world.offload, world.recovery)
        await context.open_logs_of_coordinators()
        context.begin_coordinators()
        upkeep = Upkeep(
            context.replicas.logs,
            world.now_ms,
            lambda: Care.of(context.settings.config),
            world.offload,
        )
        nursery.start_soon(context.flusher.run)
        nursery.start_soon(upkeep.run)
        dispatcher = Dispatcher(world.endpoints, context, world.offload)
        nursery.start_soon(context.news.run)
        async with serve(
            bound,
            dispatcher,
            limits=limits_of(settings),
            news=context.news,
            grace=world.grace,
        ) as server:
            nursery.start_soon(_follow, context, server)
            yield Broker(context, server, dispatcher)
        # What was deleted is not to be found by the next start, as logs that nobody knows.
        with trio.CancelScope(shield=True), suppress(OSError):
            await context.replicas.logs.delete_those_due()
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _open_directory(
    disk: Disk, path: Path, offload: Elsewhere
) -> AsyncIterator[DataDirectory]:
    directory = DataDirectory.hold(disk, path)
    for damage in directory.damaged_checkpoints:
        logger.error("%s: logs are recovered without it", damage)
    try:
        yield directory
        # Not after an error: what is in memory may not be what it should be, and the disk is.
        with trio.CancelScope(shield=True):
            await offload(directory.close)
        for partition, failure in directory.not_closed.items():
            logger.error("%s is to be recovered at the next start: %s", partition, failure)
    finally:
        directory.let_go()


async def _register(mirror: Mirror, settings: BrokerSettings, world: World, path: Path) -> None:
    disk, rng, config = world.disk, world.rng, settings.config
    found = read_identity(disk, path)
    cluster_id = mirror.image.cluster_id or (found and found.cluster_id) or printed(new_uuid(rng))
    identity = Identity(config.node_id, cluster_id)
    if found is not None:
        check_identity(path, found, identity)
    await mirror.carry_out(lambda image: initialise(image, cluster_id, FEATURES))
    if found is None:
        write_identity(disk, path, identity, printed(new_uuid(rng)))
    advertised = [
        parse_listener("advertised.listeners", each) for each in config.advertised_listeners or ()
    ]
    record = BrokerRecord(
        listeners=tuple(Advertised(*each) for each in advertised), rack=config.broker_rack
    )
    await mirror.carry_out(lambda image: unregister_broker(image, config.node_id))
    await mirror.carry_out(lambda image: register_broker(image, config.node_id, record))


def make_context(
    settings: BrokerSettings,
    mirror: Mirror,
    directory: DataDirectory,
    world: World,
    nursery: trio.Nursery,
) -> Context:
    """The parts of a broker, of which none runs yet. The tests of handlers have theirs from here
    too."""
    config, rng = settings.config, world.rng
    told: set[tuple[str, str | None]] = set()

    def config_of(topic: str) -> TopicConfig:
        stored = mirror.image.topic_config(topic).values

        def ignored(refusal: KafkaError) -> None:
            if (topic, refusal.message) not in told:
                told.add((topic, refusal.message))
                logger.warning("of topic %s is ignored: %s", topic, refusal)

        return broker.settings.topic_config(valid(TOPIC_KEYS, stored, ignored))

    flusher, failures = Flusher(world.offload), Failures()
    logs = TopicLogs(
        directory,
        config_of,
        mirror.image,
        world.logs_offload or world.offload,
        newest=lambda: mirror.image,
        checkpoints=Checkpoints(directory, world.offload),
    )
    replicas = Replicas(config.node_id, logs, flusher, config_of)
    broker = Context(
        node_id=config.node_id,
        settings=settings,
        mirror=mirror,
        directory=directory,
        replicas=replicas,
        flusher=flusher,
        fetch_sessions=FetchSessions(config.max_incremental_fetch_session_cache_slots, rng),
        producer_ids=ProducerIdBlocks(mirror),
        served=served(),
        rng=rng,
        now_ms=world.now_ms,
        checkpoints=logs.checkpoints,
        tasks=Tasks(nursery, failures),
        failures=failures,
        offload=world.offload,
    )
    return broker


async def _follow(broker: Context, server: Server) -> None:
    """Let settings, limits and partitions follow the image. Logs take longer to follow their
    configurations, and no image waits for that."""
    followed, followings = trio.open_memory_channel[None](1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_configure_logs, broker, followings)
        revision = 0
        while True:
            image = await broker.mirror.reach(revision + 1)
            revision = image.revision
            follow(broker, image, server.limit)
            with suppress(trio.WouldBlock):
                followed.send_nowait(None)


async def _configure_logs(broker: Context, followings: trio.MemoryReceiveChannel[None]) -> None:
    async for _ in followings:
        await configure_logs(broker)


def follow(
    broker: Context, image: ClusterImage, limit: Callable[[Limits], None]
) -> list[Exception]:
    """Let every part follow an image. One that fails, which is logged, does not keep the others
    from it. What has failed."""
    failures: list[Exception] = []

    def let(name: str, on_image: Callable[[ClusterImage], None]) -> None:
        try:
            on_image(image)
        except Exception as failure:
            logger.exception("%s cannot follow a change of the metadata", name)
            failures.append(failure)

    let("the settings", lambda image: _follow_settings(broker, image, limit))
    for name, part in (
        ("partitions", broker.replicas),
        ("groups", broker.group_shards),
        ("transactions", broker.transaction_coordinator),
        ("the state of share groups", broker.coordinator_of_shares),
        ("share groups", broker.shares_led),
    ):
        if part is not None:
            let(name, part.on_image)
    return failures


async def configure_logs(broker: Context) -> None:
    """Let logs follow their configurations, in turns."""
    try:
        await in_turns(broker.replicas.configure())
    except Exception:
        logger.exception("logs cannot follow a change of their configuration")


def _follow_settings(broker: Context, image: ClusterImage, limit: Callable[[Limits], None]) -> None:
    settings = broker.settings_in(image)
    if settings is broker.settings:
        return
    limits = limits_of(settings)
    for name, reason in settings.ignored.items():
        if broker.settings.ignored.get(name) != reason:
            logger.warning("what is set for %s is ignored: %s", name, reason)
    broker.settings = settings
    limit(limits)


def data_directory_of(settings: BrokerSettings) -> Path:
    """Where the logs are. Raise KafkaError."""
    paths = settings.config.data_directories
    if len(paths) > 1:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"log.dirs: {','.join(paths)}: pyk keeps all logs in one directory",
        )
    return Path(paths[0])


def listeners_of(settings: BrokerSettings) -> list[Listener]:
    """Where clients are served. Those of Kafka's controllers are not for them. Raise KafkaError."""
    config = settings.config
    protocols = parse_protocol_map(_PROTOCOLS, config.listener_security_protocol_map)
    of_controllers = settings.static.get("controller.listener.names", "").split(",")
    found = []
    for text in config.listeners:
        listener = Listener(*parse_listener("listeners", text))
        if listener.name in of_controllers:
            continue
        protocol = protocols.get(listener.name)
        if protocol != "PLAINTEXT":
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{text}: of the security protocols pyk has PLAINTEXT only, and {_PROTOCOLS} gives"
                f" {listener.name} {protocol or 'none'}",
            )
        found.append(listener)
    return found


def limits_of(settings: BrokerSettings) -> Limits:
    """Kafka's sizes of buffers and queues count where they are given. Its defaults are not pyk's,
    and -1 leaves each to pyk."""
    config = settings.config
    overrides = config.max_connections_per_ip_overrides
    idle_ms = config.connections_max_idle_ms
    defaults = Limits()

    def size(key: str, found: int, otherwise: int) -> int:
        return found if key in settings.static and found > 0 else otherwise

    return Limits(
        frame_bytes_max=config.socket_request_max_bytes,
        connections_max=config.max_connections,
        connections_max_per_ip=config.max_connections_per_ip,
        connections_max_by_ip=parse_limits_by_host("max.connections.per.ip.overrides", overrides),
        idle_timeout=math.inf if idle_ms < 0 else idle_ms / 1000,
        buffered_bytes_max=size(
            "queued.max.request.bytes",
            config.queued_max_request_bytes,
            defaults.buffered_bytes_max,
        ),
        send_buffer_bytes=size(
            "socket.send.buffer.bytes", config.socket_send_buffer_bytes, defaults.send_buffer_bytes
        ),
        receive_buffer_bytes=size(
            "socket.receive.buffer.bytes",
            config.socket_receive_buffer_bytes,
            defaults.receive_buffer_bytes,
        ),
        backlog=size(
            "socket.listen.backlog.size", config.socket_listen_backlog_size, defaults.backlog
        ),
    )
