"""Where work that waits for the disk is done, so that it keeps nobody else waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar

import trio

T = TypeVar("T")

Offload: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]
"""Run a function elsewhere. A simulation has another one than `in_thread`."""


class Elsewhere(Protocol):
    """An `Offload` that also brings back what the function returns."""

    def __call__(self, run: Callable[[], T], /) -> Awaitable[T]: ...


async def in_thread(run: Callable[[], T], /) -> T:
    return await trio.to_thread.run_sync(run)


async def at_once(run: Callable[[], T], /) -> T:
    """Here, but others go on first, as with a thread. For disks that keep nobody waiting."""
    await trio.lowlevel.checkpoint()
    return run()
