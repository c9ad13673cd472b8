"""Which errors a response tells, wherever in it they are.

For each version of a response a function is compiled that looks only where there can be one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from pyk.wire.fields import INT16
from pyk.wire.message import layout

ERROR_CODE = "error_code"
"""How the names of fields end that are one."""


class _Place(NamedTuple):
    """Where error codes are: in each element of arrays within arrays."""

    arrays: tuple[str, ...]
    field: str


@cache
def errors_of(response: type, version: int) -> Callable[[Any], tuple[int, ...]]:
    """A function that gives the error codes of such a response which are not 0."""
    lines = ["def find(response):", "    found = ()"]
    for arrays, field in _places(response, version):
        depth, value = 1, "response"
        for number, array in enumerate(arrays):
            lines.append(f"{'    ' * depth}for part_{number} in {value}.{array} or ():")
            depth, value = depth + 1, f"part_{number}"
        lines.append(f"{'    ' * depth}if {value}.{field}:")
        lines.append(f"{'    ' * depth}    found += ({value}.{field},)")
    lines.append("    return found")
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    found: Callable[[Any], tuple[int, ...]] = names["find"]
    return found


def _places(of: type, version: int, arrays: tuple[str, ...] = ()) -> Iterator[_Place]:
    for field in layout(of).fields:
        if not field.versions.covers(version):
            continue
        if field.name.endswith(ERROR_CODE) and field.kind is INT16:
            yield _Place(arrays, field.name)
        elif field.kind.element is not None and field.kind.element.struct is not None:
            yield from _places(field.kind.element.struct, version, (*arrays, field.name))
