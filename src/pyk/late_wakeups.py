"""Sockets before timers: nobody's session ends while what they sent lies unread in a socket.

When something has held the event loop, the timers that are due and the sockets that are readable
come up in the same pass of the loop, in any order. Whoever expires timers lets the sockets be read
first: in each pass every connection with something to read has its turn.
"""

from __future__ import annotations

from typing import Final

import trio

LATE: Final = 0.02
"""Seconds after which a timer is late: the loop was held, or has much to do."""
PASSES: Final = 3
"""Those of the loop that a timer waits when it is due. They take microseconds if nobody else wants
one. A connection that was readable when the timer came up has had its turn then."""
PASSES_WHEN_LATE: Final = 64
"""A connection reads a few requests in each turn, and many may have come meanwhile."""


async def let_sockets_be_read(due: float) -> None:
    """Return when those who sent something until now are heard, before anything is expired that was
    due at that time."""
    is_late = trio.current_time() - due > LATE
    for _ in range(PASSES_WHEN_LATE if is_late else PASSES):
        await trio.lowlevel.checkpoint()


async def checkpoint_between_timers() -> None:
    """Let others run between two timers that expire. If one of them holds the loop, the sockets are
    read before the next timer."""
    before = trio.current_time()
    await trio.lowlevel.checkpoint()
    if trio.current_time() - before > LATE:
        await let_sockets_be_read(before)
