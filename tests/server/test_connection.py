"""A connection answers ApiVersions as Kafka does, and ends where Kafka ends it."""

from __future__ import annotations

import struct
from collections import deque
from typing import Any

import pytest
import trio
from trio.testing import memory_stream_pair

from pyk.errors import ErrorCode
from pyk.server.connection import serve_connection
from pyk.wire.apis import ApiKey
from pyk.wire.frames import FrameReader
from pyk.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from pyk.wire.messages.heartbeat import HeartbeatRequest
from pyk.wire.request import decode_response, encode_request

KNOWN_CLIENT = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
SERVED = [ApiVersion(api_key=18, min_version=0, max_version=4)]


class Client:
    def __init__(self, nursery: trio.Nursery) -> None:
        self._stream, server = memory_stream_pair()
        self._reader = FrameReader(10**6)
        self._arrived: deque[bytes] = deque()
        nursery.start_soon(serve_connection, server)

    async def send(self, *frames: bytes) -> None:
        await self._stream.send_all(b"".join(frames))

    async def frame(self) -> bytes | None:
        """The next frame, or None where the broker has hung up."""
        while not self._arrived:
            data = await self._stream.receive_some()
            if not data:
                return None
            self._arrived.extend(self._reader.feed(data))
        return self._arrived.popleft()

    async def ask(self, version: int, request: Any, answered_in: int) -> tuple[int, Any]:
        await self.send(asked(version, request, 77))
        frame = await self.frame()
        assert frame is not None
        return decode_response(ApiKey.API_VERSIONS, answered_in, frame)


def asked(version: int, request: Any, correlation_id: int) -> bytes:
    (chunk,) = encode_request(ApiKey.API_VERSIONS, version, correlation_id, "client", request)
    assert isinstance(chunk, bytes)
    return chunk


@pytest.mark.parametrize("version", range(5))
async def test_api_versions_lists_what_is_served(version: int, nursery: trio.Nursery) -> None:
    answer = await Client(nursery).ask(version, KNOWN_CLIENT, answered_in=version)
    assert answer == (77, ApiVersionsResponse(api_keys=SERVED))


async def test_a_newer_client_is_answered_in_the_oldest_version(nursery: trio.Nursery) -> None:
    client = Client(nursery)
    frame = bytearray(asked(4, KNOWN_CLIENT, 5))
    frame[6:8] = struct.pack(">h", 99)
    await client.send(bytes(frame))
    reply = await client.frame()
    assert reply is not None
    refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=SERVED)
    assert decode_response(ApiKey.API_VERSIONS, 0, reply) == (5, refusal)
    # KIP-511: the client tries again on the same connection.
    assert await client.ask(3, KNOWN_CLIENT, answered_in=3) == (
        77,
        ApiVersionsResponse(api_keys=SERVED),
    )


@pytest.mark.parametrize("name", ["", "-", "a_b", "ünicode", "a-", "a b"])
async def test_a_software_name_must_look_like_one(name: str, nursery: trio.Nursery) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    answer = await Client(nursery).ask(3, request, answered_in=3)
    assert answer == (77, ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[]))


async def test_requests_in_one_piece_are_answered_in_order(nursery: trio.Nursery) -> None:
    client = Client(nursery)
    await client.send(*(asked(3, KNOWN_CLIENT, number) for number in range(20)))
    for number in range(20):
        frame = await client.frame()
        assert frame is not None
        assert decode_response(ApiKey.API_VERSIONS, 3, frame)[0] == number


def heartbeat() -> bytes:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    (chunk,) = encode_request(ApiKey.HEARTBEAT, 3, 1, "client", request)
    assert isinstance(chunk, bytes)
    return chunk


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(heartbeat(), id="an API that is not served"),
        pytest.param(b"\0\0\0\x0a" + struct.pack(">hhih", 93, 0, 1, -1), id="no such API"),
        pytest.param(b"\0\0\0\x0a" + struct.pack(">hhih", 4, 0, 1, -1), id="a removed API"),
        pytest.param(b"\0\0\0\0", id="an empty frame"),
        pytest.param(b"\xff\xff\xff\xff", id="a negative size"),
        pytest.param(b"\x7f\xff\xff\xff", id="a size beyond the limit"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(b"\0\0\0\x0d" + struct.pack(">hhih", 18, 3, 1, -1) + b"\0\xff\xff", id="bad"),
    ],
)
async def test_what_is_not_the_protocol_ends_the_connection(
    hostile: bytes, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    bystander, client = Client(nursery), Client(nursery)
    await client.send(asked(3, KNOWN_CLIENT, 1), hostile)
    assert await client.frame() is not None
    assert await client.frame() is None
    assert "closing a connection" in caplog.text
    assert "Traceback" not in caplog.text
    assert (await bystander.ask(0, ApiVersionsRequest(), answered_in=0))[0] == 77
