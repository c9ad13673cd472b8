"""The coordinator of groups: shards of `__consumer_offsets`."""

from __future__ import annotations

from typing import Final

from pyk.coordinator.group import Surroundings
from pyk.coordinator.group_configs import GroupConfigs
from pyk.coordinator.groups import Groups
from pyk.coordinator.internal_topics import GROUP_TOPIC
from pyk.coordinator.journal import JournalOptions, record_types
from pyk.coordinator.shards import Parts, Shards
from pyk.coordinator.share_lifecycle import ShareLifecycle
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
    configs = GroupConfigs(parts.settings, parts.mirror)

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
