"""The time in a test broker: the machine's, until somebody stops it or lets it jump.

One clock tells the broker both how long to wait (trio asks it) and what time it is (records and
retention ask that), so that an hour which passes does so for both.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from trio.abc import Clock


class BrokerClock(Clock):
    def __init__(self) -> None:
        self._offset = 0.0
        self._held_at: float | None = None
        self._step_ms = 0
        self._began = time.monotonic()
        self._began_ms = time.time_ns() // 1_000_000
        self.carry_out: Callable[[Callable[[], None]], None] = lambda change: change()
        """Makes a change to the clock between two steps of a broker that runs, and returns when
        that has done what was due."""

    def advance(self, by: float | timedelta) -> None:
        """Let so many seconds pass at once. What is due meanwhile happens before this returns:
        what waits is woken, what is too old is deleted."""
        seconds = _seconds(by)
        if seconds < 0:
            raise ValueError("time that waits are measured by does not go back; `step` does")
        self.carry_out(lambda: self._jump(seconds))

    def step(self, by: float | timedelta) -> None:
        """Set the time of day forward or back, as an operator or NTP does. Nobody who waits
        notices."""
        self._step_ms += round(_seconds(by) * 1000)

    @contextmanager
    def hold(self) -> Iterator[BrokerClock]:
        """Stop time while the block runs; `advance` still moves it. It goes on from where it is."""
        if self._held_at is not None:
            yield self
            return
        self._held_at = self.current_time()
        try:
            yield self
        finally:
            self.release()

    def release(self) -> None:
        """Let time pass again."""
        if self._held_at is not None:
            self.carry_out(self._go_on)

    def now_ms(self) -> int:
        """The time of day, in milliseconds since 1970."""
        passed = self.current_time() - self._began
        return self._began_ms + round(passed * 1000) + self._step_ms

    def start_clock(self) -> None:
        """It runs already."""

    def current_time(self) -> float:
        held_at = self._held_at
        return time.monotonic() + self._offset if held_at is None else held_at

    def deadline_to_sleep_time(self, deadline: float) -> float:
        left = deadline - self.current_time()
        return math.inf if left > 0 and self._held_at is not None else left

    def _jump(self, seconds: float) -> None:
        if self._held_at is None:
            self._offset += seconds
        else:
            self._held_at += seconds

    def _go_on(self) -> None:
        if self._held_at is not None:
            self._offset = self._held_at - time.monotonic()
            self._held_at = None


def _seconds(by: float | timedelta) -> float:
    return by.total_seconds() if isinstance(by, timedelta) else by
