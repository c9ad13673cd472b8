"""Any value of any message, as a Hypothesis strategy.

Hypothesis draws plain bytes and a `Pool` turns them into a value, field by field. That is some
fifty times as fast as strategies nested as deep as messages are, and it still shrinks: fewer and
smaller bytes are a simpler message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from pyk.types import ZERO_UUID
from pyk.wire.fields import Field, Kind
from pyk.wire.message import layout

INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
TEXTS = ("", "t", "topic-1", "Füße", "日本語", "\N{ROCKET} to \0", "x" * 126, "y" * 127, "z" * 300)
BLOBS = (b"", b"\0", bytes(range(256)), b"\xff" * 126, b"\x80" * 127, bytes(5_000))


class Pool:
    """Bytes to decide by. When they are used up, everything is zero and the simplest."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def byte(self) -> int:
        if self._position >= len(self._data):
            return 0
        self._position += 1
        return self._data[self._position - 1]

    def integer(self, low: int, high: int) -> int:
        how = self.byte() % 8
        if how < 4:
            return (max(low, 0), high, low, max(low, -1))[how]
        size = (how - 3) * 2
        drawn = int.from_bytes(bytes(self.byte() for _ in range(size)), "big")
        return low + drawn % (high - low + 1)

    def some(self, choices: tuple[Any, ...]) -> Any:
        return choices[self.byte() % len(choices)]


Override = Callable[[Field, Pool], Any]


def messages(
    declared: type, version: int, override: Override | None = None
) -> st.SearchStrategy[Any]:
    """Instances that this version can carry: fields it lacks keep their defaults.

    `override` may return a value for a field that some other library is particular about.
    """
    return st.binary(min_size=50, max_size=600).map(
        lambda data: build(declared, version, Pool(data), override)
    )


def build(declared: type, version: int, pool: Pool, override: Override | None = None) -> Any:
    return declared(
        **{
            field.name: _value(field, version, pool, override)
            for field in layout(declared).fields
            if field.versions.covers(version)
        }
    )


def _value(field: Field, version: int, pool: Pool, override: Override | None) -> Any:
    if override is not None and (special := override(field, pool)) is not None:
        return special
    if field.tag is not None and pool.byte() % 2:
        return field.default
    if field.nullable.covers(version) and pool.byte() % 4 == 3:
        return None
    return _of(field.kind, version, pool, override)


def _of(kind: Kind, version: int, pool: Pool, override: Override | None) -> Any:
    if kind.struct is not None:
        return build(kind.struct, version, pool, override)
    if kind.element is not None:
        count = pool.some((0, 1, 2, 1, 3, 1))
        return [_of(kind.element, version, pool, override) for _ in range(count)]
    if kind.name in INTEGERS:
        return pool.integer(*INTEGERS[kind.name])
    if kind.name == "bool":
        return bool(pool.byte() % 2)
    if kind.name == "float64":
        return pool.integer(-(2**53), 2**53) / pool.some((1, 3, 1024))
    if kind.name == "uuid":
        return pool.some((bytes(ZERO_UUID), bytes(range(16)), bytes([pool.byte()] * 16)))
    return pool.some(TEXTS if kind.name == "string" else BLOBS)
