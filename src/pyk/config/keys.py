"""How a key is declared: a field of a frozen class, with all that Kafka tells about it.

    segment_ms: int = int64(7 * DAY_MS, "The age at which ...", rule=at_least(1))

The field is Kafka's name with the dots as underscores. `keys_of` makes the table of a class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, field, replace
from enum import Enum
from typing import Final, TypedDict, TypeVar, Unpack, cast

from pyk.config.rules import Rule
from pyk.config.values import Value, ValueType, invalid, parse


class Update(Enum):
    """When a broker's key may change."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    """For all brokers at once, or for one of them."""


PER_BROKER: Final = Update.PER_BROKER
CLUSTER_WIDE: Final = Update.CLUSTER_WIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    name: str
    type: ValueType
    default: Value
    documentation: str
    rule: Rule | None = None
    update: Update = Update.READ_ONLY
    honoured: bool = True
    """False if pyk has no use for it: it is kept and described, and setting it deserves a word."""
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


class Options(TypedDict, total=False):
    rule: Rule
    update: Update
    honoured: bool
    broker: tuple[str, ...]


_KEY: Final = "key"
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
    key = Key(name="", type=value_type, default=default, documentation=documentation, **options)
    # What keeps a password out of DescribeConfigs should keep it out of log lines too.
    return field(default=default, metadata={_KEY: key}, repr=not key.is_sensitive)


def keys_of(declared: Iterable[Field[object]]) -> Mapping[str, Key]:
    """The table of a class's fields, by Kafka's names and in their order."""
    found = {f.name.replace("_", "."): f.metadata[_KEY] for f in declared}
    return {name: replace(key, name=name) for name, key in found.items()}
