"""What the configuration of a resource must be as a whole, once a request has changed it.

One bad key refuses all of it: each raises the `KafkaError` that the client must hear, with Kafka's
code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from pyk.config.broker import BROKER_KEYS, RATE_KEYS, broker_key
from pyk.config.client_metrics import CLIENT_METRICS_KEYS, INTERVALS_MS
from pyk.config.group import GROUP_KEYS, GroupConfig
from pyk.config.keys import Key, Update
from pyk.config.others import OTHER_NAMES, OTHER_PREFIXES
from pyk.config.security import ONLY_BY_LISTENER
from pyk.config.settings import BrokerSettings
from pyk.config.topic import TOPIC_KEYS
from pyk.config.values import Value, invalid
from pyk.errors import ErrorCode, KafkaError


def check_topic(overrides: Mapping[str, str], settings: BrokerSettings) -> None:
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


def check_broker(layer: Mapping[str, str], settings: BrokerSettings) -> None:
    """The layer of one broker."""
    with _bad_values_as_bad_requests():
        _check_dynamic(layer)
        settings.changed(per_broker=layer)


def check_cluster_defaults(layer: Mapping[str, str], settings: BrokerSettings) -> None:
    """The layer of all brokers."""
    with _bad_values_as_bad_requests():
        _check_dynamic(layer)
        for name in layer:
            if name in BROKER_KEYS and BROKER_KEYS[name].update is Update.PER_BROKER:
                reason = f"{name} can only be changed for one broker, by its id."
                raise KafkaError(ErrorCode.INVALID_REQUEST, reason)
        settings.changed(cluster_wide=layer)


def check_group(overrides: Mapping[str, str], settings: BrokerSettings) -> None:
    for name in overrides:
        if name not in GROUP_KEYS:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Groups have no configuration {name}.")
    config = settings.group_config(overrides)
    for key, least, most in _group_bounds():
        _check_bounds(key, getattr(config, key.attribute), least, most, settings)
    _check_sessions(config)


def check_client_metrics(overrides: Mapping[str, str]) -> None:
    for name in overrides:
        if name not in CLIENT_METRICS_KEYS:
            message = f"Subscriptions to metrics have no configuration {name}."
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    values = {name: CLIENT_METRICS_KEYS[name].parse(text) for name, text in overrides.items()}
    interval_ms = values.get("interval.ms")
    if interval_ms is not None and interval_ms not in INTERVALS_MS:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for configuration interval.ms: it must be from "
            f"{INTERVALS_MS[0]} to {INTERVALS_MS[-1]}",
        )


@cache
def _group_bounds() -> list[tuple[Key, Key | None, Key | None]]:
    """The keys of groups, each with the broker's keys for the least and the most that it may be."""
    found = []
    for key in GROUP_KEYS.values():
        kind, _, rest = key.name.partition(".")
        least, most = (
            BROKER_KEYS.get(f"group.{kind}.{bound}.{rest.removeprefix('num.')}")
            for bound in ("min", "max")
        )
        if least is not None or most is not None:
            found.append((key, least, most))
    return found


def _check_bounds(
    key: Key, value: Value, least: Key | None, most: Key | None, settings: BrokerSettings
) -> None:
    """Whether it is within what the broker lets groups have."""
    assert isinstance(value, int | str)
    if least is not None and value < getattr(settings.config, least.attribute):
        raise invalid(key.name, value, f"it must be greater than or equal to {least.name}")
    if most is not None and value > getattr(settings.config, most.attribute):
        raise invalid(key.name, value, f"it must be less than or equal to {most.name}")


def _check_sessions(config: GroupConfig) -> None:
    for kind, timeout_ms, interval_ms in (
        ("consumer", config.consumer_session_timeout_ms, config.consumer_heartbeat_interval_ms),
        ("share", config.share_session_timeout_ms, config.share_heartbeat_interval_ms),
        ("streams", config.streams_session_timeout_ms, config.streams_heartbeat_interval_ms),
    ):
        if timeout_ms <= interval_ms:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{kind}.session.timeout.ms ({timeout_ms}) must be greater than "
                f"{kind}.heartbeat.interval.ms ({interval_ms}).",
            )


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
