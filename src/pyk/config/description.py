"""What DescribeConfigs tells: each key's value, where it is from, and what else was set for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import Struct

from pyk.config.broker import BROKER_KEYS, broker_key, spellings
from pyk.config.client_metrics import CLIENT_METRICS_KEYS
from pyk.config.group import GROUP_KEYS
from pyk.config.keys import Key, Update
from pyk.config.settings import BrokerSettings, valid
from pyk.config.topic import TOPIC_KEYS
from pyk.config.values import ValueType, format_value

DEFAULTS: Final[Mapping[str, str]] = {
    key.name: text
    for key in BROKER_KEYS.values()
    if (text := format_value(key.default)) is not None
}


class Source(IntEnum):
    """As DescribeConfigs numbers them."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Synonym(NamedTuple):
    name: str
    value: str | None
    source: Source


class Entry(Struct, frozen=True, kw_only=True):
    name: str
    value: str | None
    source: Source
    type: ValueType
    read_only: bool
    is_sensitive: bool
    documentation: str | None
    synonyms: tuple[Synonym, ...]
    """All that is set for it, the strongest first, each as it was written."""

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT_CONFIG


def describe_topic(settings: BrokerSettings, overrides: Mapping[str, str]) -> list[Entry]:
    """All keys of a topic."""
    overrides = valid(TOPIC_KEYS, overrides)
    config = settings.topic_config(overrides)
    entries = []
    for key in TOPIC_KEYS.values():
        value = format_value(getattr(config, key.attribute))
        synonyms = _synonyms(settings, key.broker[0]) if key.broker else ()
        if key.name in overrides:
            own = Synonym(key.name, value, Source.DYNAMIC_TOPIC_CONFIG)
            synonyms = (own, *synonyms)
        entries.append(_entry(key, value, synonyms, read_only=False))
    return entries


def describe_group(settings: BrokerSettings, overrides: Mapping[str, str]) -> list[Entry]:
    """All keys of a group, which need not exist."""
    overrides = valid(GROUP_KEYS, overrides)
    config = settings.group_config(overrides)
    entries = []
    for key in GROUP_KEYS.values():
        value = format_value(getattr(config, key.attribute))
        if key.broker:
            synonyms = _synonyms(settings, key.broker[0])
        else:
            synonyms = (Synonym(key.name, format_value(key.default), Source.DEFAULT_CONFIG),)
        if key.name in overrides:
            synonyms = (Synonym(key.name, value, Source.GROUP_CONFIG), *synonyms)
        entries.append(_entry(key, value, synonyms, read_only=False))
    return entries


def describe_client_metrics(overrides: Mapping[str, str]) -> list[Entry]:
    """All keys of a subscription to metrics, which need not exist."""
    overrides = valid(CLIENT_METRICS_KEYS, overrides)
    entries = []
    for key in CLIENT_METRICS_KEYS.values():
        text = overrides.get(key.name)
        value = format_value(key.default if text is None else key.parse(text))
        own = Synonym(key.name, value, Source.CLIENT_METRICS_CONFIG)
        entries.append(_entry(key, value, () if text is None else (own,), read_only=False))
    return entries


def describe_broker(settings: BrokerSettings) -> list[Entry]:
    """All keys of a broker, and those that somebody set without their being known."""
    entries = [_broker_entry(settings, key) for key in BROKER_KEYS.values()]
    layers = (settings.static, settings.cluster_wide, settings.per_broker)
    more = {name for layer in layers for name in layer if name not in BROKER_KEYS}
    for name in sorted(more):
        synonyms = _synonyms(settings, name)
        entries.append(_dynamic_entry(name, synonyms[0].value, synonyms))
    return entries


def describe_cluster_defaults(settings: BrokerSettings) -> list[Entry]:
    """What is set for all brokers at once: the resource of type broker without a name."""
    entries = []
    for name, text in settings.cluster_wide.items():
        shown = None if _is_hidden(name) else text
        synonym = Synonym(name, shown, Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
        entries.append(_dynamic_entry(name, shown, (synonym,)))
    return entries


def _broker_entry(settings: BrokerSettings, key: Key) -> Entry:
    value = format_value(getattr(settings.config, key.attribute))
    return _entry(
        key, value, _synonyms(settings, key.name), read_only=key.update is Update.READ_ONLY
    )


def _entry(key: Key, value: str | None, synonyms: tuple[Synonym, ...], read_only: bool) -> Entry:
    return Entry(
        name=key.name,
        value=None if key.is_sensitive else value,
        source=synonyms[0].source if synonyms else Source.DEFAULT_CONFIG,
        type=key.type,
        read_only=read_only,
        is_sensitive=key.is_sensitive,
        documentation=key.documentation,
        synonyms=synonyms,
    )


def _dynamic_entry(name: str, value: str | None, synonyms: tuple[Synonym, ...]) -> Entry:
    key = broker_key(name)
    if key is not None:
        return _entry(key, value, synonyms, read_only=key.update is Update.READ_ONLY)
    return Entry(
        name=name,
        value=None,
        source=synonyms[0].source,
        type=ValueType.UNKNOWN,
        read_only=True,
        is_sensitive=True,
        documentation=None,
        synonyms=synonyms,
    )


def _is_hidden(name: str) -> bool:
    """What is not known here may well be a secret."""
    key = broker_key(name)
    return key is None or key.is_sensitive


def _synonyms(settings: BrokerSettings, name: str) -> tuple[Synonym, ...]:
    hidden = _is_hidden(name)
    layers = (
        (Source.DYNAMIC_BROKER_CONFIG, settings.per_broker),
        (Source.DYNAMIC_DEFAULT_BROKER_CONFIG, settings.cluster_wide),
        (Source.STATIC_BROKER_CONFIG, settings.static),
        (Source.DEFAULT_CONFIG, DEFAULTS),
    )
    found = [
        Synonym(spelling, None if hidden else layer[spelling], source)
        for source, layer in layers
        for spelling in spellings(name)
        if spelling in layer
    ]
    # Kafka drops what is stronger under another name: of hours alone, ms knows nothing.
    first = next((at for at, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(found[first:])
