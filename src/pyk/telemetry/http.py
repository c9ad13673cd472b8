"""A small HTTP server for those who look after a broker. It answers GET and HEAD.

    async with open_http("localhost", 9644, {"/live": live}) as address: ...

Whoever asks gets text. Headers and bodies are bounded by h11, connections and time here. Nothing
that goes wrong with a page or a client ends more than its connection.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

if TYPE_CHECKING:
    import h11

PATIENCE: Final = 10.0
"""Seconds that a client may take to ask, and to read the answer."""
CONNECTIONS_MAX: Final = 64
RECEIVE_BYTES: Final = 16 * 1024
PLAIN: Final = "text/plain; charset=utf-8"

logger = logging.getLogger(__name__)


class CannotListen(Exception):
    """The port for pages cannot be had."""


class Page(NamedTuple):
    text: str | Sequence[bytes]
    """In parts if there is much of it."""
    status: int = 200
    content_type: str = PLAIN

    @property
    def parts(self) -> Sequence[bytes]:
        return [self.text.encode()] if isinstance(self.text, str) else self.text


Pages = Mapping[str, Callable[[], Awaitable[Page]]]


@asynccontextmanager
async def open_http(host: str, port: int, pages: Pages) -> AsyncIterator[tuple[str, int]]:
    """Serve pages while the block runs; the address is the first of those that are open. Raise
    CannotListen."""
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as failed:
        raise CannotListen(f"cannot listen on {host}:{port} for HTTP: {failed}") from failed
    visitors = Visitors(pages)
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_listeners, visitors.serve, listeners)
        await nursery.start(serve)
        shown = listeners[0].socket.getsockname()
        yield shown[0], shown[1]
        nursery.cancel_scope.cancel()


class Visitors:
    """Those who are connected. When there are too many, whoever has been silent for longest makes
    room, or else whoever has been reading an answer for longest: connections that say nothing, or
    read nothing, keep nobody from asking whether the broker lives."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._silent: dict[trio.CancelScope, None] = {}
        """Who has not asked for anything, or not again, in the order in which they fell silent."""
        self._asking: set[trio.CancelScope] = set()
        """Whose page is being made."""
        self._reading: dict[trio.CancelScope, None] = {}
        """Who is being sent a page, in the order in which that began."""

    async def serve(self, stream: trio.SocketStream) -> None:
        count = len(self._silent) + len(self._asking) + len(self._reading)
        if count >= CONNECTIONS_MAX and not self._make_room():
            await stream.aclose()
            return
        scope = trio.CancelScope()
        self._silent[scope] = None
        try:
            async with stream:
                with scope:
                    await self._converse(stream, scope)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # It hung up.
        except Exception:
            logger.exception("a connection for HTTP has failed")
        finally:
            self._silent.pop(scope, None)
            self._asking.discard(scope)
            self._reading.pop(scope, None)

    def _make_room(self) -> bool:
        for those in (self._silent, self._reading):
            longest = next(iter(those), None)
            if longest is not None:
                del those[longest]
                longest.cancel()
                return True
        return False

    async def _converse(self, stream: trio.SocketStream, scope: trio.CancelScope) -> None:
        # Only who looks at a broker pays for it.
        import h11

        connection = h11.Connection(h11.SERVER)
        asked: h11.Request | None
        while True:
            asked = None
            with trio.move_on_after(PATIENCE):
                try:
                    asked = await _request(connection, stream)
                except h11.RemoteProtocolError as broken:
                    if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                        refusal = Page(f"{broken}\n", broken.error_status_hint)
                        await _send(connection, stream, refusal, closes=True)
            if asked is None:
                return
            self._silent.pop(scope, None)
            self._asking.add(scope)
            page = await _answer(self._pages, asked)
            self._asking.discard(scope)
            self._reading[scope] = None
            with trio.move_on_after(PATIENCE):
                await _send(connection, stream, page, is_head=asked.method == b"HEAD")
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()
            self._reading.pop(scope, None)
            self._silent[scope] = None


async def _answer(pages: Pages, asked: h11.Request) -> Page:
    target = asked.target.decode("ascii", "replace").partition("?")[0]
    page = pages.get(target)
    if page is None:
        return Page(f"There are {', '.join(sorted(pages))}.\n", 404)
    if asked.method not in (b"GET", b"HEAD"):
        return Page("Only GET and HEAD are answered.\n", 405)
    try:
        return await page()
    except Exception:
        logger.exception("%s cannot be shown", target)
        return Page(f"{target} cannot be shown. The broker's log says why.\n", 500)


async def _request(connection: h11.Connection, stream: trio.SocketStream) -> h11.Request | None:
    """The next one, with its body read and dropped. None if there will be none."""
    import h11

    found: h11.Request | None = None
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(RECEIVE_BYTES))
        elif isinstance(event, h11.Request):
            found = event
        elif isinstance(event, h11.EndOfMessage):
            return found
        elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            return None


async def _send(
    connection: h11.Connection,
    stream: trio.SocketStream,
    page: Page,
    *,
    is_head: bool = False,
    closes: bool = False,
) -> None:
    import h11

    parts = page.parts
    headers = [
        ("Content-Type", page.content_type),
        ("Content-Length", str(sum(map(len, parts)))),
        *([("Connection", "close")] if closes else []),
    ]
    sent = connection.send(h11.Response(status_code=page.status, headers=headers)) or b""
    for part in () if is_head else parts:
        await stream.send_all(sent + (connection.send(h11.Data(data=part)) or b""))
        sent = b""
    sent += connection.send(h11.EndOfMessage()) or b""
    if sent:
        await stream.send_all(sent)
