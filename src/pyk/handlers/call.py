"""What a handler knows of a request beside its body."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    version: int
    client_id: str | None
