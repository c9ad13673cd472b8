"""A connection to one broker: what both sides speak, then one request after another.

    resolve -> connect -> ApiVersions -> ask ...

Requests may also be sent first and their answers received later, in the same order.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections import deque
from typing import Final, NamedTuple, Self, TypeVar

from pyk import __version__
from pyk.client.address import Address
from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.types import NO_VERSIONS, Versions
from pyk.wire.apis import ApiKey, request_type
from pyk.wire.message import layout
from pyk.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pyk.wire.request import decode_response, encode_request

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024
"""Less than what the first bytes of TLS and of HTTP would be as a size."""
_ANSWER_OBJECTS_MAX: Final = 10_000_000
"""A broker's answers are trusted further than a client's requests are: it lists all its topics."""

Answer = TypeVar("Answer")


class Unreachable(Exception):
    """Nobody answers at an address. The message says where, and why."""

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class NotKafka(Unreachable):
    """Somebody answers there, but in another language."""


class _Sent(NamedTuple):
    key: ApiKey
    version: int
    correlation_id: int


class Connection:
    """Made by `open`. After Unreachable it is of no use any more."""

    def __init__(
        self, address: Address, connected: socket.socket, client_id: str, timeout: float
    ) -> None:
        self.address = address
        self.api_versions = ApiVersionsResponse(api_keys=[])
        """What the broker said it speaks, and which features it has."""
        self._socket = connected
        self._client_id = client_id
        self._timeout = timeout
        self._sent = 0
        self._pending: deque[_Sent] = deque()
        self._offered: dict[int, Versions] = {}

    @classmethod
    def open(
        cls,
        address: Address,
        *,
        client_id: str = "pyk",
        connect_timeout: float = 10.0,
        timeout: float = 30.0,
    ) -> Self:
        """Connected, and with versions agreed upon. Raise Unreachable."""
        connected = connect(address, connect_timeout)
        connection = cls(address, connected, client_id, timeout)
        try:
            connection._negotiate(connect_timeout)
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def has_ended(self) -> bool:
        """Whether it is known by now that nothing will be answered here."""
        try:
            self._socket.settimeout(0)
            return not self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def offers(self, key: ApiKey) -> bool:
        """Whether the other side has the API at all."""
        return key in self._offered

    def version_of(self, key: ApiKey, ours: Versions | None = None) -> int:
        """The highest version that both sides have, or that the other has of these. Raise
        KafkaError."""
        ours = ours or layout(request_type(key)).versions
        theirs = self._offered.get(key, NO_VERSIONS)
        highest = min(ours.highest, theirs.highest)
        if not (ours.covers(highest) and theirs.covers(highest)):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{key.name} has versions {theirs} at {self.address}, and {ours} here",
            )
        return highest

    def ask(self, request: object, answer: type[Answer], *, version: int | None = None) -> Answer:
        """The response to a request, which is of the type `answer`. Raise Unreachable."""
        self.send(request, version=version)
        return self.receive(answer)

    def send(
        self, request: object, *, version: int | None = None, is_answered: bool = True
    ) -> None:
        number = layout(type(request)).api_key
        assert number is not None, request
        key = ApiKey(number)
        if version is None:
            version = self.version_of(key)
        self._sent += 1
        chunks = encode_request(key, version, self._sent, self._client_id, request)
        if is_answered:
            self._pending.append(_Sent(key, version, self._sent))
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(b"".join(chunks))  # type: ignore[arg-type]
        except OSError as failed:
            raise self._lost(failed) from failed

    def receive(self, answer: type[Answer], *, extra_wait: float = 0.0) -> Answer:
        """The answer to the earliest request that has none yet."""
        frame = self._receive_frame(self._timeout + extra_wait)
        return self._decoded(self._pending.popleft(), frame, answer)

    def _negotiate(self, timeout: float) -> None:
        asked = ApiVersionsRequest(client_software_name="pyk", client_software_version=__version__)
        version = layout(ApiVersionsRequest).versions.highest
        self.send(asked, version=version)
        frame = self._receive_frame(timeout)
        sent = self._pending.popleft()
        # A broker that does not know our version says so in the oldest form, see KIP-511.
        refused = int.from_bytes(frame[4:6], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION
        sent = sent._replace(version=0) if refused else sent
        answer = self._decoded(sent, frame, ApiVersionsResponse)
        self._learn(answer)
        if refused:
            highest = self.version_of(ApiKey.API_VERSIONS)
            answer = self.ask(asked, ApiVersionsResponse, version=highest)
        if answer.error_code:
            raise NotKafka(self.address, f"ApiVersions: {ErrorCode(answer.error_code).name}")
        self._learn(answer)

    def _learn(self, answer: ApiVersionsResponse) -> None:
        self.api_versions = answer
        self._offered = {
            api.api_key: Versions(api.min_version, api.max_version) for api in answer.api_keys
        }

    def _decoded(self, sent: _Sent, frame: bytearray, answer: type[Answer]) -> Answer:
        try:
            correlation_id, response = decode_response(
                sent.key, sent.version, frame, objects_max=_ANSWER_OBJECTS_MAX
            )
        except ProtocolError as wrong:
            raise NotKafka(
                self.address, f"its answer to {sent.key.name} cannot be read: {wrong}"
            ) from wrong
        if correlation_id != sent.correlation_id:
            raise NotKafka(self.address, "it answers a question that was not asked")
        assert isinstance(response, answer), (type(response), answer)
        return response

    def _receive_frame(self, timeout: float) -> bytearray:
        deadline = time.monotonic() + timeout
        try:
            return self._receive_frame_by(deadline)
        except TimeoutError as failed:
            raise Unreachable(self.address, f"no answer within {timeout:g} s") from failed

    def _receive_frame_by(self, deadline: float) -> bytearray:
        head = self._receive_exactly(4, deadline)
        size = int.from_bytes(head, "big", signed=True)
        if not 0 <= size <= ANSWER_BYTES_MAX:
            language = guess_language(head)
            spoken = (
                f"it speaks {language}" if language else f"its answer begins with {bytes(head)!r}"
            )
            raise NotKafka(self.address, f"{spoken}, which is not Kafka's protocol in plaintext")
        return self._receive_exactly(size, deadline)

    def _receive_exactly(self, size: int, deadline: float) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        received = 0
        while received < size:
            try:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                count = self._socket.recv_into(view[received:])
            except TimeoutError:
                raise
            except OSError as failed:
                raise self._lost(failed) from failed
            if not count:
                raise Unreachable(self.address, "the connection was closed by the other side")
            received += count
        return data

    def _lost(self, failed: OSError) -> Unreachable:
        if isinstance(failed, TimeoutError):
            return Unreachable(self.address, f"it takes nothing more for {self._timeout:g} s")
        return Unreachable(self.address, f"the connection broke: {describe(failed)}")


def connect(address: Address, timeout: float) -> socket.socket:
    """A TCP connection: to each of the host's addresses in turn, as long as it takes. Raise
    Unreachable."""
    try:
        found = resolve(address)
    except OSError as failed:
        raise Unreachable(address, f"the name cannot be resolved: {describe(failed)}") from failed
    failures = []
    for family, where in found:
        with contextlib.ExitStack() as stack:
            attempt = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
            attempt.settimeout(timeout)
            try:
                attempt.connect(where)
            except OSError as failed:
                failures.append(failed)
                continue
            attempt.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stack.pop_all()
            return attempt
    reasons = dict.fromkeys(
        f"no connection within {timeout:g} s" if isinstance(each, TimeoutError) else describe(each)
        for each in failures
    )
    raise Unreachable(address, ", ".join(reasons)) from failures[-1]


def resolve(address: Address) -> list[tuple[int, tuple[str, int]]]:
    """The families and socket addresses of a host, in the order of the system. Raise OSError."""
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return [(family, (str(where[0]), int(where[1]))) for family, _, _, _, where in found]


def describe(failed: OSError) -> str:
    """The error in the system's words, without its number."""
    if isinstance(failed, socket.gaierror) or not failed.errno:
        return str(failed.strerror or failed).lower()
    return os.strerror(failed.errno).lower()


def guess_language(first: bytes | bytearray) -> str | None:
    """What a server speaks whose first bytes are these, if they are known."""
    if first[:4] in (b"HTTP", b"<htm", b"<!DO", b"<HTM"):
        return "HTTP"
    if first[:1] in (b"\x15", b"\x16") and first[1:2] == b"\x03":
        return "TLS"
    return "SSH" if first[:4] == b"SSH-" else None
