"""How a key is declared: a field of a `Config`, with all that Kafka tells about it.

    class TopicConfig(Config):
        segment_ms: int = int64(7 * DAY_MS, "The age at which ...", rule=at_least(1))

The field is Kafka's name with the dots as underscores.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from pyk.config.rules import Rule
from pyk.config.values import Value, ValueType, invalid, parse

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    class Options(TypedDict, total=False):
        """What a key may have beside a default and its documentation, as in `Key`."""

        rule: Rule
        update: Update
        honoured: bool
        is_internal: bool
        broker: tuple[str, ...]


class Update(Enum):
    """When a broker's key may change."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    """For all brokers at once, or for one of them."""


PER_BROKER: Final = Update.PER_BROKER
CLUSTER_WIDE: Final = Update.CLUSTER_WIDE


class Key(Struct, frozen=True, kw_only=True):
    name: str
    type: ValueType
    default: Value
    documentation: str
    rule: Rule | None = None
    update: Update = Update.READ_ONLY
    honoured: bool = True
    """False if pyk has no use for it: it is kept and described, and setting it deserves a word."""
    is_internal: bool = False
    """Whether it can be set, and nobody is told of it."""
    broker: tuple[str, ...] = ()
    """For a topic's or a group's key, the broker's keys that give its default, the first that is
    set winning."""

    @property
    def is_sensitive(self) -> bool:
        return self.type is ValueType.PASSWORD

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    def parse(self, text: str) -> Value:
        """Raises `KafkaError`, naming the key and the text."""
        value = parse(self.name, self.type, text)
        if self.rule is not None and (reason := self.rule(value)):
            raise invalid(self.name, text, reason)
        return value


_Int = TypeVar("_Int", int, None)
_Str = TypeVar("_Str", str, None)
_Names = TypeVar("_Names", tuple[str, ...], None)


def boolean(default: bool, documentation: str, **options: Unpack[Options]) -> bool:
    return cast("bool", _declared(ValueType.BOOLEAN, default, documentation, options))


def int16(default: int, documentation: str, **options: Unpack[Options]) -> int:
    return cast("int", _declared(ValueType.SHORT, default, documentation, options))


def int32(default: _Int, documentation: str, **options: Unpack[Options]) -> _Int:
    return cast("_Int", _declared(ValueType.INT, default, documentation, options))


def int64(default: _Int, documentation: str, **options: Unpack[Options]) -> _Int:
    return cast("_Int", _declared(ValueType.LONG, default, documentation, options))


def float64(default: float, documentation: str, **options: Unpack[Options]) -> float:
    return cast("float", _declared(ValueType.DOUBLE, default, documentation, options))


def string(default: _Str, documentation: str, **options: Unpack[Options]) -> _Str:
    return cast("_Str", _declared(ValueType.STRING, default, documentation, options))


def names(default: _Names, documentation: str, **options: Unpack[Options]) -> _Names:
    return cast("_Names", _declared(ValueType.LIST, default, documentation, options))


def class_name(default: _Str, documentation: str, **options: Unpack[Options]) -> _Str:
    return cast("_Str", _declared(ValueType.CLASS, default, documentation, options))


def password(default: _Str, documentation: str, **options: Unpack[Options]) -> _Str:
    return cast("_Str", _declared(ValueType.PASSWORD, default, documentation, options))


def _declared(
    value_type: ValueType, default: Value, documentation: str, options: Options
) -> object:
    return Key(name="", type=value_type, default=default, documentation=documentation, **options)


class Config:
    """A value for each key that the class declares, its default unless another is given.

    As a frozen dataclass is, and not one: compiling the methods of those took a tenth of the time
    that a broker takes to start.
    """

    KEYS: ClassVar[Mapping[str, Key]] = {}
    """By Kafka's names. What is inherited comes first, beginning with the last of the bases."""

    def __init_subclass__(cls) -> None:
        keys: dict[str, Key] = {}
        for base in reversed(cls.__bases__):
            if issubclass(base, Config):
                keys.update(base.KEYS)
        for attribute, declared in vars(cls).items():
            if isinstance(declared, Key):
                name = attribute.replace("_", ".")
                keys[name] = replace(declared, name=name)
        cls.KEYS = keys

    def __init__(self, **values: Value) -> None:
        found = {key.attribute: key.default for key in self.KEYS.values()}
        assert values.keys() <= found.keys(), values.keys() - found.keys()
        vars(self).update(found | values)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name} cannot be changed")
