"""Work that takes long, done in turns, so that others are served between.

Work is a generator. It yields wherever others may have their turn, which is between two partitions,
topics or resources, and returns what was asked for. What takes no longer than a turn is there at
once, as if it had been a plain function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator
from inspect import isawaitable
from time import perf_counter
from typing import Any, Final, TypeAlias, TypeVar

import trio

TURN_SECONDS: Final = 0.005

T = TypeVar("T")

Work: TypeAlias = Generator[None, None, T]


def at_once(work: Work[T]) -> T:
    """Do all of it."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: T = end.value
            return found


async def in_turns(work: Work[T]) -> T:
    """Do it in turns, the first one now."""
    while True:
        turn_ends = perf_counter() + TURN_SECONDS
        try:
            next(work)
            while perf_counter() < turn_ends:
                next(work)
        except StopIteration as end:
            found: T = end.value
            return found
        await trio.lowlevel.checkpoint()


def answered(work: Work[T]) -> T | Coroutine[Any, Any, T]:
    """What a handler returns: the response, if a turn is enough for it, or else what gives it."""
    turn_ends = perf_counter() + TURN_SECONDS
    try:
        next(work)
        while perf_counter() < turn_ends:
            next(work)
    except StopIteration as end:
        found: T = end.value
        return found
    return _rest(work)


async def _rest(work: Work[T]) -> T:
    await trio.lowlevel.checkpoint()
    return await in_turns(work)


async def settled(outcome: T | Awaitable[T]) -> T:
    """What somebody says at once, or else when it is known."""
    if isawaitable(outcome):
        found: T = await outcome
        return found
    return outcome
