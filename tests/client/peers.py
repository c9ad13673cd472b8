"""Servers that are not brokers, or bad ones."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyk.client.address import Address
from pyk.wire.apis import ApiKey
from pyk.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from pyk.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from pyk.wire.request import encode_response

Behaviour = Callable[[socket.socket], None]


@contextmanager
def peer(behave: Behaviour) -> Iterator[Address]:
    """Somebody who listens, and treats each connection in the same way."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        held: list[socket.socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                held.append(connection)
                threading.Thread(target=treat, args=(connection,), daemon=True).start()

        def treat(connection: socket.socket) -> None:
            with suppress(OSError):
                behave(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield Address("127.0.0.1", listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        for connection in held:
            connection.close()


def silent(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass


def hangs_up(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.close()


def speaks_http(connection: socket.socket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    connection.close()


def alerts(connection: socket.socket) -> None:
    """As a server of TLS does that hears something else."""
    connection.recv(4096)
    connection.sendall(bytes.fromhex("15030300020246"))
    connection.close()


def broker_like(
    *advertised: tuple[int, str, int], cluster_id: str = "fake", apis: tuple[ApiKey, ...] = ()
) -> Behaviour:
    """A broker that knows ApiVersions and Metadata, and hangs up on all but `apis` of them."""

    def behave(connection: socket.socket) -> None:
        served = (ApiKey.API_VERSIONS, *(apis or (ApiKey.METADATA,)))
        stream = connection.makefile("rb")
        while size := stream.read(4):
            request = stream.read(int.from_bytes(size, "big"))
            number, version, correlation_id = struct.unpack_from(">hhi", request)
            key = ApiKey(number)
            answer: object
            if key is ApiKey.API_VERSIONS:
                keys = [ApiVersion(api_key=each, min_version=0, max_version=4) for each in served]
                answer = ApiVersionsResponse(api_keys=keys)
            elif key in served and advertised:
                answer = MetadataResponse(
                    brokers=[
                        MetadataResponseBroker(node_id=node_id, host=host, port=port)
                        for node_id, host, port in advertised
                    ],
                    cluster_id=cluster_id,
                    topics=[],
                )
            else:
                connection.close()
                return
            chunks = encode_response(key, version, correlation_id, answer)
            connection.sendall(b"".join(chunks))  # type: ignore[arg-type]

    return behave


Script = dict[ApiKey, tuple[int, list[object]]]
"""What a broker answers to each API: its highest version, and one answer after another."""


def scripted(script: Script) -> Behaviour:
    """A cluster of broker 1 alone, which hangs up when it is asked what its script has not."""

    def behave(connection: socket.socket) -> None:
        host, port = connection.getsockname()
        stream = connection.makefile("rb")
        while size := stream.read(4):
            request = stream.read(int.from_bytes(size, "big"))
            number, version, correlation_id = struct.unpack_from(">hhi", request)
            key = ApiKey(number)
            answer: object
            if key is ApiKey.API_VERSIONS:
                highest = {each: version for each, (version, _) in script.items()}
                highest |= {ApiKey.API_VERSIONS: 4, ApiKey.METADATA: 12}
                keys = [
                    ApiVersion(api_key=each, min_version=0, max_version=version)
                    for each, version in highest.items()
                ]
                answer = ApiVersionsResponse(api_keys=keys)
            elif key is ApiKey.METADATA:
                broker = MetadataResponseBroker(node_id=1, host=host, port=port)
                answer = MetadataResponse(brokers=[broker], cluster_id="fake", topics=[])
            elif key in script and script[key][1]:
                answer = script[key][1].pop(0)
            else:
                connection.close()
                return
            chunks = encode_response(key, version, correlation_id, answer)
            connection.sendall(b"".join(chunks))  # type: ignore[arg-type]

    return behave
