"""Names and small values that every layer shares."""

from __future__ import annotations

from typing import NamedTuple, NewType, TypeAlias

Uuid = NewType("Uuid", bytes)
"""Sixteen bytes, as on the wire. Kafka prints them as 22 characters of URL-safe base64."""

ZERO_UUID = Uuid(bytes(16))


class FileSlice:
    """Bytes that stay in a file until they are sent: `size` of them from `position`.

    Whoever makes one keeps `descriptor` open for as long as the slice is used.
    """

    __slots__ = ("descriptor", "position", "size")

    def __init__(self, descriptor: int, position: int, size: int) -> None:
        self.descriptor = descriptor
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"FileSlice({self.descriptor}, {self.position}, {self.size})"


Buffer: TypeAlias = bytes | bytearray | memoryview

Records: TypeAlias = Buffer | FileSlice
"""Record batches, back to back: in memory, or still in the segment file."""


class Versions(NamedTuple):
    """An interval of message versions, both ends included."""

    lowest: int
    highest: int

    @classmethod
    def parse(cls, text: str) -> Versions:
        """`"3"`, `"3-9"`, `"3+"` or `"none"`, as Kafka's documents write them."""
        if text == "none":
            return NO_VERSIONS
        if text.endswith("+"):
            return cls(int(text[:-1]), VERSION_MAX)
        lowest, _, highest = text.partition("-")
        return cls(int(lowest), int(highest or lowest))

    def covers(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def __str__(self) -> str:
        if self.highest == VERSION_MAX:
            return f"{self.lowest}+"
        if self.lowest > self.highest:
            return "none"
        return f"{self.lowest}" if self.lowest == self.highest else f"{self.lowest}-{self.highest}"


VERSION_MAX = 32_767
NO_VERSIONS = Versions(0, -1)
