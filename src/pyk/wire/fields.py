"""The vocabulary of message declarations: one function per wire type, each describing a field.

    group_instance_id: str | None = string(versions="3+", nullable="5+", default=None)

says that the field is on the wire since version 3 and may be null since version 5. A version that
lacks a field decodes it to its default: Kafka's implicit one (0, "", empty) unless `default` says
otherwise. `tag` makes it a tagged field. Encoding a value other than the default at a version that
lacks the field is an error, unless the field is `ignorable`. An array that is `often_same` may be
there many times in one message, the same list each time: it is encoded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from pyk.types import ZERO_UUID, Records, Uuid, Versions

T = TypeVar("T")


class Kind:
    """A wire type. Fixed-size ones have a `struct` format, arrays an element, structs a class."""

    __slots__ = ("element", "empty", "format", "name", "size", "struct")

    def __init__(
        self,
        name: str,
        empty: Any,
        format: str = "",
        size: int = 0,
        element: Kind | None = None,
        struct: type | None = None,
    ) -> None:
        self.name = name
        self.empty = empty
        self.format = format
        self.size = size
        self.element = element
        self.struct = struct

    def __repr__(self) -> str:
        return self.name


BOOLEAN = Kind("bool", False, "?", 1)
INT8 = Kind("int8", 0, "b", 1)
INT16 = Kind("int16", 0, "h", 2)
UINT16 = Kind("uint16", 0, "H", 2)
INT32 = Kind("int32", 0, "i", 4)
UINT32 = Kind("uint32", 0, "I", 4)
INT64 = Kind("int64", 0, "q", 8)
FLOAT64 = Kind("float64", 0.0, "d", 8)
UUID = Kind("uuid", ZERO_UUID, "16s", 16)
STRING = Kind("string", "")
BYTES = Kind("bytes", b"")
RECORDS = Kind("records", None)


class Field:
    """One field of a message: what `string(...)` and its siblings leave in a class body."""

    __slots__ = (
        "compact", "default", "ignorable", "kind", "name", "nullable", "often_same", "tag",
        "versions",
    )  # fmt: skip

    def __init__(
        self,
        kind: Kind,
        *,
        versions: str = "0+",
        nullable: str = "none",
        default: Any = ...,
        tag: int | None = None,
        ignorable: bool = False,
        compact: bool = True,
        often_same: bool = False,
    ) -> None:
        self.name = ""
        self.kind = kind
        self.versions = Versions.parse(versions)
        self.nullable = Versions.parse(nullable)
        self.default = kind.empty if default is ... else default
        self.tag = tag
        self.ignorable = ignorable
        self.compact = compact
        self.often_same = often_same

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} v{self.versions}>"


class FixedSize(Generic[T]):
    """The specifier of a type whose values all take the same number of bytes, never null."""

    __slots__ = ("kind",)

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def __call__(
        self,
        *,
        versions: str = "0+",
        default: T = ...,  # type: ignore[assignment]
        tag: int | None = None,
        ignorable: bool = False,
    ) -> T:
        found: T = _field(
            self.kind, versions=versions, default=default, tag=tag, ignorable=ignorable
        )
        return found


boolean: FixedSize[bool] = FixedSize(BOOLEAN)
int8: FixedSize[int] = FixedSize(INT8)
int16: FixedSize[int] = FixedSize(INT16)
uint16: FixedSize[int] = FixedSize(UINT16)
int32: FixedSize[int] = FixedSize(INT32)
uint32: FixedSize[int] = FixedSize(UINT32)
int64: FixedSize[int] = FixedSize(INT64)
float64: FixedSize[float] = FixedSize(FLOAT64)
uuid: FixedSize[Uuid] = FixedSize(UUID)


class VariableSize(Generic[T]):
    """The specifier of a type with a length before its bytes, which may be null."""

    __slots__ = ("kind",)

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    @overload
    def __call__(
        self,
        *,
        versions: str = "0+",
        default: T = ...,
        tag: int | None = None,
        ignorable: bool = False,
        compact: bool = True,
    ) -> T: ...
    @overload
    def __call__(
        self,
        *,
        nullable: str,
        versions: str = "0+",
        default: T | None = ...,
        tag: int | None = None,
        ignorable: bool = False,
        compact: bool = True,
    ) -> T | None: ...
    def __call__(self, **options: Any) -> Any:
        return _field(self.kind, **options)


string: VariableSize[str] = VariableSize(STRING)
bytes_: VariableSize[bytes] = VariableSize(BYTES)
records: VariableSize[Records] = VariableSize(RECORDS)


@overload
def array(
    of: Callable[..., T],
    *,
    versions: str = "0+",
    default: list[T] = ...,
    tag: int | None = None,
    ignorable: bool = False,
    often_same: bool = False,
) -> list[T]: ...
@overload
def array(
    of: Callable[..., T],
    *,
    nullable: str,
    versions: str = "0+",
    default: list[T] | None = ...,
    tag: int | None = None,
    ignorable: bool = False,
) -> list[T] | None: ...
def array(of: Any, **options: Any) -> Any:
    """A list: `array(int32)`, `array(string)`, `array(SomeStruct)`."""
    element = Kind(of.__name__, None, struct=of) if isinstance(of, type) else of.kind
    return _field(Kind(f"[]{element}", [], element=element), **options)


@overload
def nested(
    of: type[T],
    *,
    versions: str = "0+",
    factory: type[T] = ...,
    tag: int | None = None,
    ignorable: bool = False,
) -> T: ...
@overload
def nested(
    of: type[T],
    *,
    nullable: str,
    versions: str = "0+",
    default: None = ...,
    factory: type[T] = ...,
    tag: int | None = None,
    ignorable: bool = False,
) -> T | None: ...
def nested(of: Any, *, factory: Any = None, **options: Any) -> Any:
    """A struct in its place. `factory` names the struct again where its own defaults will do."""
    return _field(Kind(of.__name__, of(), struct=of), **options)


def _field(kind: Kind, **options: Any) -> Any:
    return Field(kind, **options)
