"""Requests reach their handlers. ApiVersions is answered, and connections end, as in Kafka."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
import trio

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers import api_versions
from pyk.handlers.call import Call, Peer
from pyk.handlers.table import Endpoint
from pyk.offload import at_once
from pyk.server.dispatch import Dispatcher
from pyk.wire.apis import ApiKey
from pyk.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pyk.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from pyk.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyk.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pyk.wire.request import decode_response, encode_request
from tests.server.clients import ENDPOINTS, SERVED, Client, Running, connect, serving

T = TypeVar("T")

KNOWN_CLIENT = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")


@asynccontextmanager
async def broker(**endpoints: Endpoint) -> AsyncIterator[Running]:
    table = ENDPOINTS | {ApiKey[name]: endpoint for name, endpoint in endpoints.items()}
    async with serving(Dispatcher(table, None)) as running:
        yield running


async def ask(client: Client, version: int, request: Any, answered_in: int) -> tuple[int, Any]:
    await client.stream.send_all(asked(version, request, 77))
    return decode_response(ApiKey.API_VERSIONS, answered_in, await client.frame() or b"")


def asked(version: int, request: Any, correlation_id: int) -> bytes:
    (chunk,) = encode_request(ApiKey.API_VERSIONS, version, correlation_id, "client", request)
    assert isinstance(chunk, bytes)
    return chunk


@pytest.mark.parametrize("version", range(5))
async def test_every_version_of_an_api_is_answered(version: int) -> None:
    async with broker() as running:
        answer = await ask(await connect(running), version, KNOWN_CLIENT, answered_in=version)
    assert answer == (77, ApiVersionsResponse(api_keys=SERVED))


async def test_a_newer_client_is_answered_in_the_oldest_version() -> None:
    async with broker() as running:
        client = await connect(running)
        frame = bytearray(asked(4, KNOWN_CLIENT, 5))
        frame[6:8] = struct.pack(">h", 99)
        await client.stream.send_all(frame)
        reply = await client.frame()
        assert reply is not None
        refusal = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=SERVED)
        assert decode_response(ApiKey.API_VERSIONS, 0, reply) == (5, refusal)
        # KIP-511: the client tries again on the same connection.
        again = await ask(client, 3, KNOWN_CLIENT, answered_in=3)
        assert again == (77, ApiVersionsResponse(api_keys=SERVED))


async def test_an_answer_that_repeats_itself_has_each_requests_number_and_what_has_changed() -> (
    None
):
    answers = [ApiVersionsResponse(api_keys=SERVED), ApiVersionsResponse(error_code=7, api_keys=[])]
    given = iter([answers[0], answers[0], answers[0], answers[1], answers[1], answers[0]])
    endpoint = Endpoint(
        ApiVersionsRequest, lambda *_: next(given), api_versions.refuse, repeats_itself=True
    )
    async with broker(API_VERSIONS=endpoint) as running:
        client = await connect(running)
        for correlation_id, expected in enumerate([0, 0, 0, 1, 1, 0], start=-2):
            await client.stream.send_all(asked(0, KNOWN_CLIENT, correlation_id))
            answer = decode_response(ApiKey.API_VERSIONS, 0, await client.frame() or b"")
            assert answer == (correlation_id, answers[expected])


def heartbeat(member: str = "m") -> bytes:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    (chunk,) = encode_request(ApiKey.HEARTBEAT, 4, 1, "client", request)
    assert isinstance(chunk, bytes)
    return chunk


def refuse(request: HeartbeatRequest, refusal: KafkaError) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=refusal.code)


async def beat(client: Client, member: str) -> int:
    """The error code that comes back."""
    await client.stream.send_all(heartbeat(member))
    frame = await client.frame()
    assert frame is not None
    return int(decode_response(ApiKey.HEARTBEAT, 4, frame)[1].error_code)


@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_a_refusal_is_an_answer_whenever_it_comes(is_pipelined: bool) -> None:
    async def later(code: ErrorCode) -> HeartbeatResponse:
        await trio.lowlevel.checkpoint()
        if code:
            raise KafkaError(code)
        return HeartbeatResponse()

    def handle(
        request: HeartbeatRequest, call: Call, broker: Any
    ) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
        when, code = request.member_id.split()
        if when == "later":
            return later(ErrorCode(int(code)))
        if int(code):
            raise KafkaError(ErrorCode(int(code)))
        return HeartbeatResponse()

    endpoint = Endpoint(HeartbeatRequest, handle, refuse, is_pipelined)
    async with broker(HEARTBEAT=endpoint) as running:
        client = await connect(running)
        for member, code in {"now 0": 0, "now 27": 27, "later 0": 0, "later 27": 27}.items():
            assert await beat(client, member) == code


@pytest.mark.parametrize("is_pipelined", [False, True])
async def test_a_bug_is_told_to_the_client_and_to_the_log_and_the_connection_goes_on(
    is_pipelined: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def later() -> HeartbeatResponse:
        await trio.lowlevel.checkpoint()
        raise ZeroDivisionError("a bug")

    def handle(
        request: HeartbeatRequest, call: Call, broker: Any
    ) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
        if request.member_id == "well":
            return HeartbeatResponse()
        if request.member_id == "later":
            return later()
        raise ZeroDivisionError("a bug")

    endpoint = Endpoint(HeartbeatRequest, handle, refuse, is_pipelined)
    async with broker(HEARTBEAT=endpoint) as running:
        client = await connect(running)
        for member in ("now", "later", "now"):
            assert await beat(client, member) == ErrorCode.UNKNOWN_SERVER_ERROR
            assert await beat(client, "well") == ErrorCode.NONE
    assert caplog.text.count("HEARTBEAT v4 failed over a bug") == 1
    assert "ZeroDivisionError: a bug" in caplog.text


async def test_handlers_know_their_client() -> None:
    known: list[tuple[str | None, Peer, int]] = []

    def handle(request: HeartbeatRequest, call: Call, broker: Any) -> HeartbeatResponse:
        known.append((call.client_id, call.peer, call.version))
        return HeartbeatResponse()

    async with broker(HEARTBEAT=Endpoint(HeartbeatRequest, handle, refuse)) as running:
        client = await connect(running)
        await beat(client, "m")
        ((client_id, peer, version),) = known
        assert (client_id, version, peer.software_name) == ("client", 4, "unknown")
        await ask(client, 3, KNOWN_CLIENT, answered_in=3)
        await beat(client, "m")
        assert known[1][1] is peer
        assert (peer.software_name, peer.software_version) == ("test", "1.0")


async def test_a_large_request_reaches_its_handler() -> None:
    sizes: list[int] = []

    def handle(request: HeartbeatRequest, call: Call, broker: Any) -> HeartbeatResponse:
        sizes.append(len(request.member_id))
        return HeartbeatResponse()

    async with broker(HEARTBEAT=Endpoint(HeartbeatRequest, handle, refuse)) as running:
        client = await connect(running)
        for size in (10, 16_300, 30_000):
            assert await beat(client, "m" * size) == 0
    assert sizes == [10, 16_300, 30_000]


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(heartbeat(), id="an API that is not served"),
        pytest.param(b"\0\0\0\x0a" + struct.pack(">hhih", 93, 0, 1, -1), id="no such API"),
        pytest.param(b"\0\0\0\x0a" + struct.pack(">hhih", 4, 0, 1, -1), id="a removed API"),
        pytest.param(b"\0\0\0\0", id="an empty frame"),
        pytest.param(b"\0\0\0\4" + struct.pack(">hh", 18, 3), id="half a header"),
        pytest.param(b"\xff\xff\xff\xff", id="a negative size"),
        pytest.param(b"\x7f\xff\xff\xff", id="a size beyond the limit"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(b"\0\0\0\x0d" + struct.pack(">hhih", 18, 3, 1, -1) + b"\0\xff\xff", id="bad"),
    ],
)
async def test_what_is_not_the_protocol_ends_the_connection(
    hostile: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker() as running:
        bystander, client = await connect(running), await connect(running)
        await client.stream.send_all(asked(3, KNOWN_CLIENT, 1) + hostile)
        assert await client.frame() is not None
        assert await client.frame() is None
        assert "closing a connection" in caplog.text
        assert "Traceback" not in caplog.text
        assert (await ask(bystander, 0, ApiVersionsRequest(), answered_in=0))[0] == 77


async def test_a_version_that_is_not_advertised_ends_the_connection() -> None:
    def handle(request: InitProducerIdRequest, call: Call, _: None) -> InitProducerIdResponse:
        return InitProducerIdResponse(producer_id=7, producer_epoch=0)

    endpoint = Endpoint(InitProducerIdRequest, handle, lambda *_: None)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    async with broker(INIT_PRODUCER_ID=endpoint) as running:
        client = await connect(running)
        for version, is_answered in ((5, True), (6, False)):
            chunks = encode_request(ApiKey.INIT_PRODUCER_ID, version, 1, "client", request)
            for chunk in chunks:
                assert isinstance(chunk, bytes)
                await client.stream.send_all(chunk)
            assert (await client.frame() is not None) == is_answered


class Elsewhere:
    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, run: Callable[[], T], /) -> T:
        self.count += 1
        return await at_once(run)


def described(brokers: int) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        error_code=7,
        error_message=None,
        cluster_id="c",
        controller_id=1,
        brokers=[
            DescribeClusterBroker(broker_id=number, host="somewhere", port=9092, rack=None)
            for number in range(brokers)
        ],
    )


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize(("count", "is_elsewhere"), [(3, False), (5000, True)])
async def test_a_large_response_is_encoded_elsewhere(
    count: int, is_elsewhere: bool, is_later: bool
) -> None:
    async def later() -> DescribeClusterResponse:
        await trio.lowlevel.checkpoint()
        return response

    response, elsewhere = described(count), Elsewhere()
    endpoint = Endpoint(
        DescribeClusterRequest, lambda *_: later() if is_later else response, lambda *_: response
    )
    dispatcher = Dispatcher({ApiKey.DESCRIBE_CLUSTER: endpoint}, None, elsewhere)
    async with serving(dispatcher) as running:
        client = await connect(running)
        for number in range(3):
            request = DescribeClusterRequest(include_cluster_authorized_operations=False)
            chunks = encode_request(ApiKey.DESCRIBE_CLUSTER, 1, number, "client", request)
            await client.stream.send_all(b"".join(chunks))  # type: ignore[arg-type]
        for number in range(3):
            reply = await client.frame()
            assert reply is not None
            assert decode_response(ApiKey.DESCRIBE_CLUSTER, 1, reply) == (number, response)
    assert elsewhere.count == (3 if is_elsewhere else 0)
    traffic = dispatcher.traffic[ApiKey.DESCRIBE_CLUSTER]
    assert traffic.requests == 3
    assert traffic.errors == {7: 3}
