"""What a handler knows of a request beside its body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any

from msgspec import Struct


class Peer(Struct, eq=False, kw_only=True):
    """The client at the other end of a connection, and the end of ours that it reached."""

    connection_id: str
    """As Kafka writes it: both addresses, and a number that tells those who reuse a port apart."""
    listener: str
    host: str
    port: int
    reached_host: str
    """The address of ours that this client used, and so one that it can use again."""
    reached_port: int
    software_name: str = "unknown"
    """What the client said of itself in ApiVersions, see KIP-511."""
    software_version: str = "unknown"
    _when_gone: list[Callable[[], None]] = []

    def when_gone(self, call: Callable[[], None]) -> None:
        """Have it called when the connection is over."""
        self._when_gone.append(call)

    def leave(self) -> None:
        """The connection is over. All are called, and what some raise comes in a group then."""
        calls, self._when_gone = self._when_gone, []
        failures: list[Exception] = []
        for call in calls:
            try:
                call()
            except Exception as failure:
                failures.append(failure)
        if failures:
            raise ExceptionGroup(f"{self.connection_id} has left", failures)


class InTurn:
    """What is still to be done in the order of the requests: those behind it wait until then, also
    where an API is pipelined."""

    __slots__ = ("outcome",)

    def __init__(self, outcome: Awaitable[Any]) -> None:
        self.outcome = outcome

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.outcome.__await__()


class Call(Struct, frozen=True):
    version: int
    client_id: str | None
    peer: Peer
