"""The watch: closes connections that take time or memory and give nothing.

It looks at all connections from time to time and compares counters with what they were: requests
do not pay for it, not even by looking at a clock.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

import trio

from pyk.server.connection import Connection
from pyk.server.limits import Closings, Limits, Memory

LOOKS_PER_TIMEOUT: Final = 4
INTERVAL_MIN: Final = 0.05
CONNECTIONS_PER_TURN: Final = 500
CLOSED_PER_TURN: Final = 16

HASTE: Final = 64
"""How much faster everybody has to be while others wait for memory."""

WHY: Final = {
    "idle": "it was idle for too long",
    "unfinished": "its request is not complete after too long",
    "unread": "it does not read its answers",
}


async def watch(
    connections: Set[Connection], limits: Limits, memory: Memory, closings: Closings
) -> None:
    """Close what is overdue, until cancelled. Closed is closed within a quarter of the limit."""
    shortest = min(limits.idle_timeout, limits.stall_timeout)
    interval = max(INTERVAL_MIN, shortest / LOOKS_PER_TIMEOUT)
    while True:
        await trio.sleep(interval)
        closed = 0
        for number, connection in enumerate(list(connections)):
            if number % CONNECTIONS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            if connection not in connections:
                continue  # It has ended meanwhile: its descriptor may be another's.
            why = overdue(connection, limits, memory, trio.current_time())
            if why:
                closings.note(connection.peer.host, WHY[why])
                connection.scope.cancel()
                closed += 1
                if closed % CLOSED_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()


def overdue(connection: Connection, limits: Limits, memory: Memory, now: float) -> str:
    """What it is too late with, or nothing. Changes what was seen of it."""
    state, moved_bytes = _look(connection)
    seen = connection.seen
    if state == seen.state and connection.requests == seen.requests:
        timeout = limits.idle_timeout if state == "idle" else limits.stall_timeout
        elapsed = now - seen.at
        if not state or elapsed < timeout:
            return ""
        rate_min = limits.stall_bytes_per_second * (HASTE if memory.is_full else 1)
        if state == "idle" or moved_bytes - seen.bytes < elapsed * rate_min:
            return state
    seen.state, seen.requests, seen.bytes, seen.at = state, connection.requests, moved_bytes, now
    return ""


def _look(connection: Connection) -> tuple[str, int]:
    """What the connection waits for, and how many bytes have moved there."""
    if connection.outbox.is_blocked:
        return "unread", connection.outbox.bytes_taken
    if connection.is_handling:
        return "", 0
    return "unfinished" if connection.is_inside_a_frame else "idle", connection.received_bytes
