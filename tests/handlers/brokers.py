"""A broker for the tests of handlers: real parts on a simulated disk, and no server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from inspect import isawaitable
from random import Random
from typing import TypeVar, cast

import trio

from pyk.broker import configure_logs, follow
from pyk.config.settings import BrokerSettings
from pyk.config.topic import TopicConfig
from pyk.coordinator.internal_topics import SHARE_TOPIC, TRANSACTION_TOPIC
from pyk.disk import File
from pyk.errors import KafkaError
from pyk.handlers.call import Call, Peer
from pyk.handlers.context import Context
from pyk.handlers.failures import Failures, Tasks
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.metadata.controller import (
    initialise,
    register_broker,
    set_topic_config,
    unregister_broker,
)
from pyk.metadata.embedded import open_embedded
from pyk.metadata.mirror import Mirror, open_mirror
from pyk.metadata.producer_ids import ProducerIdBlocks
from pyk.metadata.records import BrokerRecord, Listener
from pyk.metadata.topics import CreatedTopic, NewTopic, TopicDefaults, create_topics
from pyk.offload import Elsewhere, at_once
from pyk.replication.checkpoints import Checkpoints
from pyk.replication.fetch_sessions import FetchSessions
from pyk.replication.flushing import Flusher
from pyk.replication.replicas import Replicas
from pyk.replication.topic_logs import TopicLogs
from pyk.types import FileSlice, Records
from pyk.wire.codec import decode, encode
from tests.log.test_log import batch
from tests.simulated_disk import ROOT, SimulatedDisk

NODE_ID = 1
NOW_MS = 1_000_000
CLUSTER_ID = "the-cluster"
FEATURES = {
    "metadata.version": 30,
    "group.version": 1,
    "transaction.version": 2,
    "share.version": 1,
}
HERE = BrokerRecord((Listener("PLAINTEXT", "here", 9092),), rack="a")

Q = TypeVar("Q")
A = TypeVar("A")


@asynccontextmanager
async def open_context(
    static: Mapping[str, str] = {},
    *,
    others: Mapping[int, BrokerRecord] = {},
    disk: SimulatedDisk | None = None,
    logs_elsewhere: Elsewhere = at_once,
) -> AsyncIterator[Context]:
    """A broker of number 1, perhaps with others in its cluster. Its logs are made and opened
    `logs_elsewhere`, if that can be."""
    disk = disk or SimulatedDisk()
    settings = BrokerSettings({"node.id": str(NODE_ID), **static})
    directory = DataDirectory.open(disk, ROOT / "logs", lambda _: LogConfig(), may_be_dormant=True)
    async with (
        open_embedded(disk, ROOT / "metadata", at_once) as store,
        open_mirror(store) as mirror,
        trio.open_nursery() as nursery,
    ):
        await mirror.carry_out(lambda image: initialise(image, CLUSTER_ID, FEATURES))
        for broker_id, record in {NODE_ID: HERE, **others}.items():
            await _register(mirror, broker_id, record)
        broker = _assembled(settings, mirror, directory, nursery, logs_elsewhere)
        nursery.start_soon(_follow, broker)
        nursery.start_soon(broker.flusher.run)
        nursery.start_soon(broker.news.run)
        nursery.start_soon(broker.replicas.logs.delete_logs)
        yield broker
        nursery.cancel_scope.cancel()


async def _register(mirror: Mirror, broker_id: int, record: BrokerRecord) -> None:
    await mirror.carry_out(lambda image: unregister_broker(image, broker_id))
    await mirror.carry_out(lambda image: register_broker(image, broker_id, record))


def _assembled(
    settings: BrokerSettings,
    mirror: Mirror,
    directory: DataDirectory,
    nursery: trio.Nursery,
    logs_elsewhere: Elsewhere,
) -> Context:
    def config_of(topic: str) -> TopicConfig:
        return broker.settings.topic_config(mirror.image.topic_config(topic).values)

    flusher, failures, rng = Flusher(at_once), Failures(), Random(1)
    logs = TopicLogs(
        directory,
        config_of,
        mirror.image,
        logs_elsewhere,
        newest=lambda: mirror.image,
        checkpoints=Checkpoints(directory, at_once),
    )
    fetch_sessions = FetchSessions(100, rng)
    broker = Context(
        node_id=NODE_ID,
        settings=settings,
        mirror=mirror,
        directory=directory,
        replicas=Replicas(NODE_ID, logs, flusher, config_of),
        flusher=flusher,
        fetch_sessions=lambda: fetch_sessions,
        producer_ids=ProducerIdBlocks(mirror),
        served={},
        rng=rng,
        now_ms=lambda: NOW_MS,
        checkpoints=logs.checkpoints,
        tasks=Tasks(nursery, failures),
        failures=failures,
        offload=at_once,
    )
    if any(partition.topic == TRANSACTION_TOPIC for partition in directory.partitions):
        _ = broker.transactions
    if any(partition.topic == SHARE_TOPIC for partition in directory.partitions):
        _ = broker.share_coordinator
    return broker


async def _follow(broker: Context) -> None:
    revision = broker.image.revision
    while True:
        image = await broker.mirror.reach(revision + 1)
        revision = image.revision
        for failure in follow(broker, image, lambda limits: None):
            raise failure
        await configure_logs(broker)


def call(version: int, *, client_id: str | None = "client") -> Call:
    peer = Peer(
        connection_id="1",
        listener="PLAINTEXT",
        host="there",
        port=40_000,
        reached_host="reached",
        reached_port=9093,
    )
    return Call(version, client_id, peer)


async def ask(
    handle: Callable[[Q, Call, Context], A | Awaitable[A]],
    refuse: Callable[[Q, KafkaError], A],
    request: Q,
    broker: Context,
    version: int,
) -> A:
    """What the client reads, after the request and the response have gone over the wire."""
    request = sent(request, version)
    try:
        response = handle(request, call(version), broker)
        if isawaitable(response):
            response = await response
    except KafkaError as refusal:
        response = refuse(request, refusal)
    return sent(cast("A", response), version)


def sent(message: A, version: int) -> A:
    """A message as it is read at the other end."""
    data = b"".join(_bytes(chunk) for chunk in encode(message, version))
    return decode(type(message), version, data)


def _bytes(chunk: Records) -> bytes:
    if isinstance(chunk, FileSlice):
        return cast("File", chunk.file).read(chunk.position, chunk.size)
    return bytes(chunk)


async def create(
    broker: Context,
    name: str,
    partitions: int = 1,
    configs: Mapping[str, str] = {},
    *,
    replicas: int = 1,
) -> CreatedTopic:
    topic = NewTopic(name=name, partitions=partitions, replication_factor=replicas, configs=configs)
    outcomes = await broker.mirror.carry_out(
        lambda image: create_topics(image, [topic], TopicDefaults(), broker.rng)
    )
    created = outcomes[0][1]
    assert isinstance(created, CreatedTopic)
    return created


async def configure(broker: Context, topic: str, values: Mapping[str, str]) -> None:
    await broker.mirror.carry_out(lambda image: set_topic_config(image, topic, values))


def produce(broker: Context, topic: str, count: int, partition: int = 0) -> int:
    """Append a batch of so many records. The offset of the first."""
    data = batch(*range(NOW_MS, NOW_MS + count))
    led = broker.leader_of(topic, partition)
    return led.produce(data, acks=1, now_ms=NOW_MS).added.base_offset
