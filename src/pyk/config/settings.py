"""A broker's configuration in its layers, and that of topics and groups, which rests on it.

    default < static (files) < cluster-wide < per broker < topic or group

A value is text as it was written; `config`, `topic_config` and `group_config` are what it all comes
to, typed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyk.config.broker import BROKER_KEYS, INTERNAL_KEYS, BrokerConfig, broker_key, spellings
from pyk.config.group import GROUP_KEYS, GroupConfig
from pyk.config.keys import Key, Update
from pyk.config.listeners import parse_limits_by_host, parse_listener, parse_protocol_map
from pyk.config.topic import TOPIC_KEYS, TopicConfig
from pyk.config.values import Value, invalid
from pyk.errors import KafkaError

MILLISECONDS: Final = {"hours": 3_600_000, "minutes": 60_000}
FOR_EVER: Final = -1
NOWHERE: Final = ("0.0.0.0", "::")
"""Where one can listen but not connect to."""


class BrokerSettings:
    """Frozen in effect: a change makes a new one.

    Raises `KafkaError` with INVALID_CONFIG if a value is not what its key asks for, naming both.
    """

    def __init__(
        self,
        static: Mapping[str, str] = {},
        *,
        cluster_wide: Mapping[str, str] = {},
        per_broker: Mapping[str, str] = {},
    ) -> None:
        self.static: Final = _with_node_id(static)
        self.cluster_wide: Final = dict(cluster_wide)
        self.per_broker: Final = dict(per_broker)
        effective = _overlaid(_overlaid(self.static, self.cluster_wide), self.per_broker)
        internal = _parsed(INTERNAL_KEYS, effective)
        self.config: Final = BrokerConfig(**_parsed(BROKER_KEYS, effective), **internal)
        _check(self.config)
        self.topic_defaults: Final = TopicConfig(**_inherited_by_topics(self.config))
        self._group_defaults: Mapping[str, Value] | None = None
        self.stored: tuple[Mapping[str, str], Mapping[str, str]] = (cluster_wide, per_broker)
        """What the metadata has for all brokers and for this one, with what is ignored of it."""
        self.ignored: Mapping[str, str] = {}
        """Why, by the key."""

    def changed(
        self,
        *,
        cluster_wide: Mapping[str, str] | None = None,
        per_broker: Mapping[str, str] | None = None,
    ) -> BrokerSettings:
        """These settings with other dynamic layers."""
        return BrokerSettings(
            self.static,
            cluster_wide=self.cluster_wide if cluster_wide is None else cluster_wide,
            per_broker=self.per_broker if per_broker is None else per_broker,
        )

    def following(
        self, cluster_wide: Mapping[str, str], per_broker: Mapping[str, str]
    ) -> BrokerSettings:
        """These settings with the dynamic layers that are stored, but for what is not valid in
        them: another version of pyk may have taken it, and it must not keep a broker from
        starting."""
        ignored: dict[str, str] = {}
        layers = [_dynamic(layer, ignored) for layer in (cluster_wide, per_broker)]
        try:
            found = self.changed(cluster_wide=layers[0], per_broker=layers[1])
        except KafkaError:
            found = self._one_by_one(layers[0], layers[1], ignored)
        found.stored = (cluster_wide, per_broker)
        found.ignored = ignored
        return found

    def _one_by_one(
        self,
        cluster_wide: Mapping[str, str],
        per_broker: Mapping[str, str],
        ignored: dict[str, str],
    ) -> BrokerSettings:
        found = self.changed(cluster_wide={}, per_broker={})
        for name, text in cluster_wide.items():
            try:
                found = found.changed(cluster_wide={**found.cluster_wide, name: text})
            except KafkaError as refusal:
                ignored[name] = str(refusal)
        for name, text in per_broker.items():
            try:
                found = found.changed(per_broker={**found.per_broker, name: text})
            except KafkaError as refusal:
                ignored[name] = str(refusal)
        return found

    def topic_config(self, overrides: Mapping[str, str] = {}) -> TopicConfig:
        """A topic's configuration, over the broker's defaults. Raises `KafkaError`."""
        if not overrides:
            return self.topic_defaults
        values = vars(self.topic_defaults) | _parsed(TOPIC_KEYS, overrides)
        return TopicConfig(**values)

    def group_config(self, overrides: Mapping[str, str] = {}) -> GroupConfig:
        """A group's configuration, over the broker's defaults. Raises `KafkaError`."""
        if self._group_defaults is None:
            self._group_defaults = _inherited(GROUP_KEYS, self.config)
        return GroupConfig(**{**self._group_defaults, **_parsed(GROUP_KEYS, overrides)})


def valid(
    keys: Mapping[str, Key],
    stored: Mapping[str, str],
    ignored: Callable[[KafkaError], None] = lambda refusal: None,
) -> dict[str, str]:
    """What is stored for a topic or a group, but for values that another version of pyk may have
    taken and this one does not, of which `ignored` is told."""
    found = {}
    for name, text in stored.items():
        try:
            if name in keys:
                keys[name].parse(text)
        except KafkaError as refusal:
            ignored(refusal)
        else:
            found[name] = text
    return found


def _with_node_id(static: Mapping[str, str]) -> dict[str, str]:
    # Kafka keeps the two names equal, whichever is given. A difference is left for `_check`.
    default = str(BROKER_KEYS["node.id"].default)
    identity = static.get("node.id") or static.get("broker.id") or default
    return {"node.id": identity, "broker.id": identity, **static}


def _overlaid(below: Mapping[str, str], above: Mapping[str, str]) -> dict[str, str]:
    # A dynamic log.retention.ms also hides the hours of a file.
    hidden = {spelling for name in above for spelling in spellings(name)}
    return {name: value for name, value in below.items() if name not in hidden} | dict(above)


def _parsed(keys: Mapping[str, Key], texts: Mapping[str, str]) -> dict[str, Value]:
    return {
        keys[name].attribute: keys[name].parse(text) for name, text in texts.items() if name in keys
    }


def _dynamic(layer: Mapping[str, str], ignored: dict[str, str]) -> dict[str, str]:
    """What of a layer can be changed at run time. Why the rest cannot is put into `ignored`."""
    found = {}
    for name, text in layer.items():
        key = broker_key(name)
        if key is not None and key.update is Update.READ_ONLY:
            ignored[name] = f"{name} cannot be changed at run time."
        else:
            found[name] = text
    return found


def _inherited(keys: Mapping[str, Key], config: BrokerConfig) -> dict[str, Value]:
    return {key.attribute: _first_set(config, key.broker) for key in keys.values() if key.broker}


def _inherited_by_topics(config: BrokerConfig) -> dict[str, Value]:
    found = _inherited(TOPIC_KEYS, config)
    retention_ms = found["retention_ms"]
    assert isinstance(retention_ms, int)
    return found | {"retention_ms": max(retention_ms, FOR_EVER)}


def _first_set(config: BrokerConfig, names: tuple[str, ...]) -> Value:
    for name in names:
        value: Value = getattr(config, BROKER_KEYS[name].attribute)
        unit = MILLISECONDS.get(name.rpartition(".")[2])
        if unit is not None and isinstance(value, int):
            return value * unit
        if value is not None:
            return value
    raise AssertionError(f"none of {names} has a default")


def _check(config: BrokerConfig) -> None:
    """What Kafka checks across keys, as far as pyk has them."""
    if config.node_id != config.broker_id:
        raise invalid("broker.id", config.broker_id, f"node.id is {config.node_id}")
    if config.log_roll_ms is not None and config.log_roll_ms < 1:
        raise invalid("log.roll.ms", config.log_roll_ms, "it must be at least 1")
    if config.log_roll_jitter_ms is not None and config.log_roll_jitter_ms < 0:
        raise invalid("log.roll.jitter.ms", config.log_roll_jitter_ms, "it must be at least 0")
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        if getattr(config, BROKER_KEYS[name].attribute) == 0:
            raise invalid(name, 0, "it must be at least 1, or -1 for ever")
    overrides = parse_limits_by_host(
        "max.connections.per.ip.overrides", config.max_connections_per_ip_overrides
    )
    if config.max_connections_per_ip == 0 and not overrides:
        reason = "it can be 0 only with max.connections.per.ip.overrides"
        raise invalid("max.connections.per.ip", 0, reason)
    _check_listeners(config)


def _check_listeners(config: BrokerConfig) -> None:
    protocols = parse_protocol_map(
        "listener.security.protocol.map", config.listener_security_protocol_map
    )
    names = _listener_names("listeners", config.listeners, protocols)
    advertised = config.advertised_listeners or ()
    for name in _listener_names("advertised.listeners", advertised, protocols):
        if name not in names:
            raise invalid("advertised.listeners", ",".join(advertised), f"no listener is {name}")
    for text in advertised:
        if parse_listener("advertised.listeners", text).host in NOWHERE:
            reason = "it must be an address that clients can connect to"
            raise invalid("advertised.listeners", text, reason)


def _listener_names(key: str, texts: Sequence[str], protocols: Mapping[str, str]) -> list[str]:
    names: list[str] = []
    for text in texts:
        name = parse_listener(key, text).name
        if name not in protocols:
            raise invalid(key, text, "listener.security.protocol.map does not have its name")
        if name in names:
            raise invalid(key, ",".join(texts), f"each listener has a name of its own, not {name}")
        names.append(name)
    return names
