"""A small HTTP server for those who look after a broker. It answers GET and HEAD.

    async with open_http("localhost", 9644, {"/live": live}) as address: ...

Whoever asks gets text. Headers and bodies are bounded by h11, connections and time here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from pyk.declared import NamedTuple

if TYPE_CHECKING:
    import h11

PATIENCE: Final = 10.0
"""Seconds that a client may take for a request, or for its answer."""
CONNECTIONS_MAX: Final = 64
RECEIVE_BYTES: Final = 16 * 1024
PLAIN: Final = "text/plain; charset=utf-8"


class CannotListen(Exception):
    """The port for pages cannot be had."""


class Page(NamedTuple):
    text: str
    status: int = 200
    content_type: str = PLAIN


Pages = Mapping[str, Callable[[], Page]]


@asynccontextmanager
async def open_http(host: str, port: int, pages: Pages) -> AsyncIterator[tuple[str, int]]:
    """Serve pages while the block runs; the address is the first of those that are open. Raise
    CannotListen."""
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as failed:
        raise CannotListen(f"cannot listen on {host}:{port} for HTTP: {failed}") from failed
    limiter = trio.CapacityLimiter(CONNECTIONS_MAX)
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_listeners, partial(_serve, pages, limiter), listeners)
        await nursery.start(serve)
        shown = listeners[0].socket.getsockname()
        yield shown[0], shown[1]
        nursery.cancel_scope.cancel()


async def _serve(pages: Pages, limiter: trio.CapacityLimiter, stream: trio.SocketStream) -> None:
    try:
        limiter.acquire_nowait()
    except trio.WouldBlock:
        await stream.aclose()
        return
    try:
        async with stream:
            await _converse(pages, stream)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return  # It hung up.
    finally:
        limiter.release()


async def _converse(pages: Pages, stream: trio.SocketStream) -> None:
    # Only who looks at a broker pays for it.
    import h11

    connection = h11.Connection(h11.SERVER)
    while True:
        with trio.move_on_after(PATIENCE):
            try:
                asked = await _request(connection, stream)
            except h11.RemoteProtocolError as broken:
                if connection.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                    refusal = Page(f"{broken}\n", broken.error_status_hint)
                    await _send(connection, stream, refusal, closes=True)
                return
            if asked is None:
                return
            await _send(connection, stream, _answer(pages, asked), is_head=asked.method == b"HEAD")
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()
            continue
        return


def _answer(pages: Pages, asked: h11.Request) -> Page:
    page = pages.get(asked.target.decode("ascii", "replace").partition("?")[0])
    if page is None:
        return Page(f"There are {', '.join(sorted(pages))}.\n", 404)
    if asked.method not in (b"GET", b"HEAD"):
        return Page("Only GET and HEAD are answered.\n", 405)
    return page()


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

    body = page.text.encode()
    headers = [
        ("Content-Type", page.content_type),
        ("Content-Length", str(len(body))),
        *([("Connection", "close")] if closes else []),
    ]
    response = h11.Response(status_code=page.status, headers=headers)
    sent = connection.send(response) or b""
    if not is_head:
        sent += connection.send(h11.Data(data=body)) or b""
    sent += connection.send(h11.EndOfMessage()) or b""
    await stream.send_all(sent)
