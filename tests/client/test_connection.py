"""A connection: versions, and everything that may be at the other end."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyk.client.address import Address
from pyk.client.connection import Connection, NotKafka, Unreachable
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.apis import ApiKey
from pyk.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from pyk.wire.messages.metadata import MetadataRequest, MetadataResponse
from pyk.wire.request import encode_response
from tests.client.peers import Behaviour, alerts, hangs_up, peer, silent, speaks_http
from tests.clients.brokers import running
from tests.clients.ports import free_ports

if TYPE_CHECKING:
    import socket


def test_both_sides_highest_common_version_is_spoken(tmp_path: Path) -> None:
    with running(tmp_path) as broker, Connection.open(Address.parse(broker.address)) as connection:
        assert connection.version_of(ApiKey.METADATA) == 13
        answer = connection.ask(MetadataRequest(topics=[]), MetadataResponse)
        assert [broker.node_id for broker in answer.brokers] == [1]


def test_an_old_broker_is_asked_again_in_its_own_version() -> None:
    def old_broker(connection: socket.socket) -> None:
        keys = [
            ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=2),
            ApiVersion(api_key=ApiKey.METADATA, min_version=0, max_version=5),
        ]
        stream = connection.makefile("rb")
        while size := stream.read(4):
            request = stream.read(int.from_bytes(size, "big"))
            _, version, correlation_id = struct.unpack_from(">hhi", request)
            known = version <= 2
            code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION
            answer = ApiVersionsResponse(error_code=code, api_keys=keys)
            chunks = encode_response(
                ApiKey.API_VERSIONS, version if known else 0, correlation_id, answer
            )
            connection.sendall(b"".join(chunks))  # type: ignore[arg-type]

    with peer(old_broker) as address, Connection.open(address) as connection:
        assert connection.version_of(ApiKey.METADATA) == 5
        with pytest.raises(KafkaError, match="PRODUCE has versions none"):
            connection.version_of(ApiKey.PRODUCE)


@pytest.mark.parametrize(
    ("behave", "said"),
    [
        (hangs_up, "closed by the other side"),
        (silent, "no answer within 0.2 s"),
        (speaks_http, "it speaks HTTP"),
        (alerts, "it speaks TLS"),
    ],
)
def test_whoever_is_no_broker_is_told_apart(behave: Behaviour, said: str) -> None:
    with peer(behave) as address, pytest.raises(Unreachable, match=said) as raised:
        Connection.open(address, connect_timeout=0.2)
    assert isinstance(raised.value, NotKafka) == ("speaks" in said)
    assert raised.value.address == address


def test_a_closed_port_and_an_unknown_name_are_told_apart() -> None:
    [port] = free_ports(1)
    with pytest.raises(Unreachable, match="connection refused"):
        Connection.open(Address("127.0.0.1", port))
    with pytest.raises(Unreachable, match="cannot be resolved"):
        Connection.open(Address("no-such-host.invalid", 1))


def test_all_addresses_of_a_name_are_tried() -> None:
    # localhost is ::1 and 127.0.0.1 on most machines, and this peer has only the second.
    with peer(hangs_up) as address, pytest.raises(Unreachable, match="closed"):
        Connection.open(Address("localhost", address.port))
