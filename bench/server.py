"""The server beside a bare trio echo loop of the same shape: what is ours of a round trip.

Both run in a process of their own, and so does the generator. The echo answers as many bytes as
the broker does; it reads no header and calls no handler.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import trio

from bench.generator import REPOSITORY, Load, load
from bench.table import Row
from pyk.handlers import api_versions
from pyk.handlers.call import Call, Peer
from pyk.handlers.table import Endpoint
from pyk.server.binding import Listener
from pyk.server.dispatch import Answer, Dispatch, Dispatcher
from pyk.server.listeners import open_server
from pyk.types import FileSlice
from pyk.wire.apis import ApiKey
from pyk.wire.frames import Frame
from pyk.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

TITLE = "The server: ApiVersions v0, and slices of a file, beside a bare echo on trio"
API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 7, -1)
SLICE_BYTES: Final = 1024**2
ROUNDS: Final = 3
SECONDS: Final = 1.0
Address = tuple[str, int]


def rows() -> Sequence[Row]:
    with ExitStack() as stack:
        broker, echo, files, bare_files = (
            stack.enter_context(served_by(kind)) for kind in ("broker", "echo", "files", "sendfile")
        )
        return [
            latency("round trip, 1 connection", {"pyk": broker, "echo": echo}),
            rate("50 connections, one request each", {"pyk": broker, "echo": echo}, 50, 1),
            rate("1 connection, 100 pipelined", {"pyk": broker, "echo": echo}, 1, 100),
            rate("50 connections, 20 pipelined", {"pyk": broker, "echo": echo}, 50, 20),
            megabytes("answers of 1 MB by sendfile", {"pyk": files, "echo": bare_files}),
        ]


def best(
    contestants: dict[str, Address], measure: Callable[[Address], Load]
) -> dict[str, list[Load]]:
    found: dict[str, list[Load]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, address in contestants.items():
            found[name].append(measure(address))
    return found


def latency(what: str, contestants: dict[str, Address]) -> Row:
    found = best(contestants, lambda address: load(address, [API_VERSIONS], seconds=SECONDS))
    figures = {name: min(each.p50_us for each in loads) for name, loads in found.items()}
    rates = ", ".join(
        f"{name} {max(each.rate for each in loads):,.0f}/s" for name, loads in found.items()
    )
    return Row(f"{what} ({rates})", "us", figures)


def rate(what: str, contestants: dict[str, Address], connections: int, in_flight: int) -> Row:
    found = best(
        contestants,
        lambda address: load(
            address, [API_VERSIONS], connections=connections, in_flight=in_flight, seconds=SECONDS
        ),
    )
    figures = {name: max(each.rate for each in loads) / 1e3 for name, loads in found.items()}
    return Row(what, "k/s", figures)


def megabytes(what: str, contestants: dict[str, Address]) -> Row:
    found = best(
        contestants, lambda address: load(address, [API_VERSIONS], in_flight=2, seconds=SECONDS)
    )
    return Row(
        what,
        "MB/s",
        {
            name: max(each.answer_bytes_per_second for each in loads) / 1e6
            for name, loads in found.items()
        },
    )


@contextmanager
def served_by(kind: str) -> Iterator[Address]:
    command = [sys.executable, "-m", "bench.server", kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY, text=True) as process:
        try:
            assert process.stdout is not None
            yield "127.0.0.1", int(process.stdout.readline())
        finally:
            process.kill()


def list_served(request: ApiVersionsRequest, call: Call, broker: object) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, min_version=0, max_version=4)])


async def serve_broker() -> None:
    endpoint = Endpoint(ApiVersionsRequest, list_served, api_versions.refuse)
    await serve(Dispatcher({ApiKey.API_VERSIONS: endpoint}, None))


async def serve_files() -> None:
    with a_file() as file:
        head = struct.pack(">i", SLICE_BYTES)

        def answer(frame: Frame, peer: Peer) -> Answer:
            return [head, FileSlice(file, 0, SLICE_BYTES)]

        await serve(answer)


async def serve(dispatch: Dispatch) -> None:
    async with open_server([Listener("PLAINTEXT", "127.0.0.1", 0)], dispatch) as server:
        print(server.addresses[0].port, flush=True)
        await trio.sleep_forever()


async def serve_echo() -> None:
    answer = struct.pack(">iihihhh", 16, 7, 0, 1, 18, 0, 4)
    buffer = bytearray(256 * 1024)

    async def echo(connection: socket.socket) -> None:
        received = 0
        while True:
            try:
                size = connection.recv_into(buffer)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(connection)
                continue
            if not size:
                return
            received += size
            connection.send(answer * (received // len(API_VERSIONS)))
            received %= len(API_VERSIONS)

    await accept(echo)


async def serve_sendfile() -> None:
    with a_file() as file:
        head = struct.pack(">i", SLICE_BYTES)

        async def send(connection: socket.socket) -> None:
            while True:
                await trio.lowlevel.wait_readable(connection)
                size = len(connection.recv(1024))
                if not size:
                    return
                for _ in range(size // len(API_VERSIONS)):
                    connection.send(head, socket.MSG_MORE)
                    sent = 0
                    while sent < SLICE_BYTES:
                        try:
                            sent += os.sendfile(
                                connection.fileno(), file.fileno(), sent, SLICE_BYTES - sent
                            )
                        except BlockingIOError:
                            await trio.lowlevel.wait_writable(connection)

        await accept(send)


async def accept(handle: Callable[[socket.socket], Awaitable[None]]) -> None:
    async def handle_until_reset(connection: socket.socket) -> None:
        with connection, suppress(ConnectionError):
            await handle(connection)

    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listener.setblocking(False)
    print(listener.getsockname()[1], flush=True)
    async with trio.open_nursery() as nursery:
        while True:
            await trio.lowlevel.wait_readable(listener)
            connection, _ = listener.accept()
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            nursery.start_soon(handle_until_reset, connection)


@contextmanager
def a_file() -> Iterator[tempfile._TemporaryFileWrapper[bytes]]:
    with tempfile.NamedTemporaryFile(prefix="pyk-bench-") as file:
        file.write(os.urandom(SLICE_BYTES))
        file.flush()
        yield file


KINDS: Final = {
    "broker": serve_broker,
    "files": serve_files,
    "echo": serve_echo,
    "sendfile": serve_sendfile,
}

if __name__ == "__main__":
    trio.run(KINDS[sys.argv[1]])
