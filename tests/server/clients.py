"""A client of raw frames on a real socket, and servers whose handlers are a few lines."""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import ExitStack, asynccontextmanager

import trio

from pyk.handlers import api_versions
from pyk.handlers.call import Call, Peer
from pyk.handlers.table import Endpoint
from pyk.server.binding import Listener
from pyk.server.dispatch import Answer, Dispatch, Waiting
from pyk.server.limits import Limits
from pyk.server.listeners import Server, open_server
from pyk.wire.apis import ApiKey
from pyk.wire.frames import Frame, FrameReader
from pyk.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

LOOPBACK = Listener("PLAINTEXT", "127.0.0.1", 0)


def framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


class Client:
    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._reader = FrameReader(10**9)
        self._arrived: deque[Frame] = deque()

    async def send(self, *frames: bytes) -> None:
        await self.stream.send_all(b"".join(map(framed, frames)))

    async def frame(self) -> Frame | None:
        """The next frame, or None where the broker has hung up."""
        while not self._arrived:
            try:
                data = await self.stream.receive_some()
            except trio.BrokenResourceError:
                return None
            if not data:
                return None
            self._arrived.extend(self._reader.feed(data))
        return self._arrived.popleft()

    async def ask(self, frame: bytes) -> Frame | None:
        await self.send(frame)
        return await self.frame()

    def hang_up(self) -> None:
        self.stream.socket.close()


class Running:
    """A server, and the clients that are closed after it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.clients: list[Client] = []

    def hang_up(self) -> None:
        for client in self.clients:
            client.hang_up()


async def connect(running: Running) -> Client:
    address = running.server.addresses[0]
    client = Client(await trio.open_tcp_stream(address.host, address.port))
    running.clients.append(client)
    return client


def list_served(request: ApiVersionsRequest, call: Call, broker: object) -> ApiVersionsResponse:
    """ApiVersions of a broker that serves nothing else."""
    if call.version >= 3:
        call.peer.software_name = request.client_software_name
        call.peer.software_version = request.client_software_version
    return ApiVersionsResponse(api_keys=SERVED)


SERVED = [ApiVersion(api_key=18, min_version=0, max_version=4)]
ENDPOINTS = {
    ApiKey.API_VERSIONS: Endpoint(ApiVersionsRequest, list_served, api_versions.refuse),
}


def echo(frame: Frame, peer: Peer) -> Answer:
    return [framed(bytes(frame))]


def waiting(answer: Awaitable[bytes], *, holds: bool) -> Waiting:
    def finish(found: bytes | Exception) -> Answer:
        if isinstance(found, Exception):
            raise found
        return [framed(found)]

    return Waiting(answer, finish, holds=holds)


@asynccontextmanager
async def serving(
    dispatch: Dispatch = echo,
    *,
    limits: Limits | None = None,
    grace: float = 5.0,
    listeners: Sequence[Listener] = (LOOPBACK,),
) -> AsyncIterator[Running]:
    with ExitStack() as closing:
        async with open_server(
            listeners, dispatch, limits=limits or Limits(), grace=grace
        ) as server:
            running = Running(server)
            closing.callback(running.hang_up)
            yield running


class LogLine(logging.Handler):
    """An event for a line in the log."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self._part = part
        self.seen = trio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._part in record.getMessage():
            self.seen.set()
