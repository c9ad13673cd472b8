"""One bit of a file of a data directory, flipped while no broker runs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Flip:
    seed: int
    what: str = ""
    result: str = ""
    violations: list[str] = field(default_factory=list)


def flip(seed: int) -> Flip:
    return Flip(seed)
