"""What clients of a broker were told, and what must follow from it for whoever reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

Place = tuple[str, int]
"""A topic, and the number of a partition."""


class Violation(Exception):
    """Something is so that must not be."""


class Stored(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass
class Written:
    """Of one partition."""

    acknowledged: dict[int, bytes] = field(default_factory=dict)
    """By offset."""
    refused: set[bytes] = field(default_factory=set)
    """The disk did not take them, and the client knows that."""
    attempted: set[bytes] = field(default_factory=set)
    aborted: set[bytes] = field(default_factory=set)
    is_idempotent: bool = False
    start_max: int = 0
    """No record from here on may have been removed."""
    is_compacted: bool = False
    latest: dict[bytes, list[bytes]] = field(default_factory=dict)
    """By key: the last that was acknowledged, and what was attempted behind it."""

    def check(self, place: Place, start: int, end: int, found: list[Stored]) -> None:
        """Raise Violation."""
        self._check_ends(place, start, end)
        values = {each.offset: each.value for each in found}
        for offset, value in self.acknowledged.items():
            if offset >= start and not self.is_compacted and values.get(offset) != value:
                there = values.get(offset)
                raise Violation(f"{place}: {value!r} was acknowledged at {offset}: {there!r}")
        for each in found:
            if each.value not in self.attempted:
                raise Violation(f"{place}: nobody wrote {each}")
            if each.value in self.aborted:
                raise Violation(f"{place}: {each} was aborted")
            if each.value in self.refused:
                raise Violation(f"{place}: {each} was refused")
        if self.is_idempotent:
            twice = [value for value, n in Counter(values.values()).items() if n > 1]
            if twice:
                raise Violation(f"{place}: {twice} are there twice")
        if self.is_compacted:
            self._check_keys(place, found)

    def _check_ends(self, place: Place, start: int, end: int) -> None:
        if start > self.start_max:
            raise Violation(f"{place} starts at {start}, beyond {self.start_max}")
        missing = [offset for offset in self.acknowledged if offset >= end]
        if missing:
            raise Violation(f"{place} ends at {end}, and {missing} were acknowledged")

    def _check_keys(self, place: Place, found: list[Stored]) -> None:
        last = {each.key: each.value for each in found}
        for key, possible in self.latest.items():
            if last.get(key) not in possible:
                raise Violation(f"{place}: {key!r} is {last.get(key)!r}, not one of {possible}")
