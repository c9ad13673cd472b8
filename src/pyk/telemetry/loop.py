"""How late the event loop is: while one task computes, all others wait."""

from __future__ import annotations

from time import perf_counter_ns
from typing import Final

import trio

from pyk.metrics import Histogram

INTERVAL: Final = 0.1


async def measure_delay(found: Histogram) -> None:
    """Until cancelled: sleep for a moment again and again, and note by how much it was longer."""
    while True:
        due = perf_counter_ns() + round(INTERVAL * 1e9)
        await trio.sleep(INTERVAL)
        found.add(max(perf_counter_ns() - due, 0))
