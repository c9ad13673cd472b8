"""Where work that waits for the disk is done, so that it keeps nobody else waiting."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

import trio

from pyk.errors import forget_locals

T = TypeVar("T")

Offload: TypeAlias = Callable[[Callable[[], None]], Awaitable[None]]
"""Run a function elsewhere. A simulation has another one than `in_thread`."""


class Elsewhere(Protocol):
    """An `Offload` that also brings back what the function returns."""

    def __call__(self, run: Callable[[], T], /) -> Awaitable[T]: ...


class Interrupted(Exception):
    """The work is not wanted any more."""


async def in_thread(run: Callable[[], T], /) -> T:
    return await trio.to_thread.run_sync(_forget_locals_of_failures, run)


def _forget_locals_of_failures(run: Callable[[], T]) -> T:
    # An exception that leaves a thread is part of a reference cycle, and its frames hold what they
    # worked on, such as a batch that was inflated: megabytes, until the garbage collector comes.
    try:
        return run()
    except Exception as failure:
        forget_locals(failure)
        raise


async def at_once(run: Callable[[], T], /) -> T:
    """Here, but others go on first, as with a thread. For disks that keep nobody waiting."""
    await trio.lowlevel.checkpoint()
    return run()


async def interruptibly(offload: Elsewhere, run: Callable[[Callable[[], None]], T]) -> T:
    """Run what takes long. It calls what it is given now and then, which raises Interrupted as
    soon as the caller is cancelled: nobody waits for the end of it then."""
    is_cancelled = False

    def checkpoint() -> None:
        if is_cancelled:
            raise Interrupted

    async def notice() -> None:
        nonlocal is_cancelled
        try:
            await trio.sleep_forever()
        finally:
            is_cancelled = True

    result: list[T] = []
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notice)
        try:
            result.append(await offload(partial(run, checkpoint)))
        except Interrupted:
            pass
        except Exception as failed:
            # Not through the nursery, which would make a group of it.
            failure = failed
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not result:
        await trio.lowlevel.checkpoint_if_cancelled()
        raise Interrupted
    return result[0]
