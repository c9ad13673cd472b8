"""A broker as a process of its own: its signals, the pages it shows, and how it uses Python.

    pages > broker > figures

What tests start in their own process needs nothing of this.
"""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import Final, NamedTuple

import trio

from pyk.broker import Broker, World, only_one, open_broker
from pyk.config.settings import BrokerSettings
from pyk.handlers.table import ENDPOINTS
from pyk.telemetry.figures import Figures
from pyk.telemetry.http import CannotListen, open_http
from pyk.telemetry.pages import Status
from pyk.telemetry.scrape import Scrapes
from pyk.telemetry.systemd import notify

logger = logging.getLogger(__name__)

COLLECTED_AFTER: Final = (2_000, 10, 1_000)
"""Objects, collections of the young, collections of the older: all are looked at when twenty
million more have been made than let go."""
IMPORT_PAUSE: Final = 1.0
NEEDED_LATER: Final = (
    "pyk.coordinator.group_coordinator",
    "pyk.coordinator.transaction_coordinator",
)
"""Modules that are imported by what first needs them."""


class HttpWish(NamedTuple):
    """Where metrics are to be shown: at the port, or else at the usual one if that is free."""

    host: str
    port: int | None
    usual_port: int


class Opened(NamedTuple):
    """Where a broker listens."""

    addresses: Sequence[tuple[str, int]]
    http: tuple[str, int] | None


async def serve(
    settings: BrokerSettings,
    announce: Callable[[Opened], None],
    http: HttpWish | None = None,
    world: World | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, which also end a start. `announce` is told the addresses once
    they are open.

    Raise what docs/operations.md has under "What ends a broker".
    """
    world = world or World()
    life = Life(Status(recovery=world.recovery))
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        try:
            async with open_pages(http, life.status) as page, trio.open_nursery() as nursery:
                nursery.start_soon(life.end_at_signal, signals)
                with life.start:
                    async with open_broker(settings, world) as broker:
                        life.is_open = True
                        await _serve_until(life, broker, announce, page)
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise only_one(group) from None


class Life:
    """From the first moment of a start to the signal that ends the broker."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.start = trio.CancelScope()
        self.is_open = False
        self.is_over = trio.Event()

    async def end_at_signal(self, signals: AsyncIterator[int]) -> None:
        async for _ in signals:
            break
        self.status.is_stopping = True
        notify("STOPPING=1")
        self.is_over.set()
        if not self.is_open:
            # What is open leaves its block by itself: the logs are closed only then.
            self.start.cancel()


async def _serve_until(
    life: Life, broker: Broker, announce: Callable[[Opened], None], page: tuple[str, int] | None
) -> None:
    async with observed(broker) as figures:
        life.status.scrapes = Scrapes(figures)
        _spare_the_loop()
        addresses = [(address.host, address.port) for address in broker.addresses]
        announce(Opened(addresses, page))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(import_the_rest)
            await life.is_over.wait()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_pages(
    wish: HttpWish | None, status: Status
) -> AsyncIterator[tuple[str, int] | None]:
    if wish is None:
        yield None
        return
    async with AsyncExitStack() as stack:
        port = wish.usual_port if wish.port is None else wish.port
        try:
            address = await stack.enter_async_context(open_http(wish.host, port, status.pages))
        except CannotListen:
            if wish.port is not None:
                raise
            # Nobody asked for this one, and another broker on the machine may have it.
            address = await stack.enter_async_context(open_http(wish.host, 0, status.pages))
        yield address


@asynccontextmanager
async def observed(broker: Broker) -> AsyncIterator[Figures]:
    """The figures of a broker, among them those that need somebody to watch all the time."""
    figures = Figures(
        context=broker.context, server=broker.server, traffic=broker.dispatcher.traffic
    )
    async with figures.loop.opened():
        yield figures


async def import_the_rest() -> None:
    """What a start leaves for later, a little at a time. A process lives for long, and all of it
    must be of one version: the files may be replaced under it."""
    for key in ENDPOINTS:
        await _imported(partial(ENDPOINTS.__getitem__, key))
    for name in NEEDED_LATER:
        await _imported(partial(import_module, name))
    gc.freeze()


async def _imported(run: Callable[[], object]) -> None:
    """Return once it is. Without a descriptor no module can be read, and one may be free later."""
    while True:
        await trio.lowlevel.checkpoint()
        try:
            run()
        except OSError as failed:
            logger.warning("what is needed later is not imported yet: %s", failed)
            await trio.sleep(IMPORT_PAUSE)
        else:
            return


def _spare_the_loop() -> None:
    """Keep the garbage collector from looking at everything while clients wait: 37 ms when a
    thousand of them have come, 160 ms when ten thousand have. What it took to start lives on
    anyway, and the few cycles that connections leave are found while they are young."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)
