"""A client in the process of the broker, on a connection without a socket: frames go to its
dispatcher, and answers come out of it. What is slept is the virtual clock's time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from pyk.broker import Broker
from pyk.disk import File
from pyk.errors import ProtocolError
from pyk.handlers.call import Peer
from pyk.server.dispatch import Answer, Waiting
from pyk.types import FileSlice, Records
from pyk.wire.apis import ApiKey
from pyk.wire.message import layout
from pyk.wire.request import decode_response, encode_request
from pyk.wire.shapes import Chunks


class HungUp(Exception):
    """The broker has closed the connection: nobody knows what became of the request."""


class Client:
    def __init__(self, broker: Broker) -> None:
        self._dispatcher = broker.dispatcher
        self._sent = 0
        self._peer = _peer()

    async def ask(self, request: Any, version: int) -> Any:
        """The response. Raise HungUp, after which there is another connection."""
        number = layout(type(request)).api_key
        assert number is not None
        key = ApiKey(number)
        self._sent += 1
        frame = _joined(encode_request(key, version, self._sent, "client", request))
        try:
            chunks = await self._answered(bytearray(frame[4:]))
            answer = _joined(chunks)
        except (ProtocolError, OSError) as failure:
            self.hang_up()
            raise HungUp(str(failure)) from failure
        correlation_id, response = decode_response(key, version, answer[4:])
        assert correlation_id == self._sent
        return response

    def hang_up(self) -> None:
        peer, self._peer = self._peer, _peer()
        peer.leave()

    async def _answered(self, frame: bytearray) -> Sequence[Records]:
        answer: Answer | Waiting = self._dispatcher(frame, self._peer)
        if not isinstance(answer, Waiting):
            return cast("Sequence[Records]", answer or [])
        sent: list[Any] = []

        def offer(chunks: Chunks) -> Chunks:
            sent.extend(chunks)
            return []

        left = await answer.answer(offer)
        return [*sent, *(left or [])]


def _peer() -> Peer:
    return Peer(
        connection_id="1",
        listener="PLAINTEXT",
        host="there",
        port=40_000,
        reached_host="reached",
        reached_port=9093,
    )


def _joined(chunks: Sequence[Any]) -> bytes:
    return b"".join(map(_bytes, chunks))


def _bytes(chunk: Records) -> bytes:
    if isinstance(chunk, FileSlice):
        return cast("File", chunk.file).read(chunk.position, chunk.size)
    return bytes(chunk)
