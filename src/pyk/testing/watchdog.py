"""Finds who holds the event loop of a broker in a test: while one task computes, all others wait.

    each step of a task -> its processor time -> a hold, if it was long, with the stacks seen in it

Only processor time of the loop's own thread counts, so that a machine which is busy with something
else makes no difference. What a test does itself in the loop does not count, nor what would be done
in another thread (`at_once`), nor garbage collection, which looks at all that pytest has, nor
imports, which `pyk serve` has behind it. A stack tells which of these it is.
"""

from __future__ import annotations

import gc
import threading
from collections import Counter, deque
from collections.abc import Iterable
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trio.abc import Instrument

from pyk.telemetry.loop import Stack, stack_in

if TYPE_CHECKING:
    import trio

LOOK_EVERY: Final = 0.005
NOTED_AFTER_NANOSECONDS: Final = 20_000_000
"""What takes less is not looked at: a test may set its limit anywhere above."""
STACKS_MAX: Final = 1000
OF_THE_BROKER: Final = tuple(
    f"/pyk/{part}"
    for part in (
        "broker.py",
        "coordinator/",
        "handlers/",
        "metadata/",
        "replication/",
        "server/",
        "sharing/",
        "telemetry/",
    )
)
"""Where code is that a broker runs in its loop. What is below, such as logs and codecs, is used by
tests as well."""
NOT_HELD: Final = ("/pyk/offload.py", "<frozen importlib._bootstrap>")


class Hold(NamedTuple):
    """How long a task has held the loop, and where it was seen."""

    task: str
    seconds: float
    stack: Stack
    """The one that was seen most often."""

    def __str__(self) -> str:
        lines = (f"  {each.file}:{each.line} in {each.function}" for each in self.stack)
        where = "\n".join(lines) or "  nobody saw where"
        return f"{self.task} held the loop for {self.seconds:.3f} s of processor time:\n{where}"


class Watchdog:
    """For all loops of a process, from `start` to `stop`."""

    def __init__(self) -> None:
        self._holds: deque[Hold] = deque()
        self._watches: set[LoopWatch] = set()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, name="watchdog", daemon=True)
        self._collections: deque[tuple[int, int, int]] = deque(maxlen=STACKS_MAX)
        """When garbage collections ended, in which thread, and what they took."""
        self._collecting_since = 0

    def start(self) -> None:
        gc.callbacks.append(self._note_collection)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
        gc.callbacks.remove(self._note_collection)

    def instrument(self) -> LoopWatch:
        """For one `trio.run`."""
        return LoopWatch(self)

    def take(self) -> list[Hold]:
        """Those since the last time, the longest first."""
        found = []
        while self._holds:
            found.append(self._holds.popleft())
        return sorted(found, key=lambda hold: -hold.seconds)

    def begin(self, watch: LoopWatch) -> None:
        self._watches.add(watch)

    def end(self, watch: LoopWatch) -> None:
        self._watches.discard(watch)

    def note(self, watch: LoopWatch, task: trio.lowlevel.Task, nanoseconds: int) -> None:
        since, thread = watch.since, watch.thread
        nanoseconds -= sum(
            took for ended, where, took in self._collections if where == thread and ended >= since
        )
        seen = [stack for at, stack in list(watch.stacks) if at == since]
        own = [stack for stack in seen if is_of_the_broker(stack)]
        share = len(own) / len(seen) if seen else float(_is_own_task(task))
        if nanoseconds * share >= NOTED_AFTER_NANOSECONDS:
            most = Counter(own).most_common(1)
            stack = most[0][0] if most else ()
            self._holds.append(Hold(task.name, nanoseconds * share / 1e9, stack))

    def _look(self) -> None:
        while not self._stopped.wait(LOOK_EVERY):
            for watch in list(self._watches):
                since = watch.since
                if since and perf_counter_ns() - since >= NOTED_AFTER_NANOSECONDS // 2:
                    watch.stacks.append((since, stack_in(watch.thread)))

    def _note_collection(self, phase: str, details: dict[str, Any]) -> None:
        if phase == "start":
            self._collecting_since = thread_time_ns()
        else:
            took = thread_time_ns() - self._collecting_since
            self._collections.append((perf_counter_ns(), threading.get_ident(), took))


class LoopWatch(Instrument):
    """Times the steps of a loop's tasks."""

    def __init__(self, watchdog: Watchdog) -> None:
        self.thread = 0
        self.since = 0
        """When the step began that is being taken, or 0."""
        self.stacks: deque[tuple[int, Stack]] = deque(maxlen=STACKS_MAX)
        """With the beginning of the step in which they were seen."""
        self._watchdog = watchdog
        self._began = 0

    def before_run(self) -> None:
        self.thread = threading.get_ident()
        self._watchdog.begin(self)

    def after_run(self) -> None:
        self._watchdog.end(self)

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.since = perf_counter_ns()
        self._began = thread_time_ns()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took = thread_time_ns() - self._began
        if took >= NOTED_AFTER_NANOSECONDS:
            self._watchdog.note(self, task, took)
        self.since = 0


def is_of_the_broker(stack: Stack) -> bool:
    files = [frame.file for frame in stack]
    return _any_has(files, OF_THE_BROKER) and not _any_has(files, NOT_HELD)


def _any_has(files: Iterable[str], parts: Iterable[str]) -> bool:
    return any(part in file for file in files for part in parts)


def _is_own_task(task: trio.lowlevel.Task) -> bool:
    code = getattr(task.coro, "cr_code", None)
    return code is not None and _any_has([code.co_filename], OF_THE_BROKER)
