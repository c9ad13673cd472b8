"""A broker for the tests of handlers: real parts on a simulated disk, and no server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from inspect import isawaitable
from random import Random
from typing import TypeVar, cast

import trio
from msgspec import structs

from pyk.broker import World, configure_logs, follow, make_context
from pyk.config.settings import BrokerSettings
from pyk.disk import File
from pyk.errors import KafkaError
from pyk.handlers.call import Call, Peer
from pyk.handlers.context import Context
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.metadata.controller import (
    Plan,
    initialise,
    register_broker,
    set_topic_config,
    unregister_broker,
)
from pyk.metadata.embedded import open_embedded
from pyk.metadata.image import ClusterImage
from pyk.metadata.mirror import Mirror, open_mirror
from pyk.metadata.records import BrokerRecord, Listener, partition_key
from pyk.metadata.records import encode as encode_record
from pyk.metadata.store import Put
from pyk.metadata.topics import CreatedTopic, NewTopic, TopicDefaults, create_topics
from pyk.offload import Elsewhere, at_once
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
        world = World(
            disk=disk,
            now_ms=lambda: NOW_MS,
            offload=at_once,
            rng=Random(1),
            logs_offload=logs_elsewhere,
        )
        broker = make_context(settings, mirror, directory, world, nursery)
        broker.begin_coordinators()
        nursery.start_soon(_follow, broker)
        nursery.start_soon(broker.flusher.run)
        nursery.start_soon(broker.news.run)
        nursery.start_soon(broker.replicas.logs.delete_logs)
        yield broker
        nursery.cancel_scope.cancel()


async def _register(mirror: Mirror, broker_id: int, record: BrokerRecord) -> None:
    await mirror.carry_out(lambda image: unregister_broker(image, broker_id))
    await mirror.carry_out(lambda image: register_broker(image, broker_id, record))


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


async def change_partition(
    broker: Context,
    topic: str,
    *,
    number: int = 0,
    leader: int | None = None,
    isr: tuple[int, ...] | None = None,
) -> None:
    """Elect a leader, in a new epoch, or change the ISR, as other brokers of the cluster would.
    Return when the metadata shows it."""

    def decide(image: ClusterImage) -> Plan[None]:
        found = image.topics[topic]
        before = found.partitions[number]
        after = structs.replace(
            before,
            leader=before.leader if leader is None else leader,
            isr=before.isr if isr is None else isr,
            leader_epoch=before.leader_epoch + (leader is not None),
            partition_epoch=before.partition_epoch + 1,
        )
        put = Put(partition_key(found.topic_id, number), encode_record(after))
        return Plan(None, operations=[put])

    await broker.mirror.carry_out(decide)
