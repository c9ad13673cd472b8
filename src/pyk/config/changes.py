"""Changes of configuration at run time, decided and not carried out: old texts in, new texts out.

What comes out is the whole new layer of a resource, whose values `checks` judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from pyk.config.keys import Key
from pyk.config.values import ValueType, format_value
from pyk.errors import ErrorCode, KafkaError

KeyOf: TypeAlias = Callable[[str], Key | None]
"""A resource's key of a name, if it has one."""


class Operation(IntEnum):
    """As IncrementalAlterConfigs numbers them."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    name: str
    operation: int
    """As it came: what is no `Operation` is refused."""
    value: str | None


def altered(layer: Mapping[str, str], changes: Sequence[Change], key_of: KeyOf) -> dict[str, str]:
    """The layer after IncrementalAlterConfigs. Raises `KafkaError`."""
    replaced([(change.name, _needed(change)) for change in changes])
    after = dict(layer)
    for change in changes:
        value = change.value or ""
        match change.operation:
            case Operation.SET:
                after[change.name] = value
            case Operation.DELETE:
                after.pop(change.name, None)
            case Operation.APPEND | Operation.SUBTRACT:
                items = _items(change, layer, key_of(change.name))
                after[change.name] = ",".join(_edited(items, change.operation, value.split(",")))
            case unknown:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"There is no operation {unknown}.")
    return after


def replaced(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The layer after AlterConfigs, which forgets what it does not name. Each key must be there
    once, and with a value. Raises `KafkaError`."""
    found: dict[str, str] = {}
    for name, value in configs:
        if name in found:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is there twice.")
        if value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} has no value.")
        found[name] = value
    return found


def created(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """The layer of a new topic, of which the last value of a key counts. Raises `KafkaError`."""
    overrides = {}
    for name, value in configs:
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} has no value.")
        overrides[name] = value
    return overrides


def _needed(change: Change) -> str | None:
    return "" if change.operation == Operation.DELETE else change.value


def _items(change: Change, layer: Mapping[str, str], key: Key | None) -> list[str]:
    if key is None or key.type is not ValueType.LIST:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{change.name} is not a list, which alone can be appended to or subtracted from.",
        )
    # Kafka starts from the key's own default here, even where a broker's setting is in force.
    text = layer.get(change.name, format_value(key.default) or "")
    return [item for item in text.split(",") if item]


def _edited(items: list[str], operation: int, named: list[str]) -> list[str]:
    after = list(items)
    for item in named:
        if operation == Operation.SUBTRACT and item in after:
            after.remove(item)
        if operation == Operation.APPEND and item not in after:
            after.append(item)
    return after
