"""Clients that hang up while they wait for an answer.

A connection that waits for its handler is not read, so nobody would notice. Each one that ever
waits is registered once with an epoll of its own, which reports nothing but the end of the other
side: that costs nothing for each request.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self

import trio

if TYPE_CHECKING:
    from types import TracebackType

EVENTS: Final = select.EPOLLRDHUP | select.EPOLLET
EVENTS_MAX: Final = 256


class HangUps:
    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._told: dict[int, Callable[[], None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._epoll.close()

    def watch(self, descriptor: int, tell: Callable[[], None]) -> None:
        """Have `tell` called, once, when the other side of this socket has hung up."""
        if descriptor not in self._told:
            self._epoll.register(descriptor, EVENTS)
            self._told[descriptor] = tell

    def forget(self, descriptor: int) -> None:
        """The socket is about to be closed."""
        if self._told.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    async def run(self) -> None:
        while True:
            await trio.lowlevel.wait_readable(self._epoll.fileno())
            for descriptor, _ in self._epoll.poll(0, EVENTS_MAX):
                tell = self._told.get(descriptor)
                if tell is not None:
                    tell()
