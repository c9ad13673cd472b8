"""The text of all figures, in turns: others go on while it is written.

Those who ask while it is being written are given the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Final

import trio

from pyk.metrics import Family, lines
from pyk.telemetry.figures import Figures

TURN_NANOSECONDS: Final = 5_000_000


class Scrapes:
    """One at a time."""

    def __init__(self, figures: Figures, turn_nanoseconds: int = TURN_NANOSECONDS) -> None:
        self.written = 0
        """How often the text was written, which is not how often somebody asked."""
        self._figures = figures
        self._turn = turn_nanoseconds
        self._ends_at = 0
        self._current: _Scrape | None = None

    async def text(self) -> Sequence[bytes]:
        """In parts."""
        while self._current is not None:
            current = self._current
            await current.is_over.wait()
            if current.parts is not None:
                return current.parts
            # Whoever wrote has hung up before it was done.
        scrape = self._current = _Scrape()
        try:
            scrape.parts = await self._write()
        finally:
            self._current = None
            scrape.is_over.set()
        return scrape.parts

    async def _write(self) -> list[bytes]:
        self.written += 1
        await self._figures.open_logs()
        self._ends_at = perf_counter_ns() + self._turn
        parts: list[bytes] = []
        for family in self._figures.families():
            complete = len(parts)
            try:
                await self._write_family(family, parts)
            except Exception:
                del parts[complete:]
                self._figures.note_failure(family.name)
        return parts

    async def _write_family(self, family: Family, parts: list[bytes]) -> None:
        written: list[str] = []
        for line in lines(family):
            written.append(line)
            if perf_counter_ns() >= self._ends_at:
                parts.append("".join(written).encode())
                written.clear()
                await trio.lowlevel.checkpoint()
                self._ends_at = perf_counter_ns() + self._turn
        parts.append("".join(written).encode())


class _Scrape:
    def __init__(self) -> None:
        self.is_over = trio.Event()
        self.parts: Sequence[bytes] | None = None
        """None if nobody got to their end."""
