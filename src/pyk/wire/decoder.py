"""Decoders: from a message's declaration and a version to the function that reads it.

The rules that make hostile bytes harmless:

- Positions only grow and the end is checked once, after the last field: a slice past the end is
  short, and `struct` refuses to read there.
- Nothing is allocated from a length or a count: elements are made as their bytes are read, and the
  objects that all arrays become stay within the caller's budget.
- Tagged fields come in ascending order, at most TAGS_MAX to a struct; unknown ones are skipped.
- Whatever is wrong with the bytes is a ProtocolError.
"""

from __future__ import annotations

import struct
from functools import cache, partial
from typing import Any

from pyk.wire.fields import BYTES, RECORDS, STRING, Field, Kind
from pyk.wire.message import layout
from pyk.wire.primitives import (
    LENIENT_BYTES_MAX,
    OBJECTS_MAX,
    TAGS_MAX,
    ends_early,
    read_compact_string,
    read_string,
    read_uvarint,
    refuse_count,
    refuse_null,
    refuse_tags,
    skip_tags,
)
from pyk.wire.shapes import Decoder
from pyk.wire.source import COPIED_BYTES_MAX, Source, bytes_min, has_records, objects_min

UNROLLED_NESTING_MAX = 2
ONE_BY_ONE_MAX = 3
"""Up to here a loop is faster than unpacking all elements of an array at once."""


def compile_decoder(declared: type, version: int) -> Decoder:
    """A quick decoder, which leaves to a careful one what it is not made for.

    Quick is for bytes, not views, so few of them that they cannot become more objects than the
    budget allows, with strings that are UTF-8: for nearly every request there is.
    """
    return _DecoderSource(declared, version).compile()


def source_of(declared: type, version: int) -> str:
    """The code of a decoder, for those who want to look."""
    source = _DecoderSource(declared, version)
    source.compile()
    return source.source.text()


@cache
def _careful_decoder(declared: type, version: int) -> Decoder:
    return _DecoderSource(declared, version, careful=True).compile()


