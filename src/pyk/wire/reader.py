"""Reads a message field by field, as its declaration says: the first few of a kind are read so.

What it does is what a decoder does that is compiled, under the same rules, and tests compare them.
It takes five to twenty times as long, and nothing before: to compile one takes a millisecond.
"""

from __future__ import annotations

import struct
from typing import Any

from pyk.wire.fields import RECORDS, STRING, Field, Kind
from pyk.wire.message import layout
from pyk.wire.primitives import (
    OBJECTS_MAX,
    TAGS_MAX,
    ends_early,
    read_compact_string,
    read_string,
    read_uvarint,
    refuse_count,
    refuse_null,
    refuse_tags,
)
from pyk.wire.source import COPIED_BYTES_MAX, objects_min, packed


def read_plainly(
    declared: type, version: int, buffer: Any, position: int = 0, budget: int = OBJECTS_MAX
) -> tuple[Any, int]:
    """The message at `position`, and the position after it. See `shapes.Decoder`."""
    of = layout(declared)
    reader = _Reader(buffer, position, budget, version, of.flexible.covers(version))
    try:
        found = reader.read(declared)
    except (struct.error, IndexError):
        ends_early(f"{of.name} v{version}")
    if reader.position > len(buffer):
        ends_early(f"{of.name} v{version}")
    return found, reader.position


class _Reader:
    """A place in a buffer, which moves on with what is read."""

    __slots__ = ("_budget", "_buffer", "_flexible", "_version", "position")

    def __init__(
        self, buffer: Any, position: int, budget: int, version: int, flexible: bool
    ) -> None:
        self._buffer = memoryview(buffer)
        self._budget = budget
        self._version = version
        self._flexible = flexible
        self.position = position

    def read(self, declared: type) -> Any:
        values, tagged = {}, {}
        for field in layout(declared).fields:
            if not field.versions.covers(self._version):
                continue
            if field.tag is None:
                values[field.name] = self._value(field)
            else:
                tagged[field.tag] = field
        if self._flexible:
            values |= self._tagged(tagged)
        return declared(**values)

    def _tagged(self, fields: dict[int, Field]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        count, last = self._uvarint(), -1
        if count > TAGS_MAX:
            refuse_tags()
        for _ in range(count):
            tag, size = self._uvarint(), self._uvarint()
            stop = self.position + size
            if tag <= last or stop > len(self._buffer):
                refuse_tags()
            last = tag
            if tag not in fields:
                self.position = stop
                continue
            values[fields[tag].name] = self._value(fields[tag])
            if self.position != stop:
                refuse_tags()
        return values

    def _value(self, field: Field) -> Any:
        nullable = field.nullable.covers(self._version)
        if nullable and field.kind.struct is not None:
            return self._nullable_struct(field.kind.struct, field.tag is not None)
        return self._of(field.kind, field.name, nullable, self._flexible and field.compact)

    def _of(self, kind: Kind, name: str, nullable: bool, compact: bool) -> Any:
        if kind.format:
            return self._fixed(kind.format, kind.size)
        if kind.struct is not None:
            return self.read(kind.struct)
        if kind.element is not None:
            return self._array(kind.element, name, nullable, compact)
        return self._sized(kind, name, nullable, compact)

    def _fixed(self, format: str, size: int) -> Any:
        (value,) = packed(format).unpack_from(self._buffer, self.position)
        self.position += size
        return value

    def _uvarint(self) -> int:
        value: int = self._buffer[self.position]
        self.position += 1
        if value > 127:
            value, self.position = read_uvarint(self._buffer, self.position, value)
        return value

    def _length(self, kind: Kind, compact: bool) -> int:
        """Below 0 for null."""
        if compact:
            return self._uvarint() - 1
        length: int = self._fixed("h", 2) if kind is STRING else self._fixed("i", 4)
        return length

    def _sized(self, kind: Kind, name: str, nullable: bool, compact: bool) -> Any:
        first = self._buffer[self.position]
        if kind is STRING and compact and first > 127:
            found = read_compact_string(self._buffer, self.position + 1, first)
            value, self.position = found
            return value
        size = self._length(kind, compact)
        if size < 0:
            return None if nullable else refuse_null(name)
        if kind is STRING:
            value, self.position = read_string(self._buffer, self.position, size)
            return value
        taken = self._buffer[self.position : self.position + size]
        self.position += size
        return taken if kind is RECORDS and size > COPIED_BYTES_MAX else taken.tobytes()

    def _nullable_struct(self, declared: type, tagged: bool) -> Any:
        # What says null is a byte of -1, and in a tagged field, for no good reason, a varint of 0.
        present = self._uvarint() if tagged else self._fixed("b", 1)
        return None if present < int(tagged) else self.read(declared)

    def _array(self, element: Kind, name: str, nullable: bool, compact: bool) -> Any:
        count = self._length(element, compact) if compact else self._fixed("i", 4)
        if count < 0:
            return None if nullable else refuse_null(name)
        self._budget -= count * objects_min(element, self._version)
        if self._budget < 0:
            refuse_count(name)
        return [self._of(element, name, False, self._flexible) for _ in range(count)]
