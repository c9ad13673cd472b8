"""How far a start is with the logs that have to be recovered."""

from __future__ import annotations

from msgspec import Struct


class Recovery(Struct):
    """Whoever recovers counts, in one thread."""

    logs: int = 0
    """Those that are done."""
    logs_total: int = 0
    """0 if there is nothing to recover, or nobody knows yet."""
    bytes: int = 0
    bytes_total: int = 0
