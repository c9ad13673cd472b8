"""Requests that wait for news: each is tried again, by a plain call, whenever it is woken.

    partition has more -> Parked.wake -> News -> try again -> answer -> socket
                                          |
                  told by the connection that brought the news, before its task goes on

No task has a turn in between, and that is most of what a record takes from who writes it to who
waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import CoroutineType
from typing import Any, Final, Protocol, TypeAlias

import trio

TOLD_AT_ONCE: Final = 16
"""How many requests are tried again before others have their turn."""

Attempt: TypeAlias = Callable[[bool], Any]
"""The response, a coroutine that gives it, or None if it is worth waiting for more. It is told
whether it is late, when anything will do."""
Take: TypeAlias = Callable[[Any], None]
"""What to do with the response, or with the exception that came instead."""


class Watched(Protocol):
    """What wakes those who wait for it."""

    def add_waiter(self, waiter: Parked, /) -> None: ...
    def remove_waiter(self, waiter: Parked, /) -> None: ...


class News:
    """Those who are woken and were not tried again yet."""

    def __init__(self) -> None:
        self.is_attended = False
        """Whether whoever brings the news is about to tell them."""
        self.is_complete = False
        """Whether nothing else has arrived that may bring more of it."""
        self._woken: deque[Parked] = deque()
        self._soon = trio.Event()

    def __bool__(self) -> bool:
        return bool(self._woken)

    def add(self, parked: Parked) -> None:
        self._woken.append(parked)
        if not self.is_attended:
            self._soon.set()

    def tell(self) -> None:
        """Try some of them again. The others have a turn of their own."""
        for _ in range(min(len(self._woken), TOLD_AT_ONCE)):
            self._woken.popleft().try_again()
        if self._woken:
            self._soon.set()

    def tell_if_complete(self) -> None:
        """For whoever has brought all that there is for now, and is to do something else yet."""
        if self.is_complete and self._woken:
            self.tell()

    async def run(self) -> None:
        while True:
            await self._soon.wait()
            self._soon = trio.Event()
            while self._woken:
                self._woken.popleft().try_again()
                await trio.lowlevel.checkpoint()


class Parked:
    """An answer that is there when something has come that it waits for, or when it is late.

    Whoever does not care for the difference awaits it.
    """

    def __init__(
        self, news: News, attempt: Attempt, watched: Sequence[Watched], deadline: float
    ) -> None:
        self._news = news
        self._attempt = attempt
        self._watched = watched
        self._deadline = deadline
        self._take: Take | None = None
        self._is_woken = False
        self._decided = trio.Event()
        self._later: Coroutine[Any, Any, Any] | None = None
        self._failure: Exception | None = None

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._response().__await__()

    async def wait(self, take: Take) -> None:
        """Until `take` has the response, as soon as there is one. Raise what `take` raises."""
        self._take = take
        for each in self._watched:
            each.add_waiter(self)
        try:
            self.try_again()
            with trio.move_on_at(self._deadline):
                await self._decided.wait()
            if self._take is not None:
                self._decide(is_late=True)
                assert self._take is None, "an answer that is late has to be some answer"
            if self._later is not None:
                later, self._later = self._later, None
                await self._hand_over_later(take, later)
        finally:
            self._take = None
            for each in self._watched:
                each.remove_waiter(self)
            if self._later is not None:
                self._later.close()
        if self._failure is not None:
            raise self._failure

    def wake(self) -> None:
        """There may be more to answer with."""
        if not self._is_woken:
            self._is_woken = True
            self._news.add(self)

    def try_again(self) -> None:
        self._is_woken = False
        if self._take is not None:
            self._decide(is_late=False)

    def _decide(self, *, is_late: bool) -> None:
        try:
            response = self._attempt(is_late)
        except Exception as failure:
            response = failure
        if response is None:
            return
        take, self._take = self._take, None
        assert take is not None
        if isinstance(response, CoroutineType):
            self._later = response
        else:
            self._hand_over(take, response)
        self._decided.set()

    def _hand_over(self, take: Take, response: Any) -> None:
        # What fails here is for the task that waits, not for the one that has brought the news.
        try:
            take(response)
        except Exception as failure:
            self._failure = failure

    async def _hand_over_later(self, take: Take, response: Coroutine[Any, Any, Any]) -> None:
        found: Any
        try:
            found = await response
        except Exception as failure:
            found = failure
        self._hand_over(take, found)

    async def _response(self) -> Any:
        taken: list[Any] = []
        await self.wait(taken.append)
        if isinstance(taken[0], Exception):
            raise taken[0]
        return taken[0]
