"""The HTTP server, asked by the standard library's client and by raw bytes."""

from __future__ import annotations

import http.client
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from pyk.telemetry.http import CONNECTIONS_MAX, PATIENCE, Page, open_http


async def live() -> Page:
    return Page("yes\n")


async def figures() -> Page:
    return Page([b"1\n", b"2\n"], content_type="text/x")


async def broken() -> Page:
    raise OSError(24, "Too many open files")


PAGES = {"/live": live, "/figures": figures}


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
        (200, "1\n2\n", "text/x"),
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


async def test_connections_that_say_nothing_keep_nobody_from_asking() -> None:
    async with open_http("127.0.0.1", 0, PAGES) as address, AsyncExitStack() as stack:
        silent = [await connect(address, stack) for _ in range(CONNECTIONS_MAX)]
        await trio.testing.wait_all_tasks_blocked(0.01)
        for stream in silent[:3]:
            assert await ask_on(await connect(address, stack)) == b"yes\n"
            assert await receive_all(stream) == b"", "who was silent for longest makes room"
        assert await ask_on(silent[3]) == b"yes\n", "the others stay"


async def test_connections_that_read_nothing_keep_nobody_from_asking() -> None:
    made = 0

    async def large() -> Page:
        nonlocal made
        made += 1
        return Page([bytes(10**6)] * 20)

    pages = {**PAGES, "/large": large}
    async with open_http("127.0.0.1", 0, pages) as address, AsyncExitStack() as stack:
        idle = [await connect(address, stack) for _ in range(CONNECTIONS_MAX)]
        for stream in idle:
            await stream.send_all(request_for("/large") * 3)
        while made < CONNECTIONS_MAX:
            await trio.testing.wait_all_tasks_blocked(0.01)
        for _ in range(3):
            assert await ask_on(await connect(address, stack)) == b"yes\n"


async def test_who_has_asked_is_not_hung_up_on_to_make_room(autojump_clock: Any) -> None:
    asked, goes_on = trio.Semaphore(0), trio.Event()

    async def slow() -> Page:
        asked.release()
        await goes_on.wait()
        return Page("yes\n")

    async with (
        open_http("127.0.0.1", 0, {"/live": slow}) as address,
        AsyncExitStack() as stack,
        trio.open_nursery() as nursery,
    ):
        answers: list[bytes] = []

        async def ask_and_note() -> None:
            answers.append(await ask_on(await connect(address, stack)))

        for _ in range(CONNECTIONS_MAX):
            nursery.start_soon(ask_and_note)
            await asked.acquire()
        assert await receive_all(await connect(address, stack)) == b"", "there is an end to them"
        goes_on.set()
    assert answers == [b"yes\n"] * CONNECTIONS_MAX


async def test_a_page_that_fails_is_said_to_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pages = {**PAGES, "/broken": broken}
    async with open_http("127.0.0.1", 0, pages) as address, AsyncExitStack() as stack:
        stream = await connect(address, stack)
        await stream.send_all(request_for("/broken"))
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 500")
        assert await ask_on(stream) == b"yes\n"
    (record,) = [each for each in caplog.records if each.exc_info]
    assert "/broken" in record.getMessage()


async def connect(address: tuple[str, int], stack: AsyncExitStack) -> trio.SocketStream:
    return await stack.enter_async_context(await trio.open_tcp_stream(*address))


def request_for(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode()


async def ask_on(stream: trio.SocketStream) -> bytes:
    """The body of /live."""
    await stream.send_all(request_for("/live"))
    answer = b""
    while not answer.endswith(b"\r\n\r\nyes\n"):
        received = await stream.receive_some()
        assert received
        answer += received
    return answer.partition(b"\r\n\r\n")[2]
