"""How late the event loop is, and who has held it: while one task computes, all others wait.

A task is to wake up all the time, and a thread sees whether it does. If not, the thread looks at
what the loop does meanwhile. It costs the loop a wake-up every 50 ms, and requests nothing.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import trio

from pyk.metrics import Histogram
from pyk.sparing import Sparing
from pyk.telemetry.process import GarbageCollection

if TYPE_CHECKING:
    from types import FrameType

INTERVAL: Final = 0.05
LATE_NANOSECONDS: Final = 100_000_000
"""From here on it is worth a line in the log."""
SUSPECT_NANOSECONDS: Final = 40_000_000
FRAMES_MAX: Final = 100
FRAMES_SHOWN: Final = 12
STACKS_MAX: Final = 100
CULPRITS_MAX: Final = 200
UNKNOWN: Final = "unknown"
COLLECTOR: Final = "garbage collection"
SYSTEM: Final = "the system"
"""The process had nothing to do, or did not run: the machine has too much of other work."""
PACKAGE: Final = "/pyk/"
CARRIERS: Final = (
    "__main__", "broker", "cli.", "daemon", "offload", "server.", "telemetry.loop", "testing.",
)  # fmt: skip
"""Modules through which everything runs: who is called by them is to be named."""

logger = logging.getLogger(__name__)


class Frame(NamedTuple):
    file: str
    line: int
    function: str

    @property
    def module(self) -> str:
        """Within pyk, or empty."""
        _, found, path = self.file.rpartition(PACKAGE)
        return path.removesuffix(".py").replace("/", ".") if found else ""


Stack: TypeAlias = tuple[Frame, ...]
"""The innermost last."""


def stack_in(thread: int) -> Stack:
    # No frame is kept: it would keep what is in it, such as files and locks.
    frame: FrameType | None = sys._current_frames().get(thread)
    found: list[Frame] = []
    while frame is not None and len(found) < FRAMES_MAX:
        found.append(Frame(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return tuple(reversed(found))


def culprit(stack: Stack) -> str:
    """The function of pyk that does it, as a handler or an upkeep: one of a few hundred."""
    own = [frame for frame in stack if frame.module]
    for frame in own:
        if not frame.module.startswith(CARRIERS):
            return f"{frame.module}.{frame.function}"
    return f"{own[-1].module}.{own[-1].function}" if own else UNKNOWN


class LoopWatch:
    """Of the loop that it is opened in."""

    def __init__(self) -> None:
        self.delay = Histogram()
        self.held: Counter[str] = Counter()
        """How often, by who did it."""
        self.held_nanoseconds: Counter[str] = Counter()
        self.garbage = GarbageCollection()
        self._thread = threading.get_ident()
        self._due = 0
        self._stacks: list[Stack] = []
        self._lines = Sparing()
        self._stopped = threading.Event()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        looker = threading.Thread(target=self._look, name="pyk loop watch", daemon=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._wake_up)
            looker.start()
            try:
                with self.garbage.watched():
                    yield
            finally:
                self._stopped.set()
                nursery.cancel_scope.cancel()

    async def _wake_up(self) -> None:
        while True:
            began, collected = thread_time_ns(), self.garbage.pauses.nanoseconds
            self._due = due = perf_counter_ns() + round(INTERVAL * 1e9)
            await trio.sleep(INTERVAL)
            late = max(perf_counter_ns() - due, 0)
            self._due = 0
            self.delay.add(late)
            if late >= LATE_NANOSECONDS:
                collecting = self.garbage.pauses.nanoseconds - collected
                computed = thread_time_ns() - began
                self.note(blamed(self._stacks, late, computed, collecting), late, computed)
            self._stacks.clear()

    def _look(self) -> None:
        while not self._stopped.wait(INTERVAL):
            due = self._due
            if due and perf_counter_ns() - due >= SUSPECT_NANOSECONDS:
                stack = stack_in(self._thread)
                if self._due == due and len(self._stacks) < STACKS_MAX:
                    self._stacks.append(stack)

    def note(self, who: str, late: int, computed: int) -> None:
        if who not in self.held and len(self.held) >= CULPRITS_MAX:
            who = "others"
        self.held[who] += 1
        self.held_nanoseconds[who] += late
        more = self._lines.next_line()
        if more is not None:
            logger.warning(
                "the event loop was held for %.2f s, of which %.2f s on the processor, by %s%s",
                late / 1e9,
                computed / 1e9,
                who,
                more,
                extra={"stack": shown(self._stacks, who)},
            )


def blamed(stacks: Sequence[Stack], late: int, computed: int, collecting: int) -> str:
    """Who it was, given for how long in nanoseconds the loop was late, and what that is of."""
    if collecting > late / 2:
        return COLLECTOR
    found = Counter(culprit(stack) for stack in stacks).most_common(1)
    who = found[0][0] if found else UNKNOWN
    return SYSTEM if who == UNKNOWN and computed < late / 2 else who


def shown(stacks: list[Stack], who: str) -> str:
    """The one that was seen most often of them, the innermost frame first."""
    found = Counter(stack for stack in stacks if culprit(stack) == who).most_common(1)
    frames = found[0][0][::-1][:FRAMES_SHOWN] if found else ()
    return " < ".join(f"{frame.file}:{frame.line} {frame.function}" for frame in frames)