class _DecoderSource:
    """Writes one decoder. Methods named for a thing return an expression for its value."""

    def __init__(self, declared: type, version: int, *, careful: bool = False) -> None:
        self._declared = declared
        self._version = version
        self._flexible = layout(declared).flexible.covers(version)
        self._has_records = has_records(layout(declared))
        self._careful = careful
        self._nesting = 0
        self._run: list[tuple[str, str]] = []
        self.source = Source()
        self.source.use(
            read_uvarint, skip_tags, read_compact_string, read_string,
            ends_early, refuse_null, refuse_count, refuse_tags,
        )  # fmt: skip
        self.source.names["struct_error"] = struct.error

    def compile(self) -> Decoder:
        source = self.source
        label = f"{layout(self._declared).name} v{self._version}"
        with source.block(f"def decode(buffer, position=0, budget={OBJECTS_MAX}):"):
            self._settle_the_buffer()
            with source.block("try:"):
                message = self._struct(self._declared)
                self._flush()
                source.line(f"message = {message}")
            with source.block("except (struct_error, IndexError):"):
                source.line(f"ends_early({label!r})")
            if not self._careful:
                with source.block("except UnicodeDecodeError:"):
                    source.line("return careful(buffer, start, budget)")
            source.line(f"if position > end: ends_early({label!r})")
            source.line("return message, position")
        decoder: Decoder = source.function("decode", f"decode {label}")
        return decoder

    def _settle_the_buffer(self) -> None:
        line = self.source.line
        line("end = len(buffer)")
        if self._careful:
            line("if type(buffer) is not memoryview: buffer = memoryview(buffer)")
            return
        self.source.names["careful"] = partial(_decode_carefully, self._declared, self._version)
        # Each object takes a byte or more, and may hold another that does not.
        with self.source.block("if buffer.__class__ is not bytes or end > budget >> 1:"):
            line("return careful(buffer, position, budget)")
        line("start = position")

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

    def _uvarint(self, hint: str, *, long: bool = False) -> str:
        # One byte is by far the most frequent, and rides along with the fixed fields before it.
        name = self._fixed("B", hint)
        self._flush()
        if not long:
            self._rest_of_uvarint(name)
            return name
        with self.source.block(f"if {name} > 127:"):
            second = self.source.fresh(hint)
            self.source.line(f"{second} = buffer[position]")
            with self.source.block(f"if {second} < 128:"):
                self.source.line(f"{name} += ({second} << 7) - 128; position += 1")
            self.source.line(f"else: {name}, position = read_uvarint(buffer, position, {name})")
        return name

    def _rest_of_uvarint(self, name: str) -> None:
        self.source.line(
            f"if {name} > 127: {name}, position = read_uvarint(buffer, position, {name})"
        )

    # Structs and their tagged fields

    def _struct(self, declared: type) -> str:
        """Read all fields. The expression that builds the struct; a run may still be open."""
        fields = [f for f in layout(declared).fields if f.versions.covers(self._version)]
        body = [f for f in fields if f.tag is None]
        usual = self._usual_tail(body)
        head, tail = body[: len(body) - len(usual)], body[len(body) - len(usual) :]
        values = {f.name: self._value(f) for f in head}
        values |= self._tail(tail, [f for f in fields if f.tag is not None], usual)
        return self._built(declared, values)

    def _built(self, declared: type, values: dict[str, str]) -> str:
        """The expression that builds a struct of these values, and defaults for the others."""
        of = layout(declared)
        arguments = [
            values.get(f.name) or self.source.constant(f.name, f.default) for f in of.fields
        ]
        while arguments and of.fields[len(arguments) - 1].name not in values:
            arguments.pop()  # The constructor's own default is the same, and free.
        self.source.names[of.name] = declared
        return f"{of.name}({', '.join(arguments)})"

    def _usual_tail(self, body: list[Field]) -> bytes:
        """The last fields as they mostly are, empty, if they take one byte each then.

        That goes for what later versions have added; what was there from the start is not empty.
        """
        usual = b""
        first_version = layout(self._declared).versions.lowest
        for field in reversed(body):
            added = self._flexible and field.versions.lowest > first_version
            if not added or field.kind.format or field.kind.struct or field.default:
                break
            usual = (b"\0" if field.default is None else b"\1") + usual
        return usual

    def _tail(self, fields: list[Field], tagged: list[Field], usual: bytes) -> dict[str, str]:
        """The last fields, and the tagged ones. Empty ones are recognised by a single look."""
        if not self._flexible:
            return {f.name: self._value(f) for f in fields}
        if len(fields) < 2 or self._run:
            return {f.name: self._value(f) for f in fields} | self._tagged(tagged)
        source = self.source
        values = {f.name: source.fresh(f.name) for f in [*fields, *tagged]}
        size = len(usual) + 1
        with source.block(f"if buffer[position:position + {size}] == {usual + bytes(1)!r}:"):
            for field in [*fields, *tagged]:
                source.line(f"{values[field.name]} = {source.constant(field.name, field.default)}")
            source.line(f"position += {size}")
        with source.block("else:"):
            found = {f.name: self._value(f) for f in fields}
            found |= self._tagged(tagged)
            for name, value in found.items():
                source.line(f"{values[name]} = {value}")
        return values

    def _tagged(self, fields: list[Field]) -> dict[str, str]:
        source = self.source
        if not fields and not self._run:
            source.line("if not buffer[position]: position += 1")
            source.line("else: position = skip_tags(buffer, position + 1, end, buffer[position])")
            return {}
        count = self._fixed("B", "tags")
        self._flush()
        if not fields:
            source.line(f"if {count}: position = skip_tags(buffer, position, end, {count})")
            return {}
        values = {f.name: source.fresh(f.name) for f in fields}
        for field in fields:
            source.line(f"{values[field.name]} = {source.constant(field.name, field.default)}")
        with source.block(f"if {count}:"):
            self._rest_of_uvarint(count)
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
        if kind is STRING and compact:
            return self._compact_string(name, nullable)
        return self._sized(kind, name, nullable, compact)

    def _length(
        self, format: str, name: str, compact: bool, *, long: bool = False
    ) -> tuple[str, int]:
        """A length or count, and what must be taken from it: compact ones are one too large."""
        if compact:
            return self._uvarint(f"{name}_size", long=long), 1
        size = self._fixed(format, f"{name}_size")
        self._flush()
        return size, 0

    def _compact_string(self, name: str, nullable: bool) -> str:
        """A string whose length is one byte more often than not."""
        source = self.source
        value, taken = source.fresh(name), self._taken(STRING)
        if self._run:
            size, start = self._fixed("B", f"{name}_size"), "position"
            self._flush()
            step = f"{size} - 1"
        else:
            # Nothing to read it with: one step goes over both the length and the string.
            size, start = source.fresh(f"{name}_size"), "position + 1"
            source.line(f"{size} = buffer[position]")
            step = size
        short = f"0 < {size} < 128"
        if nullable:
            with source.block(f"if not {size}:"):
                source.line(f"{value} = None; position = {start}")
            short = f"{size} < 128"
        with source.block(f"{'elif' if nullable else 'if'} {short}:"):
            source.line(f"{value} = buffer[{start}:position + {step}]{taken}")
            source.line(f"position += {step}")
        if not nullable:
            source.line(f"elif not {size}: refuse_null({name!r})")
        with source.block("else:"):
            source.line(f"{value}, position = read_compact_string(buffer, {start}, {size})")
        return value

    def _sized(self, kind: Kind, name: str, nullable: bool, compact: bool) -> str:
        source = self.source
        is_string = kind is STRING
        size, excess = self._length("h" if is_string else "i", name, compact, long=not is_string)
        value, stop = source.fresh(name), source.fresh("stop")
        with source.block(f"if {size} < {excess}:"):
            source.line(f"{value} = None" if nullable else f"refuse_null({name!r})")
        if is_string:
            with source.block(f"elif {size} > {LENIENT_BYTES_MAX}:"):
                source.line(f"{value}, position = read_string(buffer, position, {size})")
        with source.block("else:"):
            source.line(f"{stop} = position + {size}" + (f" - {excess}" if excess else ""))
            taken = f"buffer[position:{stop}]{self._taken(kind)}"
            if kind is RECORDS:
                # A view of a few bytes takes more time and memory than the bytes do.
                small = f"bytes(buffer[position:{stop}])" if self._careful else taken
                view = "buffer" if self._careful else "memoryview(buffer)"
                taken = f"{small} if {size} <= {COPIED_BYTES_MAX} else {view}[position:{stop}]"
            source.line(f"{value} = {taken}")
            source.line(f"position = {stop}")
        return value

    def _taken(self, kind: Kind) -> str:
        """What makes a value of a slice of the buffer."""
        if kind is STRING:
            return ".tobytes().decode('utf-8', 'replace')" if self._careful else ".decode()"
        return ".tobytes()" if kind is BYTES and self._careful else ""

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
        value = self.source.fresh(name)
        if not self._is_worth_unrolling(element) or not compact:
            count, excess = self._length("i", f"{name}_array", compact)
            self._any_count(element, name, value, count, excess, nullable)
            return value
        count = self._fixed("B", f"{name}_array_size")
        self._flush()
        with self.source.block(f"if {count} == 2:"):
            self._nesting += 1
            built = self._of(element, name, False, self._flexible)
            self._flush()
            self._nesting -= 1
            self.source.line(f"{value} = [{built}]")
        with self.source.block("else:"):
            self._rest_of_uvarint(count)
            self._any_count(element, name, value, count, 1, nullable)
        return value

    def _any_count(
        self, element: Kind, name: str, value: str, count: str, excess: int, nullable: bool
    ) -> None:
        source = self.source
        with source.block(f"if {count} > {excess}:"):
            if excess:
                source.line(f"{count} -= 1")
            self._charge(element, name, count)
            self._elements(element, name, value, count)
        with source.block(f"elif {count} == {excess}:"):
            source.line(f"{value} = []")
        with source.block("else:"):
            source.line(f"{value} = None" if nullable else f"refuse_null({name!r})")

    def _is_worth_unrolling(self, element: Kind) -> bool:
        """Whether a single element is read without a loop: in the messages that carry records,
        which are most of a broker's traffic and mostly have one topic and one partition."""
        return (
            self._has_records
            and not self._careful
            and element.struct is not None
            and self._nesting < UNROLLED_NESTING_MAX
        )

    def _charge(self, element: Kind, name: str, count: str) -> None:
        """Take the objects that an array becomes from the budget."""
        if self._careful or bytes_min(element, self._version, self._flexible) == 0:
            each = objects_min(element, self._version)
            self.source.line(f"budget -= {count}" + (f" * {each}" if each > 1 else ""))
            self.source.line(f"if budget < 0: refuse_count({name!r})")

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
        untagged = " if not no_tags" if "no_tags" in names else ""
        source.line(f"{value} = ()")
        with source.block(f"if {count} > {ONE_BY_ONE_MAX}:"):
            source.line(f"{stop} = position + {count} * {size}")
            source.line(
                f"{value} = [{built} for {', '.join(names)}, in"
                f" {iterate}(buffer[position:{stop}]){untagged}]"
            )
            source.line(f"if len({value}) == {count}: position = {stop}")
        with source.block(f"if len({value}) != {count}:"):
            self._element_loop(element, name, value, count)

    def _element_loop(self, element: Kind, name: str, value: str, count: str) -> None:
        self.source.line(f"{value} = []")
        # Most arrays are short: counting down costs less than making a range.
        with self.source.block(f"while {count}:"):
            self.source.line(f"{count} -= 1")
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
        fields = layout(element.struct).fields
        present = [f for f in fields if f.versions.covers(self._version) and f.tag is None]
        if not present or not all(f.kind.format for f in present):
            return None
        names = {f.name: f"{f.name}_" for f in present}
        formats = "".join(f.kind.format for f in present) + ("B" if self._flexible else "")
        variables = [*names.values(), *(["no_tags"] if self._flexible else [])]
        return formats, variables, self._built(element.struct, names)


def _decode_carefully(
    declared: type, version: int, buffer: Any, position: int, budget: int
) -> tuple[Any, int]:
    return _careful_decoder(declared, version)(buffer, position, budget)
