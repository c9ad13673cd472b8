"""One run of a broker in a thread with a loop of its own: from its start to its end or death."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import trio
from trio.abc import Instrument

from pyk.broker import Broker, World, only_one, open_broker
from pyk.config.settings import BrokerSettings
from pyk.testing.clock import BrokerClock
from pyk.testing.fault import PATIENCE, BrokerFailed, Provoked

T = TypeVar("T")

Late: TypeAlias = SimpleQueue[Callable[[], T]]
"""Has what another thread waits for, as a function that returns or raises it. The first one counts.
Futures do as much, and take long to import."""


INSTRUMENTS: Final[list[Callable[[], Instrument]]] = []
"""What makes an instrument for each loop that begins, such as `pyk.testing.watchdog` has one."""


class Killed(Provoked):
    """Leaves all blocks as an error does: nothing is closed that a dead process would not close."""


class Run:
    """Started by `start`, which returns when clients are served."""

    def __init__(self, settings: BrokerSettings, world: World, clock: BrokerClock) -> None:
        self._settings = settings
        self._world = world
        self._clock = clock
        self._started: Late[Broker] = SimpleQueue()
        self._is_killed = False
        self._ending = trio.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._pending: set[Late[Any]] = set()
        self._thread = threading.Thread(target=self._run, name="pyk broker", daemon=True)
        self.failure: BaseException | None = None
        """What it died of."""

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def start(self) -> Broker:
        """Raise what keeps the broker from serving."""
        self._thread.start()
        return self._started.get()()

    def end(self, *, is_killed: bool = False) -> None:
        """Return when it has ended."""
        self._is_killed = is_killed
        self.soon(self._ending.set)
        self._thread.join()

    def soon(self, run: Callable[[], object]) -> None:
        """Have it called in the loop, if there still is one."""
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(run)

    def call(self, run: Callable[[], Awaitable[T]], timeout: float | None = None) -> T:
        """What it returns in the broker's loop, or raises. TimeoutError if that takes too long, and
        BrokerFailed if there is no loop, or none any more."""
        answer: Late[T] = SimpleQueue()
        scope = trio.CancelScope()
        self._pending.add(answer)
        self.soon(partial(self._begin, run, scope, answer))
        if not self.is_alive:
            self._fail(answer)
        try:
            found = answer.get(timeout=timeout)
        except Empty:
            self.soon(scope.cancel)
            raise TimeoutError(f"nothing after {timeout} s") from None
        finally:
            self._pending.discard(answer)
        return found()

    def carry_out(self, change: Callable[[], None]) -> None:
        """Have it done in the loop, and return when the broker has done what it could do then and
        waits for something."""
        if not self.is_alive:
            change()
            return

        # Here, since it imports pytest, and that takes as long as all of the broker.
        from trio.testing import wait_all_tasks_blocked

        async def settle() -> None:
            change()
            await wait_all_tasks_blocked()

        self.call(settle, PATIENCE)

    def _begin(
        self, run: Callable[[], Awaitable[T]], scope: trio.CancelScope, answer: Late[T]
    ) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(_answer, run, scope, answer)

    def _fail(self, answer: Late[Any]) -> None:
        failed = BrokerFailed("the broker does not run")
        failed.__cause__ = self.failure
        answer.put(partial(_raise, failed))

    def _run(self) -> None:
        try:
            trio.run(
                self._serve,
                clock=self._clock,
                instruments=[make() for make in INSTRUMENTS],
                strict_exception_groups=True,
            )
        except BaseException as failure:
            self.failure = None if is_provoked(failure, Killed) else failure
        if self.failure is not None:
            self._started.put(partial(_raise, only_one(self.failure)))
        for answer in list(self._pending):
            self._fail(answer)

    async def _serve(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with open_broker(self._settings, self._world) as broker:
            async with trio.open_nursery() as self._nursery:
                self._started.put(lambda: broker)
                await self._ending.wait()
                self._nursery.cancel_scope.cancel()
            if self._is_killed:
                raise Killed


async def _answer(
    run: Callable[[], Awaitable[T]], scope: trio.CancelScope, answer: Late[T]
) -> None:
    """A test's own errors are not the broker's."""
    with scope:
        try:
            found = await run()
        except Exception as error:
            answer.put(partial(_raise, error))
        else:
            answer.put(lambda: found)


def _raise(error: BaseException) -> NoReturn:
    raise error


def is_provoked(
    failure: BaseException | None, kind: type[BaseException] | tuple[type[BaseException], ...]
) -> bool:
    """Whether all that is in it is of this kind."""
    if isinstance(failure, BaseExceptionGroup):
        return all(is_provoked(each, kind) for each in failure.exceptions)
    return isinstance(failure, kind)
