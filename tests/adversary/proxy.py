"""A network that is against its clients: a proxy that knows requests, and holds some of them.

    client -> connection -> [held] -> connection of its own -> broker

- The order on a connection is kept, as TCP keeps it: what comes behind a held request waits too.
- What is held is delivered on its own connection, whether the client is still there or not. Its
  bytes were on their way when the client gave up.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from enum import Enum, auto
from typing import Any, NamedTuple

import trio

from pyk.wire.apis import ApiKey
from pyk.wire.frames import Frame, FrameReader
from pyk.wire.request import decode_response, read_header

HOST = "127.0.0.1"
FRAME_BYTES_MAX = 2**30
RECEIVE_BYTES = 65_536


class Way(Enum):
    """How a request goes through the network."""

    PROMPT = auto()
    HELD = auto()
    """It waits in the network until somebody delivers it."""
    UNANSWERED = auto()
    """The broker gets it, and the client never hears of it."""


class Request(NamedTuple):
    key: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    frame: Frame


class Caught:
    """A request that the network holds, or whose answer it keeps to itself."""

    def __init__(self, request: Request, way: Way) -> None:
        self.request, self.way = request, way
        self.answer: Any = None
        """What the broker said, or None if it hung up instead."""
        self._released, self._answered = trio.Event(), trio.Event()
        self.is_dropped = False

    async def deliver(self) -> Any:
        """What the broker says to it, at last."""
        self._released.set()
        return await self.answered()

    async def answered(self) -> Any:
        await self._answered.wait()
        return self.answer

    def drop(self) -> None:
        """Nobody ever gets it."""
        self.is_dropped = True
        self._released.set()

    async def released(self) -> None:
        await self._released.wait()

    def take_answer(self, answer: Any) -> None:
        self.answer = answer
        self._answered.set()


class Trap:
    """What is to be caught: so many requests of an API, of one client or of any."""

    def __init__(self, key: ApiKey, way: Way, client_id: str | None, times: int) -> None:
        self._key, self.way, self._client_id = key, way, client_id
        self._left = times
        self._send, self._receive = trio.open_memory_channel[Caught](times)

    def catches(self, request: Request) -> bool:
        is_mine = self._client_id is None or self._client_id == request.client_id
        return self._left > 0 and is_mine and self._key is request.key

    def put(self, caught: Caught) -> None:
        self._left -= 1
        self._send.send_nowait(caught)

    def disarm(self) -> None:
        """Catch no more."""
        self._left = 0

    async def caught(self) -> Caught:
        """The next one, when it is there."""
        return await self._receive.receive()


class Adversary:
    """Between clients, who connect to its address, and a broker."""

    def __init__(self, broker: str, port: int) -> None:
        self._broker, self.port = broker, port
        self.address = f"{HOST}:{port}"
        self._traps: list[Trap] = []

    def trap(
        self,
        key: ApiKey,
        way: Way = Way.HELD,
        *,
        client_id: str | None = None,
        times: int = 1,
    ) -> Trap:
        trap = Trap(key, way, client_id, times)
        self._traps.append(trap)
        return trap

    def caught(self, request: Request) -> Caught | None:
        for trap in self._traps:
            if trap.catches(request):
                caught = Caught(request, trap.way)
                trap.put(caught)
                return caught
        return None

    async def serve(self, client: trio.SocketStream) -> None:
        host, _, port = self._broker.rpartition(":")
        try:
            broker = await trio.open_tcp_stream(host, int(port))
        except OSError:
            await client.aclose()
            return
        connection = _Connection(self, client, broker)
        async with client, broker:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(connection.pass_answers)
                    await connection.pass_requests()
            finally:
                connection.give_up()


class _Connection:
    def __init__(
        self, adversary: Adversary, client: trio.SocketStream, broker: trio.SocketStream
    ) -> None:
        self._adversary, self._client, self._broker = adversary, client, broker
        self._asked: dict[int, tuple[Request, Caught | None]] = {}
        """What the broker has not answered yet, by correlation id."""
        self._is_client_gone = False

    async def pass_requests(self) -> None:
        frames = FrameReader(FRAME_BYTES_MAX)
        while data := await _received(self._client):
            for frame in frames.feed(data):
                await self._pass_request(frame)
        self._is_client_gone = True
        self._hang_up_when_done()

    async def _pass_request(self, frame: Frame) -> None:
        header, _ = read_header(frame)
        request = Request(
            ApiKey(header.request_api_key),
            header.request_api_version,
            header.correlation_id,
            header.client_id,
            frame,
        )
        caught = self._adversary.caught(request)
        if caught is not None and caught.way is Way.HELD:
            await caught.released()
            if caught.is_dropped:
                return
        self._asked[request.correlation_id] = (request, caught)
        await _sent(self._broker, frame)

    async def pass_answers(self) -> None:
        frames = FrameReader(FRAME_BYTES_MAX)
        while data := await _received(self._broker):
            for frame in frames.feed(data):
                await self._pass_answer(frame)
        await self._client.aclose()

    async def _pass_answer(self, frame: Frame) -> None:
        correlation_id = int.from_bytes(frame[:4], "big")
        request, caught = self._asked.pop(correlation_id)
        if caught is not None:
            _, answer = decode_response(request.key, request.version, frame)
            caught.take_answer(answer)
        if caught is None or caught.way is not Way.UNANSWERED:
            await _sent(self._client, frame)
        self._hang_up_when_done()

    def _hang_up_when_done(self) -> None:
        # What it was still asked must reach the broker, and not meet a connection that is closed.
        if self._is_client_gone and not self._asked:
            self._broker.socket.close()

    def give_up(self) -> None:
        for _, caught in self._asked.values():
            if caught is not None:
                caught.take_answer(None)


async def _received(stream: trio.SocketStream) -> bytes:
    try:
        return bytes(await stream.receive_some(RECEIVE_BYTES))
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return b""


async def _sent(stream: trio.SocketStream, frame: Frame) -> None:
    with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
        await stream.send_all(len(frame).to_bytes(4, "big") + frame)


@asynccontextmanager
async def open_adversary(broker: str, port: int = 0) -> AsyncIterator[Adversary]:
    """In front of the broker with this address, on a port that it may have been told of."""
    [listener] = await trio.open_tcp_listeners(port, host=HOST)
    adversary = Adversary(broker, listener.socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, adversary.serve, [listener])
        yield adversary
        nursery.cancel_scope.cancel()
