"""Sockets before timers: nobody's session ends while what they sent lies unread in a socket.

When something has held the event loop, the timers that are due and the sockets that are readable
come up in the same pass of the loop, in any order. Whoever expires timers notes the moment, lets
the sockets be read once, and then expires what was due at that moment, however many timers that
are: what was sent before it has been heard.
"""

from __future__ import annotations

from typing import Final

import trio

LATE: Final = 0.02
"""Seconds after which a timer is late: the loop was held, or has much to do."""
PASSES: Final = 3
"""Those of the loop that timers wait when they are due. They take microseconds if nobody else wants
one. A connection that was readable when the timers came up has had its turn then."""
PASSES_WHEN_LATE: Final = 64
"""A connection reads a few requests in each turn, and many may have come meanwhile."""
PATIENCE: Final = 5.0
"""Seconds that timers wait at most, beyond the first passes."""


async def let_sockets_be_read(due: float) -> float:
    """Return when those who sent something until now are heard: this moment, after which nothing is
    to be expired yet.

    `due` is when the first timer was. What has come while the loop was held takes about as long to
    be heard as it was held, so a loop that is only busy puts its timers off by little.
    """
    moment = trio.current_time()
    lateness = moment - due
    for passed in range(PASSES_WHEN_LATE if lateness > LATE else PASSES):
        if passed >= PASSES and trio.current_time() - moment > min(lateness, PATIENCE):
            break
        await trio.lowlevel.checkpoint()
    return moment
