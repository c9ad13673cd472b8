"""Changes of configuration at run time, decided and not carried out: old texts in, new texts out.

Every function answers the whole new layer of its resource, or raises the `KafkaError` that the
client must hear, with Kafka's code. One bad key refuses all of a resource's changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

from pyk.config.broker import BROKER_KEYS, RATE_KEYS, broker_key
from pyk.config.keys import Key, Update
from pyk.config.others import OTHER_NAMES, OTHER_PREFIXES
from pyk.config.security import ONLY_BY_LISTENER
from pyk.config.settings import BrokerSettings
from pyk.config.topic import TOPIC_KEYS
from pyk.config.values import ValueType, format_value
from pyk.errors import ErrorCode, KafkaError


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


def create_topic(
    configs: Iterable[tuple[str, str | None]], settings: BrokerSettings
) -> dict[str, str]:
    """The configuration that a new topic is to have."""
    overrides = {}
    for name, value in configs:
        if value is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} has no value.")
        overrides[name] = value
    return _checked_topic(overrides, settings)


def alter_topic(
    overrides: Mapping[str, str], changes: Sequence[Change], settings: BrokerSettings
) -> dict[str, str]:
    """A topic's own configuration after IncrementalAlterConfigs."""
    _check_request((change.name, _needed(change)) for change in changes)
    return _checked_topic(_applied(overrides, changes, TOPIC_KEYS.get), settings)


def replace_topic(
    configs: Sequence[tuple[str, str | None]], settings: BrokerSettings
) -> dict[str, str]:
    """A topic's own configuration after AlterConfigs, which forgets what it does not name."""
    return _checked_topic(_check_request(configs), settings)


def alter_broker(changes: Sequence[Change], settings: BrokerSettings) -> dict[str, str]:
    """The layer of one broker after IncrementalAlterConfigs."""
    _check_request((change.name, _needed(change)) for change in changes)
    layer = _applied(settings.per_broker, changes, broker_key)
    return _checked_broker(layer, settings)


def replace_broker(
    configs: Sequence[tuple[str, str | None]], settings: BrokerSettings
) -> dict[str, str]:
    """The layer of one broker after AlterConfigs."""
    return _checked_broker(_check_request(configs), settings)


def alter_cluster_defaults(changes: Sequence[Change], settings: BrokerSettings) -> dict[str, str]:
    """The layer of all brokers after IncrementalAlterConfigs."""
    _check_request((change.name, _needed(change)) for change in changes)
    layer = _applied(settings.cluster_wide, changes, broker_key)
    return _checked_cluster_defaults(layer, settings)


def replace_cluster_defaults(
    configs: Sequence[tuple[str, str | None]], settings: BrokerSettings
) -> dict[str, str]:
    """The layer of all brokers after AlterConfigs."""
    return _checked_cluster_defaults(_check_request(configs), settings)


def _needed(change: Change) -> str | None:
    return "" if change.operation == Operation.DELETE else change.value


def _check_request(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in configs:
        if name in found:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} is there twice.")
        if value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} has no value.")
        found[name] = value
    return found


def _applied(
    layer: Mapping[str, str], changes: Sequence[Change], key_of: Callable[[str], Key | None]
) -> dict[str, str]:
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


def _checked_topic(overrides: dict[str, str], settings: BrokerSettings) -> dict[str, str]:
    for name in overrides:
        if name not in TOPIC_KEYS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Topics have no configuration {name}.")
    config = settings.topic_config(overrides)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms ({config.min_compaction_lag_ms}) is more than "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms}).",
        )
    if config.remote_storage_enable:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "This broker has no remote storage.")
    return overrides


def _checked_broker(layer: dict[str, str], settings: BrokerSettings) -> dict[str, str]:
    with _bad_values_as_bad_requests():
        _check_dynamic(layer)
        settings.changed(per_broker=layer)
    return layer


def _checked_cluster_defaults(layer: dict[str, str], settings: BrokerSettings) -> dict[str, str]:
    with _bad_values_as_bad_requests():
        _check_dynamic(layer)
        for name in layer:
            if name in BROKER_KEYS and BROKER_KEYS[name].update is Update.PER_BROKER:
                reason = f"{name} can only be changed for one broker, by its id."
                raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
        settings.changed(cluster_wide=layer)
    return layer


@contextmanager
def _bad_values_as_bad_requests() -> Iterator[None]:
    """Kafka has another code for the values of brokers than for those of topics."""
    try:
        yield
    except KafkaError as refusal:
        raise KafkaError(ErrorCode.INVALID_REQUEST, refusal.message) from None


def _check_dynamic(layer: Mapping[str, str]) -> None:
    for name, text in layer.items():
        key = broker_key(name)
        fixed = key is not None and key.update is Update.READ_ONLY
        if fixed or name in OTHER_NAMES or name.startswith(OTHER_PREFIXES):
            reason = f"{name} cannot be changed at run time."
            raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
        if name in ONLY_BY_LISTENER:
            reason = f"{name} can only be changed for one listener."
            raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
        if name in RATE_KEYS:
            RATE_KEYS[name].parse(text)
