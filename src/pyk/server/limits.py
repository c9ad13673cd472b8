"""What clients may take: connections, time and memory."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

import trio
from msgspec import Struct, field

from pyk.sparing import Sparing

logger = logging.getLogger(__name__)


class Limits(Struct, frozen=True, kw_only=True):
    """Seconds and bytes. The defaults are Kafka's where Kafka has such a limit."""

    frame_bytes_max: int = 100 * 1024**2
    """`socket.request.max.bytes`"""
    connections_max: int = 2**31 - 1
    """`max.connections`"""
    connections_max_per_ip: int = 2**31 - 1
    """`max.connections.per.ip`"""
    connections_max_by_ip: Mapping[str, int] = field(default_factory=dict)
    """`max.connections.per.ip.overrides`, by address"""
    idle_timeout: float = 600.0
    """`connections.max.idle.ms`. How long a connection may be silent between requests."""
    stall_timeout: float = 30.0
    """How long a request may stay unfinished, or an answer unread, at less than
    `stall_bytes_per_second`, or while memory is full at less than 64 times that. Kafka knows no
    such limit: half a frame lives as long as it drips."""
    stall_bytes_per_second: int = 1024
    requests_in_flight_max: int = 100
    """How many requests of one connection may wait at the same time; beyond, it is not read."""
    answer_bytes_max: int = 1024**2
    """Answers behind one that waits may take this much; beyond, the connection is not read."""
    buffered_bytes_max: int = 1024**3
    """`queued.max.request.bytes`, unlimited in Kafka: what the large requests of all connections
    may take; beyond, those that are not complete are not read on, except for one at a time."""
    send_buffer_bytes: int = -1
    """`socket.send.buffer.bytes`. Kafka sets 102,400; -1 leaves it to the system, which adapts."""
    receive_buffer_bytes: int = -1
    """`socket.receive.buffer.bytes`, likewise."""
    backlog: int = 1024
    """`socket.listen.backlog.size`, 50 in Kafka, which a storm of connections overruns."""

    def connections_max_of(self, host: str) -> int:
        return self.connections_max_by_ip.get(host, self.connections_max_per_ip)


class Memory:
    """How many bytes the large requests of all connections take.

    When it is full, incomplete requests wait for others to end. One of them is favoured and goes
    on, or else all might wait for each other: so the limit is exceeded by one request at most.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.held = 0
        self._favoured: object | None = None
        self._waiting = trio.lowlevel.ParkingLot()

    def lift(self) -> None:
        """Let all who wait go on: they will not receive anything any more."""
        self.bytes_max = sys.maxsize
        self._waiting.unpark_all()

    @property
    def is_full(self) -> bool:
        return self.held >= self.bytes_max

    def change(self, size: int) -> None:
        self.held += size
        if size < 0 and not self.is_full:
            self._waiting.unpark_all()

    def favours(self, who: object) -> bool:
        return self._favoured is who

    async def wait_for_room(self, who: object) -> None:
        """Return when there is room, or `who` is favoured."""
        while self.is_full and self._favoured is not who:
            if self._favoured is None:
                self._favoured = who
            else:
                await self._waiting.park()

    def leave(self, who: object) -> None:
        """The request of `who` is complete, or will never be."""
        if self._favoured is who:
            self._favoured = None
            self._waiting.unpark_all()


class Closings:
    """Tells the log why connections are closed."""

    def __init__(self) -> None:
        self._lines = Sparing()

    def note(self, who: str, why: object) -> None:
        more = self._lines.next_line()
        if more is not None:
            logger.warning("closing a connection from %s: %s%s", who, why, more)
