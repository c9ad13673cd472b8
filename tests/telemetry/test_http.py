"""The HTTP server, asked by the standard library's client and by raw bytes."""

from __future__ import annotations

import http.client
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from pyk.telemetry.http import CONNECTIONS_MAX, PATIENCE, Page, open_http

PAGES = {"/live": lambda: Page("yes\n"), "/figures": lambda: Page("1\n", content_type="text/x")}


@asynccontextmanager
async def connected() -> AsyncIterator[trio.SocketStream]:
    async with (
        open_http("127.0.0.1", 0, PAGES) as address,
        await trio.open_tcp_stream(*address) as stream,
    ):
        yield stream


async def ask(*requests: tuple[str, str]) -> list[tuple[int, str, str | None]]:
    """The status, body and type of each answer, on one connection."""

    def converse(address: tuple[str, int]) -> list[tuple[int, str, str | None]]:
        connection, found = http.client.HTTPConnection(*address, timeout=20), []
        for method, target in requests:
            connection.request(method, target, body=b"x" if method == "POST" else None)
            answer = connection.getresponse()
            kind = answer.getheader("Content-Type")
            found.append((answer.status, answer.read().decode(), kind))
        connection.close()
        return found

    async with open_http("127.0.0.1", 0, PAGES) as address:
        return await trio.to_thread.run_sync(converse, address)


async def receive_all(stream: trio.SocketStream) -> bytes:
    return b"".join([data async for data in stream])


async def test_pages_are_served_one_after_the_other_on_a_connection() -> None:
    plain = "text/plain; charset=utf-8"
    assert await ask(("GET", "/live"), ("GET", "/figures?x=1"), ("HEAD", "/live")) == [
        (200, "yes\n", plain),
        (200, "1\n", "text/x"),
        (200, "", plain),
    ]


async def test_what_is_not_there_and_what_is_not_asked_for_with_get_is_refused() -> None:
    answers = await ask(("GET", "/"), ("POST", "/live"), ("GET", "/live"))
    assert [status for status, _, _ in answers] == [404, 405, 200]
    assert answers[0][1] == "There are /figures, /live.\n"


@pytest.mark.parametrize(
    "hostile",
    [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nA: " + b"x" * 10**6],
    ids=["no HTTP", "no host", "endless headers"],
)
async def test_what_is_not_http_is_told_so_and_hung_up_on(hostile: bytes) -> None:
    async with connected() as stream:
        try:
            await stream.send_all(hostile)
            assert (await receive_all(stream)).startswith(b"HTTP/1.1 4")
        except trio.BrokenResourceError:
            pass  # It was told before it had said all.


async def test_who_is_slow_is_hung_up_on(autojump_clock: Any) -> None:
    async with connected() as stream:
        await stream.send_all(b"GET /live HTT")
        assert await receive_all(stream) == b""
        assert trio.current_time() == pytest.approx(PATIENCE)


async def test_there_is_an_end_to_connections(autojump_clock: Callable[[], None]) -> None:
    async with open_http("127.0.0.1", 0, PAGES) as address:
        streams = [await trio.open_tcp_stream(*address) for _ in range(CONNECTIONS_MAX)]
        await trio.testing.wait_all_tasks_blocked(0.01)
        async with await trio.open_tcp_stream(*address) as one_more:
            assert await receive_all(one_more) == b""
        for stream in streams:
            await stream.aclose()
