"""How many turns others have while a request is answered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio


class Turns:
    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        while True:
            await trio.lowlevel.checkpoint()
            self.count += 1


@asynccontextmanager
async def counting_turns() -> AsyncIterator[Turns]:
    """Those of somebody who has something to do all the time."""
    turns = Turns()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(turns.run)
        await trio.lowlevel.checkpoint()
        turns.count = 0
        yield turns
        nursery.cancel_scope.cancel()
