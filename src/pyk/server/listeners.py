"""The server: listeners, the connections that they accept, and how all of them end.

    async with open_server([Listener("PLAINTEXT", "localhost", 9092)], dispatch) as server:
        print(server.addresses)

Leaving the block, or its cancellation, is the shutdown: no new connections or requests, a grace
period for the requests that are being handled, and then the end of all connections.
"""

from __future__ import annotations

import logging
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from typing import Final, NamedTuple, TypeAlias

import trio

from pyk.handlers.call import Peer
from pyk.handlers.parked import News
from pyk.server.binding import Listener, bind, listen, prepare
from pyk.server.connection import Connection, Shared
from pyk.server.dispatch import Dispatch
from pyk.server.hangups import HangUps
from pyk.server.limits import Limits, Memory
from pyk.server.watch import watch

ACCEPTED_PER_TURN: Final = 8
PAUSE_MIN: Final = 0.05
PAUSE_MAX: Final = 1.0
DEFAULTS: Final = Limits()

logger = logging.getLogger(__name__)


class Address(NamedTuple):
    """Where a listener does listen."""

    listener: str
    host: str
    port: int


class Server:
    """What is open."""

    def __init__(
        self,
        opened: Sequence[tuple[Listener, socket.socket]],
        shared: Shared,
        nursery: trio.Nursery,
    ) -> None:
        self.addresses = [
            Address(listener.name, *bound.getsockname()[:2]) for listener, bound in opened
        ]
        self.connections: set[Connection] = set()
        self.memory = shared.memory
        self.accepted = 0
        self.refused = 0
        """Because there were too many."""
        self.admits: Callable[[str], bool] = lambda host: True
        """Whether who connects from this address may stay."""
        self._opened = opened
        self._shared = shared
        self._nursery = nursery
        self._accepting = trio.CancelScope()
        self._from_host: Counter[str] = Counter()
        self._numbers = count()
        self._gone = trio.lowlevel.ParkingLot()
        self._has_failed = False

    def limit(self, limits: Limits) -> None:
        """Other limits, for connections to come. Those that are open stay."""
        self._shared.limits = limits

    async def accept(self) -> None:
        """Accept connections until drained."""
        with self._accepting:
            async with trio.open_nursery() as nursery:
                for listener, bound in self._opened:
                    nursery.start_soon(self._accept_from, listener, bound)

    async def drain(self, grace: float) -> None:
        """End all connections, those with requests that are being handled after a while."""
        self._accepting.cancel()
        self._shared.is_draining = True
        self._shared.memory.lift()
        for connection in self.connections:
            connection.drain()
        if not self._has_failed:
            with trio.move_on_after(grace):
                await self._wait_until_gone()
        if self.connections:
            logger.warning("closing %s connections that still wait", len(self.connections))
        self._cancel_connections()
        await self._wait_until_gone()

    async def _wait_until_gone(self) -> None:
        while self.connections:
            await self._gone.park()

    def _cancel_connections(self) -> None:
        for connection in self.connections:
            connection.scope.cancel()

    async def _accept_from(self, listener: Listener, bound: socket.socket) -> None:
        pause = PAUSE_MIN
        with bound:
            while True:
                try:
                    await self._accept_some(listener, bound)
                    pause = PAUSE_MIN
                except ConnectionAbortedError:
                    continue  # It was gone before it was here.
                except Exception as error:
                    is_bug = not isinstance(error, OSError)
                    what = "%s cannot accept connections: %s"
                    logger.warning(what, listener.name, error, exc_info=is_bug)
                    await trio.sleep(pause)
                    pause = min(2 * pause, PAUSE_MAX)

    async def _accept_some(self, listener: Listener, bound: socket.socket) -> None:
        for _ in range(ACCEPTED_PER_TURN):
            try:
                accepted, address = bound.accept()
            except BlockingIOError:
                await trio.lowlevel.wait_readable(bound)
                return
            self._admit(listener, accepted, address[0], address[1])
        await trio.lowlevel.checkpoint()

    def _admit(self, listener: Listener, accepted: socket.socket, host: str, port: int) -> None:
        limits = self._shared.limits
        refusal = "" if self.admits(host) else "it is not admitted"
        if len(self.connections) >= limits.connections_max:
            refusal = f"there are {limits.connections_max}, which is the limit"
        elif self._from_host[host] >= limits.connections_max_of(host):
            refusal = (
                f"it has {limits.connections_max_of(host)}, which is the limit for one address"
            )
        if refusal:
            self.refused += 1
            self._shared.closings.note(host, refusal)
            accepted.close()
            return
        self.accepted += 1
        try:
            prepare(accepted, limits)
            reached = accepted.getsockname()
        except OSError:
            accepted.close()  # It is gone already.
            return
        peer = Peer(
            connection_id=f"{reached[0]}:{reached[1]}-{host}:{port}-{next(self._numbers)}",
            listener=listener.name,
            host=host,
            port=port,
            reached_host=reached[0],
            reached_port=reached[1],
        )
        connection = Connection(accepted, peer, self._shared)
        self.connections.add(connection)
        self._from_host[host] += 1
        self._nursery.start_soon(self._serve, connection, name=peer.connection_id)

    async def _serve(self, connection: Connection) -> None:
        try:
            await connection.serve()
        except BaseException:
            # No exception of this connection's: nobody is to be answered any more.
            self._has_failed = True
            self._cancel_connections()
            raise
        finally:
            host = connection.peer.host
            self.connections.discard(connection)
            self._from_host[host] -= 1
            if not self._from_host[host]:
                del self._from_host[host]
            if not self.connections:
                self._gone.unpark_all()


