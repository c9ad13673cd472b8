"""Where work that waits for the disk is done, so that it keeps nobody else waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

Offload: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]
"""Run a function elsewhere. A simulation has another one than `in_thread`."""


async def in_thread(run: Callable[[], None]) -> None:
    await trio.to_thread.run_sync(run)
