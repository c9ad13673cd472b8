"""Lines for the log that somebody else may cause, as often as he likes."""

from __future__ import annotations

import math

import trio


class Sparing:
    """Lets one line a second into the log, and counts those between.

    Whoever makes us write thousands of them does not fill the disk as well.
    """

    INTERVAL = 1.0

    def __init__(self) -> None:
        self._silent_until = -math.inf
        self._untold = 0

    def next_line(self) -> str | None:
        """None if this one is not to be told. Otherwise what is to be said of those before."""
        now = trio.current_time()
        if now < self._silent_until:
            self._untold += 1
            return None
        more = f" (and {self._untold} others since the last such line)" if self._untold else ""
        self._silent_until = now + self.INTERVAL
        self._untold = 0
        return more
