"""A broker in the loop of a test on trio, on that loop's clock: an autojump clock, if it has one.

async with serve() as broker:
    await broker.produce("orders", b"first")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from pyk.broker import World, only_one, open_broker
from pyk.handlers.context import Context
from pyk.offload import at_once
from pyk.testing import inside
from pyk.testing.clock import BrokerClock
from pyk.testing.disk import ScratchDisk
from pyk.testing.fault import BrokerFailed
from pyk.testing.faults import Faults
from pyk.testing.options import HOST, Home, Topics, new_name, partitions_of, settings_for
from pyk.testing.record import Record, Value
from pyk.testing.requests import Requests


@asynccontextmanager
async def serve(
    config: Mapping[str, str] = {},
    *,
    topics: Topics = (),
    data_dir: Path | str | None = None,
    port: int = 0,
) -> AsyncIterator[LoopBroker]:
    """Serve while the block runs; see `serve_in_thread` for the options. The broker's time is
    trio's, for its records, too. Raise BrokerFailed if it had a bug."""
    home, disk, requests = Home(data_dir, port), ScratchDisk(), Requests()
    faults = Faults(disk, requests)
    began, began_ms = trio.current_time(), BrokerClock().now_ms()

    def now_ms() -> int:
        return began_ms + round((trio.current_time() - began) * 1000)

    world = World(
        disk=disk, now_ms=now_ms, offload=at_once, endpoints=faults.endpoints(), grace=0.0
    )
    soon = trio.lowlevel.current_trio_token().run_sync_soon
    try:
        settings = settings_for(config, home.port, home.data_dir)
        async with open_broker(settings, world) as opened:
            faults.attach(opened.server, soon, may_freeze=False)
            opened.context.failures.tell_of_bug = faults.note_bug
            broker = LoopBroker(home, opened.context, faults, requests)
            for name, partitions in partitions_of(topics).items():
                await broker.create_topic(name, partitions)
            yield broker
            faults.lift_all()
    except BaseExceptionGroup as group:
        # What the block raises has gone through the broker's nurseries.
        raise only_one(group) from None
    finally:
        faults.detach()
        disk.close_all()
        home.leave()
    if faults.bugs:
        raise BrokerFailed("bugs in handlers") from ExceptionGroup("bugs", faults.bugs)


class LoopBroker:
    """As `ThreadBroker`, with what waits awaited. It cannot be frozen or restarted, and its clock
    is that of the loop."""

    def __init__(self, home: Home, context: Context, faults: Faults, requests: Requests) -> None:
        self._context = context
        self.host = HOST
        self.port = home.port
        self.data_dir = home.data_dir
        self.faults = faults
        self.requests = requests

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    def __repr__(self) -> str:
        return f"<pyk broker in this loop, on {self.bootstrap_servers}, {self.data_dir}>"

    async def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] = {}
    ) -> str:
        """Raise KafkaError."""
        await inside.create_topic(self._context, name, partitions, configs)
        return name

    async def topic(
        self, prefix: str = "topic", partitions: int = 1, configs: Mapping[str, str] = {}
    ) -> str:
        """A new topic under a name that nobody else has."""
        return await self.create_topic(new_name(prefix), partitions, configs)

    async def produce(
        self, topic: str, *values: Value | Record, partition: int | None = None
    ) -> list[Record]:
        """Write values or whole records. What was written. Raise KafkaError."""
        return await inside.produce(self._context, topic, values, partition)

    async def records(
        self,
        topic: str,
        count: int | None = None,
        *,
        partition: int | None = None,
        start: int = 0,
        committed: bool = True,
    ) -> list[Record]:
        """What is in a topic: what is committed, or all. With a count, wait until there is as much.
        Raise KafkaError."""
        isolation = inside.isolation_of(committed=committed)
        return await inside.records(self._context, topic, count, partition, start, isolation)
