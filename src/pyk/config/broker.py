"""A broker's configuration: those of Kafka's keys that pyk has a use for, or that tools look at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from pyk.config.coordination import CoordinationConfig
from pyk.config.group_defaults import GroupDefaultsConfig
from pyk.config.keys import CLUSTER_WIDE, Key
from pyk.config.network import NetworkConfig
from pyk.config.replication import ReplicationConfig
from pyk.config.rules import at_least
from pyk.config.security import SecurityConfig
from pyk.config.share_coordination import ShareCoordinationConfig
from pyk.config.storage import StorageConfig
from pyk.config.topic import TOPIC_KEYS
from pyk.config.values import LONG_MAX, ValueType


class BrokerConfig(
    SecurityConfig,
    ReplicationConfig,
    GroupDefaultsConfig,
    ShareCoordinationConfig,
    CoordinationConfig,
    StorageConfig,
    NetworkConfig,
):
    """Kafka's names with the dots as underscores. Milliseconds and bytes, as Kafka has them."""

    @property
    def data_directories(self) -> tuple[str, ...]:
        return self.log_dirs or self.log_dir


_NOT_YET: Final = (
    "auto.leader.",
    "broker.heartbeat.",
    "broker.session.",
    "controlled.shutdown.",
    "inter.broker.listener.name",
    "leader.imbalance.",
    "log.flush.offset.",
    "log.flush.start.",
    "log.local.",
    "num.replica.",
    "quota.",
    "replica.fetch.",
    "replica.lag.",
    "replica.socket.",
    "request.timeout.",
    "unclean.leader.",
)
"""How the names begin that will have an effect when pyk has quotas, other brokers and tiers."""

BROKER_KEYS: Final[Mapping[str, Key]] = {
    name: replace(key, honoured=False) if name.startswith(_NOT_YET) else key
    for name, key in BrokerConfig.KEYS.items()
    if not key.is_internal
}

INTERNAL_KEYS: Final[Mapping[str, Key]] = {
    name: key for name, key in BrokerConfig.KEYS.items() if key.is_internal
}
"""What Kafka reads and does not describe: it is meant for its own tests."""

RATE_KEYS: Final[Mapping[str, Key]] = {
    name: Key(
        name=name,
        type=ValueType.LONG,
        default=LONG_MAX,
        documentation=documentation,
        rule=at_least(0),
        update=CLUSTER_WIDE,
        honoured=False,
    )
    for name, documentation in {
        "leader.replication.throttled.rate": "Bytes a second to throttled followers.",
        "follower.replication.throttled.rate": "Bytes a second from the leaders of throttled ones.",
        "replica.alter.log.dirs.io.max.bytes.per.second": "Bytes a second between directories.",
    }.items()
}
"""Throttles, which exist only at run time: they have no default, and are described while set."""

_SPELLINGS: Final = {
    name: key.broker for key in TOPIC_KEYS.values() if len(key.broker) > 1 for name in key.broker
}


def spellings(name: str) -> tuple[str, ...]:
    """The broker's keys that say the same thing in other units, the strongest first."""
    return _SPELLINGS.get(name, (name,))


def broker_key(name: str) -> Key | None:
    """The key of this name that a broker may have at run time."""
    return BROKER_KEYS.get(name) or INTERNAL_KEYS.get(name) or RATE_KEYS.get(name)
