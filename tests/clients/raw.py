"""A client that says exactly what it is told to, one request at a time."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any, Self

from pyk.wire.apis import ApiKey
from pyk.wire.primitives import OBJECTS_MAX
from pyk.wire.request import decode_response, encode_request

if TYPE_CHECKING:
    from types import TracebackType

TIMEOUT = 60.0

CLIENT_ID = "raw"


class RawClient:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), TIMEOUT)
        self._stream = self._socket.makefile("rb")
        self._sent = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.close()
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        """The response. Raise EOFError if the other side hangs up instead."""
        self.send(key, version, request)
        return self.receive(key, version)

    def send(self, key: ApiKey, version: int, request: Any) -> None:
        self.send_frame(self.frame(key, version, request))

    def frame(self, key: ApiKey, version: int, request: Any) -> bytes:
        """The request as it is sent."""
        self._sent += 1
        chunks = encode_request(key, version, self._sent, CLIENT_ID, request)
        return b"".join(chunks)  # type: ignore[arg-type]

    def send_frame(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def receive(self, key: ApiKey, version: int) -> Any:
        """The next response. It may be as large as it is."""
        size = self._stream.read(4)
        if len(size) < 4:
            raise EOFError("the other side has hung up")
        body = self._stream.read(int.from_bytes(size, "big"))
        _, response = decode_response(key, version, body, objects_max=max(len(body), OBJECTS_MAX))
        return response
