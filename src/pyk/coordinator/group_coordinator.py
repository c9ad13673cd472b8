"""The coordinator of groups: shards of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyk.config.group import GroupConfig
from pyk.config.settings import BrokerSettings
from pyk.coordinator.group import Surroundings
from pyk.coordinator.groups import Groups
from pyk.coordinator.internal_topics import GROUP_TOPIC
from pyk.coordinator.journal import JournalOptions, record_types
from pyk.coordinator.shards import Parts, Shards
from pyk.coordinator.share_lifecycle import ShareLifecycle
from pyk.metadata.image import Configured
from pyk.metadata.mirror import Mirror
from pyk.wire.compression import Compression
from pyk.wire.payloads import (
    classic_group_records,
    consumer_group_records,
    offset_records,
    share_group_records,
)

GroupShards = Shards[Groups]

RECORD_TYPES: Final = record_types(
    offset_records, classic_group_records, consumer_group_records, share_group_records
)


def group_shards(parts: Parts, shares: ShareLifecycle) -> GroupShards:
    configs = _GroupConfigs(parts.settings, parts.mirror)

    def options() -> JournalOptions:
        config = parts.settings().config
        return JournalOptions(
            compression=Compression(config.offsets_topic_compression_codec),
            timeout=config.offsets_commit_timeout_ms / 1000,
        )

    def machine() -> Groups:
        surroundings = Surroundings(
            config=lambda: parts.settings().config,
            group_config=configs.of,
            rng=parts.rng,
            now_ms=parts.now_ms,
            image=parts.mirror.image,
        )
        return Groups(surroundings)

    return Shards(parts, GROUP_TOPIC, RECORD_TYPES, options, machine, shares.note_change)


class _GroupConfigs:
    """The configuration of groups, which is made of text, remembered as long as it is good."""

    def __init__(self, settings: Callable[[], BrokerSettings], mirror: Mirror) -> None:
        self._settings = settings
        self._mirror = mirror
        self._based_on: BrokerSettings | None = None
        self._made: dict[str, tuple[Configured, GroupConfig]] = {}
        self._default = GroupConfig()

    def of(self, group_id: str) -> GroupConfig:
        settings = self._settings()
        if settings is not self._based_on:
            self._based_on, self._made = settings, {}
            self._default = settings.group_config()
        configured = self._mirror.image.group_config(group_id)
        if not configured.values:
            return self._default
        known = self._made.get(group_id)
        if known is None or known[0] is not configured:
            known = configured, settings.group_config(configured.values)
            self._made[group_id] = known
        return known[1]
