"""Writes a message field by field, as its declaration says: the first few of a kind are written so.

What it does is what an encoder does that is compiled, and tests compare them.
"""

from __future__ import annotations

from typing import Any

from pyk.types import NO_VERSIONS, FileSlice
from pyk.wire.fields import RECORDS, STRING, Field, Kind
from pyk.wire.message import layout
from pyk.wire.primitives import (
    STRING_BYTES_MAX,
    refuse_length,
    refuse_none,
    refuse_value,
    uvarint,
)
from pyk.wire.shapes import Chunks, Note, ignore, is_error_code
from pyk.wire.source import COPIED_BYTES_MAX, gathered, packed


def write_plainly(version: int, message: Any, note: Note = ignore) -> Chunks:
    """The message as chunks to be sent in order. See `shapes.Encoder`."""
    of = layout(type(message))
    writer = _Writer(f"{of.name} v{version}", version, of.flexible.covers(version), note)
    writer.write(message)
    return writer.chunks()


def has_more_elements_than(message: Any, count: int) -> bool:
    """Whether all arrays of the message together are longer than that."""
    return _left_after(message, count) < 0


def _left_after(message: Any, left: int) -> int:
    for field in layout(type(message)).fields:
        value = getattr(message, field.name)
        if type(value) is not list:
            continue
        left -= len(value)
        if field.kind.element is not None and field.kind.element.struct is not None:
            for item in value:
                if left < 0:
                    return left
                left = _left_after(item, left)
    return left


class _Writer:
    """What is written so far."""

    __slots__ = ("_chunks", "_flexible", "_known", "_label", "_note", "_parts", "_version")

    def __init__(self, label: str, version: int, flexible: bool, note: Note) -> None:
        self._label = label
        self._version = version
        self._flexible = flexible
        self._note = note
        self._chunks: Chunks = []
        self._known: dict[int, bytes] = {}
        """Arrays that may be there again."""
        self._parts: list[Any] = []

    def chunks(self) -> Chunks:
        if self._parts:
            self._chunks.append(b"".join(self._parts))
        if self._known:
            return gathered(self._chunks)
        return self._chunks or [b""]

    def write(self, message: Any) -> None:
        tagged = []
        for field in layout(type(message)).fields:
            value = getattr(message, field.name)
            if not field.versions.covers(self._version):
                if not field.ignorable and value != field.default:
                    refuse_value(self._label, field.name)
            elif field.tag is None:
                if value and is_error_code(field):
                    self._note(value)
                self._value(field, value)
            elif value != field.default:
                tagged.append((field.tag, field, value))
        if self._flexible:
            self._parts.append(uvarint(len(tagged)))
            for tag, field, value in sorted(tagged, key=lambda each: each[0]):
                self._tagged(tag, field, value)

    def _tagged(self, tag: int, field: Field, value: Any) -> None:
        outer, self._parts = self._parts, []
        self._value(field, value)
        inner, self._parts = b"".join(self._parts), outer
        self._parts += [uvarint(tag), uvarint(len(inner)), inner]

    def _value(self, field: Field, value: Any) -> None:
        nullable = field.nullable.covers(self._version)
        if value is None and not nullable and field.nullable != NO_VERSIONS:
            refuse_none(field.name)
        if nullable and field.kind.struct is not None:
            self._nullable_struct(value, field.tag is not None)
        elif field.often_same:
            self._often_same_array(field, value)
        else:
            self._of(field.kind, value, nullable, self._flexible and field.compact)

    def _of(self, kind: Kind, value: Any, nullable: bool, compact: bool) -> None:
        if kind.format:
            self._parts.append(packed(kind.format).pack(value))
        elif kind.struct is not None:
            self.write(value)
        elif kind.element is not None:
            self._array(kind.element, value, nullable, compact)
        else:
            self._sized(kind, value, nullable, compact)

    def _often_same_array(self, field: Field, value: Any) -> None:
        known = self._known.get(id(value))
        if known is None:
            outer, self._parts = self._parts, []
            self._of(field.kind, value, False, self._flexible and field.compact)
            known = self._known[id(value)] = b"".join(self._parts)
            self._parts = outer
        self._chunks += [b"".join(self._parts), known]
        self._parts = []

    def _nullable_struct(self, value: Any, tagged: bool) -> None:
        # What says null is a byte of -1, and in a tagged field, for no good reason, a varint of 0.
        if value is None:
            self._parts.append(b"\0" if tagged else b"\xff")
        else:
            self._parts.append(b"\1")
            self.write(value)

    def _length(self, format: str, length: int, compact: bool) -> None:
        self._parts.append(uvarint(length + 1) if compact else packed(format).pack(length))

    def _sized(self, kind: Kind, value: Any, nullable: bool, compact: bool) -> None:
        format = "h" if kind is STRING else "i"
        if value is None and nullable:
            self._length(format, -1, compact)
            return
        if kind is STRING:
            value = value.encode()
            if len(value) > STRING_BYTES_MAX:
                refuse_length(len(value))
        self._length(format, len(value), compact)
        if kind is RECORDS and (len(value) > COPIED_BYTES_MAX or type(value) is FileSlice):
            self._chunks += [b"".join(self._parts), value]
            self._parts = []
        else:
            self._parts.append(value)

    def _array(self, element: Kind, value: Any, nullable: bool, compact: bool) -> None:
        if value is None and nullable:
            self._length("i", -1, compact)
            return
        self._length("i", len(value), compact)
        for item in value:
            self._of(element, item, False, self._flexible)
