"""Encoders: from a message's declaration and a version to the function that writes it.

An encoder returns chunks to be sent one after the other: bytes, and record batches as they were
given (a view, or a slice of a file), uncopied unless they are small. It tells the error codes that
it writes: who counts them need not look for them. Those in an array that is `often_same` it tells
once.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyk.types import NO_VERSIONS, FileSlice
from pyk.wire.fields import Field, Kind
from pyk.wire.message import Layout, layout
from pyk.wire.primitives import (
    STRING_BYTES_MAX,
    refuse_length,
    refuse_none,
    refuse_value,
    uvarint,
)
from pyk.wire.shapes import Encoder, ignore, is_error_code
from pyk.wire.source import COPIED_BYTES_MAX, Source, gathered, has_records

JOINED_EARLY_MIN = 8_192
"""More pieces than that are joined before all of them are there: no other thread runs meanwhile,
and a million small ones take 90 ms."""

_BYTE = tuple(bytes([value]) for value in range(128))


def compile_encoder(declared: type, version: int) -> Encoder:
    return _EncoderSource(declared, version).compile()


class _EncoderSource:
    """Writes one encoder. Fixed-size values gather in a run that becomes one `struct` call."""

    def __init__(self, declared: type, version: int) -> None:
        self._declared = declared
        self._version = version
        self._flexible = layout(declared).flexible.covers(version)
        self._run: list[tuple[str, str]] = []
        self._write = "write"
        self._joins_early = False
        self.source = Source()
        self.source.use(FileSlice, gathered, uvarint, refuse_value, refuse_none, refuse_length)
        self.source.names |= {"BYTE": _BYTE, "ignore": ignore}

    def compile(self) -> Encoder:
        source = self.source
        label = f"{layout(self._declared).name} v{self._version}"
        of = layout(self._declared)
        chunked, nested = has_records(of), _has_nested_arrays(of, self._version)
        self._joins_early = nested and not chunked
        with source.block("def encode(message, note=ignore):"):
            source.line("parts = []; write = parts.append")
            if chunked:
                source.line("chunks = []")
            if self._joins_early:
                source.line("joined = []; known = {}")
            self._struct(self._declared, "message")
            self._flush()
            if chunked:
                source.line("if parts: chunks.append(b''.join(parts))")
            elif self._joins_early:
                source.line("if known: return gathered([*joined, b''.join(parts)])")
                source.line("if joined: parts = [*joined, b''.join(parts)]")
            source.line("return chunks" if chunked else "return [b''.join(parts)]")
        encoder: Encoder = source.function("encode", f"encode {label}")
        return encoder

    # Runs of fixed-size values

    def _fixed(self, format: str, expression: str = "") -> None:
        self._run.append((format, expression))

    def _flush(self) -> None:
        packing = self._packing()
        if packing:
            self.source.line(f"{self._write}({packing})")
            self._run.clear()

    def _packing(self, format: str = "", expression: str = "") -> str:
        """The expression that packs the open run, and one value more if one is given."""
        run = [*self._run, (format, expression)] if format else self._run
        formats = "".join(format for format, _ in run)
        if not formats:
            return ""
        if not formats.strip("x"):
            return repr(bytes(len(formats)))
        return self._packed(formats, [e for f, e in run if f != "x"])

    def _packed(self, formats: str, expressions: list[str]) -> str:
        return f"{self.source.packed('pack', formats)}({', '.join(expressions)})"

    def _uvarint(self, expression: str) -> None:
        """Write a length that is below 128 more often than not."""
        long = self._packing()
        short = self._packing("B", expression) if long else f"BYTE[{expression}]"
        self._run.clear()
        self.source.line(f"if {expression} < 128: {self._write}({short})")
        with self.source.block("else:"):
            if long:
                self.source.line(f"{self._write}({long})")
            self.source.line(f"{self._write}(uvarint({expression}))")

    # Structs and their tagged fields

    def _struct(self, declared: type, owner: str) -> None:
        tagged = []
        for field in layout(declared).fields:
            if not field.versions.covers(self._version):
                self._absent(field, owner)
            elif field.tag is None:
                self._value(field, f"{owner}.{field.name}")
            else:
                tagged.append(field)
        if self._flexible:
            self._tagged(sorted(tagged, key=lambda field: field.tag or 0), owner)

    def _absent(self, field: Field, owner: str) -> None:
        if not field.ignorable:
            label = f"{layout(self._declared).name} v{self._version}"
            self.source.line(
                f"if {self._differs(field, owner)}: refuse_value({label!r}, {field.name!r})"
            )

    def _differs(self, field: Field, owner: str) -> str:
        value, default = f"{owner}.{field.name}", self.source.constant(field.name, field.default)
        if field.default is None:
            return f"{value} is not None"
        if field.kind.struct is not None:
            return f"({value} is not {default} and {value} != {default})"
        return f"{value} != {default}"

    def _tagged(self, fields: list[Field], owner: str) -> None:
        source = self.source
        if not fields:
            self._fixed("x")
            return
        self._flush()
        given = [self._differs(field, owner) for field in fields]
        if len(fields) == 1:
            with source.block(f"if {given[0]}:"):
                source.line(f"{self._write}({uvarint(1)!r})")
                self._tagged_value(fields[0], owner)
            with source.block("else:"):
                source.line(f"{self._write}(b'\\0')")
            return
        with source.block(f"if {' or '.join(given)}:"):
            source.line(f"{self._write}(uvarint({' + '.join(f'({g})' for g in given)}))")
            for field, differs in zip(fields, given, strict=True):
                with source.block(f"if {differs}:"):
                    self._tagged_value(field, owner)
        with source.block("else:"):
            source.line(f"{self._write}(b'\\0')")

    def _tagged_value(self, field: Field, owner: str) -> None:
        source = self.source
        outer, parts = self._write, source.fresh("tagged")
        self._write = f"{parts}.append"
        source.line(f"{parts} = []")
        self._value(field, f"{owner}.{field.name}")
        self._flush()
        self._write = outer
        assert field.tag is not None
        source.line(f"{parts} = b''.join({parts})")
        source.line(f"{outer}({uvarint(field.tag)!r} + uvarint(len({parts})))")
        source.line(f"{outer}({parts})")

    # Values

    def _value(self, field: Field, expression: str) -> None:
        if field.kind.format:
            self._note_error(field, expression)
            self._fixed(field.kind.format, expression)
            return
        value = self.source.fresh(field.name)
        self.source.line(f"{value} = {expression}")
        nullable = field.nullable.covers(self._version)
        if field.nullable != NO_VERSIONS and not nullable:
            self.source.line(f"if {value} is None: refuse_none({field.name!r})")
        if nullable and field.kind.struct is not None:
            self._nullable_struct(field.kind.struct, value, field.tag is not None)
        elif field.often_same and self._joins_early:
            assert field.kind.element is not None
            assert not nullable
            self._often_same_array(field.kind.element, value)
        else:
            self._of(field.kind, value, nullable, self._flexible and field.compact)

    def _note_error(self, field: Field, expression: str) -> None:
        if is_error_code(field):
            self.source.line(f"if {expression}: note({expression})")

    def _of(self, kind: Kind, value: str, nullable: bool, compact: bool) -> None:
        if kind.format:
            self._fixed(kind.format, value)
        elif kind.struct is not None:
            self._struct(kind.struct, value)
        elif kind.element is not None:
            self._array(kind.element, value, nullable, compact)
        else:
            self._sized(kind, value, nullable, compact)

    def _nullable_struct(self, declared: type, value: str, tagged: bool) -> None:
        # What says null is a byte of -1, and in a tagged field, for no good reason, a varint of 0.
        self._flush()
        with self.source.block(f"if {value} is None:"):
            self.source.line(f"{self._write}({bytes([0 if tagged else 255])!r})")
        with self.source.block("else:"):
            self._fixed("b", "1")
            self._struct(declared, value)
            self._flush()

    def _length(self, format: str, size: str, compact: bool) -> None:
        if compact:
            self._uvarint(size)
        else:
            self._fixed(format, size)

    def _sized(self, kind: Kind, value: str, nullable: bool, compact: bool) -> None:
        source = self.source
        size, excess = source.fresh("size"), 1 if compact else 0
        encoded = ".encode()" if kind.name == "string" else ""
        measured = f"{size} = len({value})" + (" + 1" if compact else "")
        if nullable:
            with source.block(f"if {value} is None:"):
                source.line(f"{value} = b''; {size} = {excess - 1}")
            with source.block("else:"):
                source.line(f"{value} = {value}{encoded}; {measured}" if encoded else measured)
        else:
            source.line(f"{value} = {value}{encoded}; {measured}" if encoded else measured)
        if kind.name == "string":
            source.line(f"if {size} > {STRING_BYTES_MAX + excess}: refuse_length({size})")
        self._length("h" if kind.name == "string" else "i", size, compact)
        self._flush()
        if kind.name != "records":
            source.line(f"{self._write}({value})")
            return
        with source.block(f"if {size} > {COPIED_BYTES_MAX} or type({value}) is FileSlice:"):
            source.line(f"chunks.append(b''.join(parts)); parts.clear(); chunks.append({value})")
        with source.block("else:"):
            source.line(f"{self._write}({value})")

    def _array(self, element: Kind, value: str, nullable: bool, compact: bool) -> None:
        source = self.source
        size, excess = source.fresh("size"), 1 if compact else 0
        counted = f"len({value})" + (" + 1" if compact else "")
        if nullable:
            source.line(f"if {value} is None: {value} = (); {size} = {excess - 1}")
            source.line(f"else: {size} = {counted}")
        else:
            source.line(f"{size} = {counted}")
        self._length("i", size, compact)
        self._flush()
        item = source.fresh("item")
        shape = self._fixed_shape(element, item)
        if shape is not None:
            self._note_errors(element, item, value)
            source.line(f"{self._parts()} += [{shape} for {item} in {value}]")
            return
        with source.block(f"for {item} in {value}:"):
            self._of(element, item, False, self._flexible)
            self._flush()
            outer = self._write == "write" and _has_arrays(element, self._version)
            if outer and self._joins_early:
                with source.block(f"if len(parts) > {JOINED_EARLY_MIN}:"):
                    source.line("joined.append(b''.join(parts)); parts.clear()")

    def _often_same_array(self, element: Kind, value: str) -> None:
        """Elements that were encoded already are one chunk more, and no bytes."""
        source = self.source
        join = "joined.append(b''.join(parts)); parts.clear()"
        before, begin = source.fresh("before"), source.fresh("begin")
        self._flush()
        source.line(join)
        source.line(f"{before} = known.get(id({value})); {begin} = len(joined)")
        with source.block(f"if {before} is None:"):
            self._array(element, value, False, self._flexible)
            self._flush()
            source.line(join)
            source.line(f"{before} = known[id({value})] = b''.join(joined[{begin}:])")
            source.line(f"del joined[{begin}:]")
        source.line(f"joined.append({before})")

    def _note_errors(self, element: Kind, item: str, value: str) -> None:
        fields = layout(element.struct).fields if element.struct is not None else ()
        for field in fields:
            if is_error_code(field) and field.versions.covers(self._version):
                with self.source.block(f"for {item} in {value}:"):
                    self._note_error(field, f"{item}.{field.name}")

    def _parts(self) -> str:
        return "parts" if self._write == "write" else self._write.removesuffix(".append")

    def _fixed_shape(self, element: Kind, item: str) -> str | None:
        """The expression that packs an element with fixed-size fields only, and all of them."""
        if element.format:
            return self._packed(element.format, [item])
        if element.struct is None:
            return None
        fields = layout(element.struct).fields
        here = [f for f in fields if f.versions.covers(self._version)]
        plain = all(f.kind.format and f.tag is None for f in here)
        if not here or not plain or any(f not in here and not f.ignorable for f in fields):
            return None
        formats = "".join(f.kind.format for f in here) + ("x" if self._flexible else "")
        return self._packed(formats, [f"{item}.{f.name}" for f in here])


def _arrays(of: Layout, version: int) -> Iterator[Kind]:
    """The kinds of the elements of all arrays, those in structs too, but not those in arrays."""
    for field in of.fields:
        if field.versions.covers(version):
            if field.kind.element is not None:
                yield field.kind.element
            elif field.kind.struct is not None:
                yield from _arrays(layout(field.kind.struct), version)


def _has_arrays(element: Kind, version: int) -> bool:
    return element.struct is not None and any(_arrays(layout(element.struct), version))


def _has_nested_arrays(of: Layout, version: int) -> bool:
    return any(_has_arrays(element, version) for element in _arrays(of, version))
