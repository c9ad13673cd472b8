"""Names and small values that every layer shares."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, NewType, Protocol, TypeAlias

Uuid = NewType("Uuid", bytes)
"""Sixteen bytes, as on the wire. Kafka prints them as 22 characters of URL-safe base64."""

ZERO_UUID = Uuid(bytes(16))


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        """As its directory is named, and as people look for it."""
        return f"{self.topic}-{self.partition}"


class HasDescriptor(Protocol):
    def fileno(self) -> int: ...


class FileSlice:
    """Bytes that stay in a file until they are sent: `size` of them from `position`.

    The slice keeps the file: one that closes itself when nobody needs it may be deleted meanwhile.
    """

    __slots__ = ("file", "position", "size")

    def __init__(self, file: HasDescriptor, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"FileSlice({self.file}, {self.position}, {self.size})"


Buffer: TypeAlias = bytes | bytearray | memoryview

Records: TypeAlias = Buffer | FileSlice
"""Record batches, back to back: in memory, or still in the segment file."""


class Versions(NamedTuple):
    """An interval of message versions, both ends included."""

    lowest: int
    highest: int

    @classmethod
    @cache
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
