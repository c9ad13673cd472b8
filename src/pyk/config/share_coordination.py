"""The broker's keys about the state of share partitions."""

from __future__ import annotations

from pyk.config.keys import Config, int16, int32
from pyk.config.rules import CODEC_MAX, at_least, between


class ShareCoordinationConfig(Config):
    share_coordinator_state_topic_num_partitions: int = int32(
        50,
        "How many partitions the topic of share groups' state gets; never change it later.",
        rule=at_least(1),
    )
    share_coordinator_state_topic_replication_factor: int = int16(
        3, "How many replicas the topic of share groups' state gets.", rule=at_least(1)
    )
    share_coordinator_state_topic_min_isr: int = int16(
        2, "The min.insync.replicas of the topic of share groups' state.", rule=at_least(1)
    )
    share_coordinator_state_topic_segment_bytes: int = int32(
        100 * 1024**2, "The size of the segments of share groups' state.", rule=at_least(1)
    )
    share_coordinator_state_topic_compression_codec: int = int32(
        0,
        "The codec, by its number, in which share groups' state is stored.",
        rule=between(0, CODEC_MAX),
    )
    share_coordinator_state_topic_prune_interval_ms: int = int32(
        300_000,
        "How often the log of share groups' state is cut where nothing before is needed.",
        rule=at_least(1),
        is_internal=True,
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = int32(
        500,
        "After how many updates of a share partition all of its state is written again.",
        rule=between(0, 500),
    )
    share_coordinator_cold_partition_snapshot_interval_ms: int = int32(
        300_000,
        "How long a share partition is at rest before all of its state is written again.",
        rule=at_least(1),
        is_internal=True,
    )
    share_coordinator_write_timeout_ms: int = int32(
        5000,
        "How long a change waits for the replicas of the topic of share groups' state.",
        rule=at_least(1),
    )
    group_share_max_share_sessions: int = int32(
        2000, "How many members of share groups may fetch from a broker.", rule=at_least(1)
    )
