"""Connections that end, a few in each turn.

When thousands of clients go at once, as they do with their machine, the end of each is a little
work, and trio would do all of it before anybody else has a turn.
"""

from __future__ import annotations

from typing import Final

import trio

PER_TURN: Final = 16


class Farewells:
    def __init__(self) -> None:
        self._left = PER_TURN
        """How many more may end in this turn."""
        self._waiting = trio.lowlevel.ParkingLot()
        self._called = trio.lowlevel.ParkingLot()

    async def wait_for_turn(self) -> None:
        """Return when a connection may end."""
        self._called.unpark_all()
        if self._left:
            self._left -= 1
        else:
            await self._waiting.park()

    async def run(self) -> None:
        """Begin a turn after the other, for as long as connections end, until cancelled."""
        while True:
            if self._left == PER_TURN:
                await self._called.park()
            await trio.lowlevel.checkpoint()
            self._left = PER_TURN - len(self._waiting.unpark(count=PER_TURN))