Bound: TypeAlias = Sequence[tuple[Listener, socket.socket]]
"""Sockets that have their ports."""


@asynccontextmanager
async def open_listeners(listeners: Sequence[Listener], limits: Limits) -> AsyncIterator[Bound]:
    """Have the ports, on which nobody is heard yet. Raise CannotListen."""
    with ExitStack() as closing:
        yield [
            (listener, closing.enter_context(bound))
            for listener in listeners
            for bound in await bind(listener, limits)
        ]


@asynccontextmanager
async def open_server(
    listeners: Sequence[Listener],
    dispatch: Dispatch,
    *,
    limits: Limits = DEFAULTS,
    news: News | None = None,
    grace: float = 5.0,
) -> AsyncIterator[Server]:
    """Listen, and serve while the block runs. Raise CannotListen."""
    async with (
        open_listeners(listeners, limits) as bound,
        serve(bound, dispatch, limits=limits, news=news, grace=grace) as server,
    ):
        yield server


@asynccontextmanager
async def serve(
    bound: Bound,
    dispatch: Dispatch,
    *,
    limits: Limits = DEFAULTS,
    news: News | None = None,
    grace: float = 5.0,
) -> AsyncIterator[Server]:
    """Serve while the block runs. `news` is what requests bring to those who wait. CannotListen
    if it cannot. What is no `Exception` in a handler ends the block at once, in an exception
    group."""
    with HangUps() as hang_ups:
        for listener, opened in bound:
            listen(listener, opened, limits)
        memory = Memory(limits.buffered_bytes_max)
        shared = Shared(dispatch, limits, memory, hang_ups, News() if news is None else news)
        async with trio.open_nursery() as nursery:
            server = Server(bound, shared, nursery)
            nursery.start_soon(hang_ups.run)
            nursery.start_soon(shared.farewells.run)
            nursery.start_soon(watch, server.connections, limits, shared.memory, shared.closings)
            nursery.start_soon(server.accept)
            try:
                yield server
            finally:
                with trio.CancelScope(shield=True):
                    await server.drain(grace)
                nursery.cancel_scope.cancel()
