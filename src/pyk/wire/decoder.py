"""Decoders: from a message's declaration and a version to the function that reads it.

The rules that make hostile bytes harmless:

- Positions only grow and the end is checked once, after the last field: a slice past the end is
  short, and `struct` refuses to read there.
- An array's count times its smallest element fits into the bytes left, and the objects that all
  arrays become stay within the caller's budget. Nothing is allocated from a length alone.
- Tagged fields come in ascending order, at most TAGS_MAX to a struct; unknown ones are skipped.
- Whatever is wrong with the bytes is a ProtocolError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NoReturn, TypeAlias

from pyk.errors import ProtocolError
from pyk.wire.fields import Field, Kind
from pyk.wire.message import layout
from pyk.wire.source import Source, bytes_min, has_records, objects_min

Decoder: TypeAlias = Callable[[Any, int, int, int], tuple[Any, int]]
"""(buffer, position, end, objects_max) to the message and the position after it."""

TAGS_MAX = 32
STRING_BYTES_MAX = 32_767
LENIENT_BYTES_MAX = STRING_BYTES_MAX // 3
"""Up to here bytes that are not UTF-8 are replaced, as Java does. The replacement takes three
bytes: a longer string could then not be written back."""


def compile_decoder(declared: type, version: int) -> Decoder:
    return _DecoderSource(declared, version).compile()


class _DecoderSource:
    """Writes one decoder. Methods named for a thing return an expression for its value."""

    def __init__(self, declared: type, version: int) -> None:
        self._declared = declared
        self._version = version
        self._flexible = layout(declared).flexible.covers(version)
        self._views = has_records(layout(declared))
        self._run: list[tuple[str, str]] = []
        self.source = Source()
        self.source.names.update(
            ProtocolError=ProtocolError,
            struct_error=struct.error,
            uvarint=_uvarint,
            skip_tags=_skip_tags,
            ends_early=_ends_early,
            refuse_null=_refuse_null,
            long_string=_long_string,
            refuse_count=_refuse_count,
            refuse_tags=_refuse_tags,
        )

    def compile(self) -> Decoder:
        source = self.source
        label = f"{layout(self._declared).name} v{self._version}"
        with source.block("def decode(buffer, position, end, budget):"):
            # Strings are read faster from bytes; records are handed out as views, never copied.
            wanted = "memoryview" if self._views else "bytes"
            source.line(f"if type(buffer) is not {wanted}: buffer = {wanted}(buffer)")
            with source.block("try:"):
                message = self._struct(self._declared)
                self._flush()
                source.line(f"message = {message}")
            with source.block("except (struct_error, IndexError):"):
                source.line(f"ends_early({label!r})")
            source.line(f"if position > end: ends_early({label!r})")
            source.line("return message, position")
        decoder: Decoder = source.function("decode", f"decode {label}")
        return decoder

    # Runs of fixed-size values

    def _fixed(self, format: str, hint: str) -> str:
        name = self.source.fresh(hint)
        self._run.append((format, name))
        return name

    def _flush(self) -> None:
        if not self._run:
            return
        formats = "".join(format for format, _ in self._run)
        names = ", ".join(name for _, name in self._run)
        self._run.clear()
        if formats == "B":
            self.source.line(f"{names} = buffer[position]; position += 1")
            return
        unpack = self.source.packed("unpack_from", formats)
        self.source.line(f"{names}, = {unpack}(buffer, position)")
        self.source.line(f"position += {struct.calcsize('>' + formats)}")

    def _uvarint(self, hint: str) -> str:
        # One byte is by far the most frequent, and rides along with the fixed fields before it.
        name = self._fixed("B", hint)
        self._flush()
        self.source.line(f"if {name} > 127: {name}, position = uvarint(buffer, position, {name})")
        return name

    # Structs and their tagged fields

    def _struct(self, declared: type) -> str:
        """Read all fields. The expression that builds the struct; a run may still be open."""
        of = layout(declared)
        fields = [f for f in of.fields if f.versions.covers(self._version)]
        values = {f.name: self._value(f) for f in fields if f.tag is None}
        if self._flexible:
            values |= self._tagged([f for f in fields if f.tag is not None])
        arguments = [
            values.get(f.name) or self.source.constant(f.name, f.default) for f in of.fields
        ]
        while arguments and of.fields[len(arguments) - 1].name not in values:
            arguments.pop()  # The constructor's own default is the same, and free.
        self.source.names[of.name] = declared
        return f"{of.name}({', '.join(arguments)})"

    def _tagged(self, fields: list[Field]) -> dict[str, str]:
        source = self.source
        count = self._uvarint("tags")
        if not fields:
            source.line(f"if {count}: position = skip_tags(buffer, position, end, {count})")
            return {}
        values = {f.name: source.fresh(f.name) for f in fields}
        for field in fields:
            source.line(f"{values[field.name]} = {source.constant(field.name, field.default)}")
        with source.block(f"if {count}:"):
            source.line(f"if {count} > {TAGS_MAX}: refuse_tags()")
            last, stop = source.fresh("last_tag"), source.fresh("stop")
            source.line(f"{last} = -1")
            with source.block(f"for _ in range({count}):"):
                tag, size = self._uvarint("tag"), self._uvarint("size")
                source.line(f"{stop} = position + {size}")
                source.line(f"if {tag} <= {last} or {stop} > end: refuse_tags()")
                source.line(f"{last} = {tag}")
                for branch, field in zip(["if"] + ["elif"] * len(fields), fields, strict=False):
                    with source.block(f"{branch} {tag} == {field.tag}:"):
                        value = self._value(field)
                        self._flush()
                        source.line(f"{values[field.name]} = {value}")
                        source.line(f"if position != {stop}: refuse_tags()")
                with source.block("else:"):
                    source.line(f"position = {stop}")
        return values

    # Values

    def _value(self, field: Field) -> str:
        nullable = field.nullable.covers(self._version)
        if nullable and field.kind.struct is not None:
            return self._nullable_struct(field.kind.struct, field.name, field.tag is not None)
        return self._of(field.kind, field.name, nullable, self._flexible and field.compact)

    def _of(self, kind: Kind, name: str, nullable: bool, compact: bool) -> str:
        if kind.format:
            return self._fixed(kind.format, name)
        if kind.struct is not None:
            return self._struct(kind.struct)
        if kind.element is not None:
            return self._array(kind.element, name, nullable, compact)
        return self._sized(kind, name, nullable, compact)

    def _length(self, format: str, name: str, compact: bool) -> tuple[str, int]:
        """A length or count, and what must be taken from it: compact ones are one too large."""
        if compact:
            return self._uvarint(f"{name}_size"), 1
        size = self._fixed(format, f"{name}_size")
        self._flush()
        return size, 0

    def _sized(self, kind: Kind, name: str, nullable: bool, compact: bool) -> str:
        source = self.source
        size, excess = self._length("h" if kind.name == "string" else "i", name, compact)
        value, stop = source.fresh(name), source.fresh("stop")
        taken = {
            ("string", False): ".decode('utf-8', 'replace')",
            ("string", True): ".tobytes().decode('utf-8', 'replace')",
            ("bytes", True): ".tobytes()",
        }.get((kind.name, self._views), "")
        limit = LENIENT_BYTES_MAX if kind.name == "string" else 2**31 - 1
        with source.block(f"if {excess} <= {size} <= {limit + excess}:"):
            source.line(f"{stop} = position + {size}" + (f" - {excess}" if excess else ""))
            source.line(f"{value} = buffer[position:{stop}]{taken}")
            source.line(f"position = {stop}")
        with source.block(f"elif {size} < {excess}:"):
            source.line(f"{value} = None" if nullable else f"refuse_null({name!r})")
        with source.block("else:"):
            source.line(f"{value}, position = long_string(buffer, position, {size} - {excess})")
        return value

    def _nullable_struct(self, declared: type, name: str, tagged: bool) -> str:
        # What says null is a byte of -1, and in a tagged field, for no good reason, a varint of 0.
        present = self._uvarint(name) if tagged else self._fixed("b", name)
        self._flush()
        value = self.source.fresh(name)
        with self.source.block(f"if {present} < {int(tagged)}:"):
            self.source.line(f"{value} = None")
        with self.source.block("else:"):
            built = self._struct(declared)
            self._flush()
            self.source.line(f"{value} = {built}")
        return value

    def _array(self, element: Kind, name: str, nullable: bool, compact: bool) -> str:
        source = self.source
        count, excess = self._length("i", f"{name}_array", compact)
        value = source.fresh(name)
        smallest = bytes_min(element, self._version, self._flexible)
        with source.block(f"if {count} > {excess}:"):
            if excess:
                source.line(f"{count} -= 1")
            each = objects_min(element, self._version)
            source.line(f"budget -= {count}" + (f" * {each}" if each > 1 else ""))
            source.line(
                f"if {count} * {smallest} > end - position or budget < 0:"
                f" refuse_count({name!r}, {count}, {count} * {smallest} <= end - position)"
            )
            self._elements(element, name, value, count)
        with source.block(f"elif {count} == {excess}:"):
            source.line(f"{value} = []")
        with source.block("else:"):
            source.line(f"{value} = None" if nullable else f"refuse_null({name!r})")
        return value

    def _elements(self, element: Kind, name: str, value: str, count: str) -> None:
        """Fill `value` with `count` elements: all at once where their bytes have a fixed shape."""
        source = self.source
        fixed = self._fixed_shape(element)
        if fixed is None:
            self._element_loop(element, name, value, count)
            return
        formats, names, built = fixed
        size = struct.calcsize(">" + formats)
        stop = source.fresh("stop")
        iterate = source.packed("iter_unpack", formats)
        source.line(f"{stop} = position + {count} * {size}")
        untagged = " if not no_tags" if "no_tags" in names else ""
        source.line(
            f"{value} = [{built} for {', '.join(names)}, in"
            f" {iterate}(buffer[position:{stop}]){untagged}]"
        )
        if not untagged:
            source.line(f"position = {stop}")
            return
        with source.block(f"if len({value}) == {count}:"):
            source.line(f"position = {stop}")
        with source.block("else:"):
            self._element_loop(element, name, value, count)

    def _element_loop(self, element: Kind, name: str, value: str, count: str) -> None:
        self.source.line(f"{value} = []")
        with self.source.block(f"for _ in range({count}):"):
            built = self._of(element, name, False, self._flexible)
            self._flush()
            self.source.line(f"{value}.append({built})")

    def _fixed_shape(self, element: Kind) -> tuple[str, list[str], str] | None:
        """Formats, variables and expression of an element that has no variable-size part.

        The count of tagged fields is a part of the shape: it fits where that is zero, as ever.
        """
        if element.format:
            return element.format, ["element"], "element"
        if element.struct is None:
            return None
        of = layout(element.struct)
        present = [f for f in of.fields if f.versions.covers(self._version) and f.tag is None]
        if not present or not all(f.kind.format for f in present):
            return None
        names = {f.name: f"{f.name}_" for f in present}
        arguments = [
            names.get(f.name) or self.source.constant(f.name, f.default) for f in of.fields
        ]
        while of.fields[len(arguments) - 1].name not in names:
            arguments.pop()
        self.source.names[of.name] = element.struct
        formats = "".join(f.kind.format for f in present) + ("B" if self._flexible else "")
        variables = [*names.values(), *(["no_tags"] if self._flexible else [])]
        return formats, variables, f"{of.name}({', '.join(arguments)})"


def _uvarint(buffer: Any, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte said that there is more."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            if value > 0x7FFF_FFFF:
                break
            return value, position
    raise ProtocolError("a varint is larger than 31 bits")


def _skip_tags(buffer: Any, position: int, end: int, count: int) -> int:
    if count > TAGS_MAX:
        _refuse_tags()
    last = -1
    for _ in range(count):
        tag, position = buffer[position], position + 1
        if tag > 127:
            tag, position = _uvarint(buffer, position, tag)
        size, position = buffer[position], position + 1
        if size > 127:
            size, position = _uvarint(buffer, position, size)
        position += size
        if tag <= last or position > end:
            _refuse_tags()
        last = tag
    return position


def _ends_early(message: str) -> NoReturn:
    raise ProtocolError(f"{message} ends before it should") from None


def _refuse_null(name: str) -> NoReturn:
    raise ProtocolError(f"{name} is null, which this version does not allow")


def _long_string(buffer: Any, position: int, size: int) -> tuple[str, int]:
    """A string beyond LENIENT_BYTES_MAX. A length that bytes cannot have ends up here too."""
    if size > STRING_BYTES_MAX:
        raise ProtocolError(f"a string claims {size} bytes; {STRING_BYTES_MAX} are allowed")
    try:
        return bytes(buffer[position : position + size]).decode(), position + size
    except UnicodeDecodeError:
        raise ProtocolError(f"a string of {size} bytes is not UTF-8") from None


def _refuse_count(name: str, count: int, fits: bool) -> NoReturn:
    if fits:
        raise ProtocolError(f"{name} and the arrays before it are too many")
    raise ProtocolError(f"{name} claims {count} elements, more than the bytes that follow")


def _refuse_tags() -> NoReturn:
    raise ProtocolError("tagged fields are too many, out of order or longer than the message")
