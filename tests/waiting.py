"""Somebody who waits for an answer while something happens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio
import trio.testing

T = TypeVar("T")


@asynccontextmanager
async def waiting(ask: Callable[[], Awaitable[T]], times: int = 1) -> AsyncIterator[list[T]]:
    """The block begins when all who ask wait, and ends when all have heard: what they heard."""
    heard: list[T] = []

    async def wait() -> None:
        heard.append(await ask())

    async with trio.open_nursery() as nursery:
        for _ in range(times):
            nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        yield heard
