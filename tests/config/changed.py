"""What a request makes of the configuration of topics and brokers, if it may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyk.config.broker import broker_key
from pyk.config.changes import Change, altered, created, replaced
from pyk.config.checks import check_broker, check_cluster_defaults, check_topic
from pyk.config.settings import BrokerSettings
from pyk.config.topic import TOPIC_KEYS

Configs = Iterable[tuple[str, str | None]]


def create_topic(configs: Configs, settings: BrokerSettings) -> dict[str, str]:
    after = created(configs)
    check_topic(after, settings)
    return after


def alter_topic(
    before: Mapping[str, str], changes: Sequence[Change], settings: BrokerSettings
) -> dict[str, str]:
    after = altered(before, changes, TOPIC_KEYS.get)
    check_topic(after, settings)
    return after


def replace_topic(configs: Configs, settings: BrokerSettings) -> dict[str, str]:
    after = replaced(configs)
    check_topic(after, settings)
    return after


def alter_broker(changes: Sequence[Change], settings: BrokerSettings) -> dict[str, str]:
    after = altered(settings.per_broker, changes, broker_key)
    check_broker(after, settings)
    return after


def alter_cluster_defaults(changes: Sequence[Change], settings: BrokerSettings) -> dict[str, str]:
    after = altered(settings.cluster_wide, changes, broker_key)
    check_cluster_defaults(after, settings)
    return after
