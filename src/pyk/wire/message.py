"""Messages: plain typed classes that know how each of their versions looks on the wire.

A message is declared once, for all its versions:

    @message(api_key=12, versions="0-4", flexible="4+")
    class HeartbeatRequest:
        group_id: str = string()
        generation_id: int = int32()
        group_instance_id: str | None = string(versions="3+", nullable="3+", default=None)

Instances are frozen, compare by value and take keyword arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import msgspec

from pyk.types import NO_VERSIONS, Versions
from pyk.wire.fields import (
    Field,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    nested,
    records,
    string,
    uint16,
    uint32,
    uuid,
)

T = TypeVar("T")


class Layout:
    """What a declaration says, for those who compile, compare or print it."""

    __slots__ = (
        "annotations", "api_key", "fields", "flexible", "name", "record_type", "versions",
    )  # fmt: skip

    def __init__(
        self,
        body: type,
        versions: Versions,
        flexible: Versions,
        api_key: int | None = None,
        record_type: int | None = None,
    ) -> None:
        self.name = body.__name__
        self.fields = tuple(value for value in vars(body).values() if isinstance(value, Field))
        self.annotations: dict[str, Any] = body.__annotations__ if self.fields else {}
        self.versions = versions
        self.flexible = flexible
        self.api_key = api_key
        self.record_type = record_type


def layout(declared: type) -> Layout:
    found: Layout = declared.__layout__  # type: ignore[attr-defined]
    return found


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(
        boolean, int8, int16, uint16, int32, uint32, int64, float64, uuid,
        string, bytes_, records, array, nested,
    ),
)  # fmt: skip
def message(
    *,
    versions: str,
    flexible: str = "none",
    api_key: int | None = None,
    record_type: int | None = None,
) -> Callable[[type[T]], type[T]]:
    """Declare a message. Versions are those that can be read and written.

    `record_type` is the number before a record's key on an internal topic.
    """

    def declare(body: type[T]) -> type[T]:
        return _build(
            body,
            Layout(
                body,
                Versions.parse(versions),
                Versions.parse(flexible),
                api_key,
                record_type,
            ),
        )

    return declare


@dataclass_transform(
    kw_only_default=True,
    frozen_default=True,
    field_specifiers=(
        boolean, int8, int16, uint16, int32, uint32, int64, float64, uuid,
        string, bytes_, records, array, nested,
    ),
)  # fmt: skip
def struct(body: type[T]) -> type[T]:
    """Declare a part of a message. Its versions are those of the message that holds it."""
    return _build(body, Layout(body, Versions.parse("0+"), NO_VERSIONS))


def _build(body: type[T], layout: Layout) -> type[T]:
    built: Any = msgspec.defstruct(
        body.__name__,
        [(field.name, Any, field.default) for field in layout.fields],
        namespace={"__doc__": body.__doc__, "__layout__": layout},
        module=body.__module__,
        frozen=True,
        gc=False,
    )
    return built  # type: ignore[no-any-return]
