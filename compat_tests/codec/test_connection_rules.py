"""The same bytes on a connection to Kafka and to pyk: both answer alike, or both hang up."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from compat_tests.kafka.server import kafka_server
from pyk.wire.apis import ApiKey
from pyk.wire.request import decode_response
from tests.clients.brokers import running

Address = tuple[str, int]
SOFTWARE = b"\x05test\x041.0"

CASES = {
    # The version asked in, the version answered in (None: hung up), the body.
    "v0": (0, 0, b""),
    "v2": (2, 2, b""),
    "v3": (3, 3, SOFTWARE + b"\0"),
    "v4": (4, 4, SOFTWARE + b"\0"),
    "newer than the broker": (99, 0, SOFTWARE + b"\0"),
    "newer, with a body nobody knows": (5, 0, b"\x99\x99\x99"),
    "bytes after the body": (0, 0, b"more"),
    "bytes after a flexible body": (3, 3, SOFTWARE + b"\0more"),
    "a tagged field nobody knows": (3, 3, SOFTWARE + b"\x01\x63\x02??"),
    "a software name that is none": (3, 3, b"\x02_\x021\0"),
    "no software name": (3, 3, b"\x01\x01\0"),
    "a null software name": (3, None, b"\x00\x021\0"),
    "a body that ends early": (3, None, b"\x05te"),
    "a string longer than the frame": (3, None, b"\xff\xff\x01te\0"),
    "a negative version": (-1, 0, b""),
}
FRAMES = {
    "an API that does not exist": struct.pack(">hhih", 999, 0, 1, -1),
    "an API that was removed": struct.pack(">hhih", 4, 0, 1, -1),
    "a version that does not exist": struct.pack(">hhih", 12, 99, 1, -1),
    "an empty frame": b"",
    "half a header": b"\0\x12\0",
    "a client id longer than the frame": struct.pack(">hhih", 18, 0, 1, 500) + b"me",
}
STREAMS = {
    "a negative size": b"\xff\xff\xff\xff",
    "a size beyond the limit": b"\x7f\xff\xff\xff",
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Address]:
    with kafka_server() as server:
        yield server.host, server.port


@pytest.fixture(scope="module")
def pyk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    with running(tmp_path_factory.mktemp("data")) as broker:
        host, _, port = broker.address.rpartition(":")
        yield host, int(port)


def exchanged(address: Address, sent: bytes) -> bytes | None:
    """The frame that comes back, or None where the broker hangs up."""
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(sent)
        stream = connection.makefile("rb")
        try:
            size = stream.read(4)
            return stream.read(int.from_bytes(size, "big")) if size else None
        except ConnectionResetError:
            return None


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize("case", CASES)
def test_api_versions_is_answered_alike(case: str, kafka: Address, pyk: Address) -> None:
    version, answered_in, body = CASES[case]
    header = struct.pack(">hhih2s", 18, version, 7, 2, b"me") + (b"\0" if version >= 3 else b"")
    answers = [exchanged(broker, framed(header + body)) for broker in (kafka, pyk)]
    assert [answer is None for answer in answers] == [answered_in is None] * 2
    if answered_in is not None:
        decoded = [
            decode_response(ApiKey.API_VERSIONS, answered_in, answer or b"") for answer in answers
        ]
        (their_id, theirs), (our_id, ours) = decoded
        assert our_id == their_id == 7
        assert ours.error_code == theirs.error_code
        served = {api.api_key for api in ours.api_keys}
        assert ours.api_keys == [api for api in theirs.api_keys if api.api_key in served]
        if theirs.error_code:
            assert len(ours.api_keys) == len(theirs.api_keys)


@pytest.mark.parametrize("case", FRAMES)
def test_both_hang_up_on_a_frame(case: str, kafka: Address, pyk: Address) -> None:
    for broker in (kafka, pyk):
        assert exchanged(broker, framed(FRAMES[case])) is None


@pytest.mark.parametrize("case", STREAMS)
def test_both_hang_up_on_bytes(case: str, kafka: Address, pyk: Address) -> None:
    for broker in (kafka, pyk):
        assert exchanged(broker, STREAMS[case]) is None
