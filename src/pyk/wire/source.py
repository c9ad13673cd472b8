"""Straight-line Python, written a line at a time: the paper on which codecs are compiled."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyk.wire.fields import RECORDS, Kind
from pyk.wire.message import Layout, layout

COPIED_BYTES_MAX = 4_096
"""Records up to this size are copied: a view or one more chunk costs more than moving them."""
REPEATED_BYTES_MAX = 64
"""The same of what is there several times: a chunk takes as much memory as that."""


class Source:
    """The lines of one function, the names it may use, and fresh names for its variables."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._fresh = 0

    def use(self, *functions: Callable[..., Any]) -> None:
        """Let the code call these by their names."""
        self.names.update({function.__name__: function for function in functions})

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, hint: str) -> str:
        self._fresh += 1
        return f"{hint}_{self._fresh}"

    def constant(self, hint: str, value: Any) -> str:
        """An expression for `value`: a literal where that is exact, else a name bound to it."""
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        if isinstance(value, list):
            assert not value
            return "[]"
        name = self.fresh(hint.upper())
        self.names[name] = value
        return name

    def packed(self, method: str, formats: str) -> str:
        """A name for this method of the big-endian struct of these formats."""
        name = f"{method}_{formats.replace('?', 'o')}"
        found = packed(formats)
        self.names[name] = getattr(found, method)
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def function(self, name: str, label: str) -> Any:
        namespace = dict(self.names)
        exec(compile(self.text(), f"<{label}>", "exec"), namespace)
        return namespace[name]


_STRUCTS: dict[str, struct.Struct] = {}


def packed(formats: str) -> struct.Struct:
    """The big-endian struct of these formats, one for all codecs."""
    found = _STRUCTS.get(formats)
    if found is None:
        found = _STRUCTS[formats] = struct.Struct(">" + formats)
    return found


def gathered(pieces: list[Any]) -> list[Any]:
    """The same bytes in fewer chunks: small ones are joined. Large ones are not copied, and none
    that is there again and again."""
    chunks: list[bytes] = []
    small: list[bytes] = []
    times = Counter(map(id, pieces))
    for piece in pieces:
        size_max = COPIED_BYTES_MAX if times[id(piece)] == 1 else REPEATED_BYTES_MAX
        if len(piece) <= size_max:
            small.append(piece)
            continue
        chunks += [b"".join(small), piece]
        small.clear()
    chunks.append(b"".join(small))
    return [chunk for chunk in chunks if chunk]


def has_records(of: Layout) -> bool:
    return any(_kind_has_records(field.kind) for field in of.fields)


def _kind_has_records(kind: Kind) -> bool:
    kind = kind.element or kind
    return kind is RECORDS or (kind.struct is not None and has_records(layout(kind.struct)))


def objects_min(kind: Kind, version: int) -> int:
    """The fewest objects that a value becomes which cost memory: structs, arrays and elements."""
    if kind.struct is None:
        return 1
    return 1 + sum(
        objects_min(field.kind, version)
        for field in layout(kind.struct).fields
        if field.versions.covers(version)
        and (field.kind.element is not None or field.kind.struct is not None)
        and field.tag is None
    )


def bytes_min(kind: Kind, version: int, flexible: bool) -> int:
    """The fewest bytes that a value takes on the wire."""
    if kind.format:
        return kind.size
    if kind.struct is None:
        return 1
    return flexible + sum(
        bytes_min(field.kind, version, flexible)
        for field in layout(kind.struct).fields
        if field.versions.covers(version) and field.tag is None
    )
