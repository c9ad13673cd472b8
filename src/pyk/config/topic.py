"""A topic's configuration: Kafka's 33 keys, each with the broker's keys that give its default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyk.config.keys import Config, Key, boolean, float64, int32, int64, names, string
from pyk.config.rules import at_least, between, each_of, one_of, throttled_replicas
from pyk.config.values import LONG_MAX

DAY_MS: Final = 24 * 3600 * 1000

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
CLEANUP_POLICIES: Final = ("compact", "delete")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")


class TopicConfig(Config):
    """Kafka's names with the dots as underscores. Milliseconds and bytes, as Kafka has them."""

    cleanup_policy: tuple[str, ...] = names(
        ("delete",),
        "How old records leave: delete drops whole segments by age and size, compact keeps the "
        "last record of each key, both do both, and an empty list keeps everything.",
        rule=each_of(*CLEANUP_POLICIES),
        broker=("log.cleanup.policy",),
    )
    compression_type: str = string(
        "producer",
        "The codec in which batches are stored; producer leaves them as they came.",
        rule=one_of(*COMPRESSION_TYPES),
        broker=("compression.type",),
    )
    compression_gzip_level: int = int32(
        -1,
        "How hard gzip tries where compression.type is gzip; -1 is the codec's own default.",
        rule=between(1, 9, or_else=-1),
        broker=("compression.gzip.level",),
    )
    compression_lz4_level: int = int32(
        9,
        "How hard lz4 tries where compression.type is lz4.",
        rule=between(1, 17),
        broker=("compression.lz4.level",),
    )
    compression_zstd_level: int = int32(
        3,
        "How hard zstd tries where compression.type is zstd.",
        rule=between(-131_072, 22),
        broker=("compression.zstd.level",),
    )
    delete_retention_ms: int = int64(
        DAY_MS,
        "How long compaction leaves a tombstone for readers that start from the beginning.",
        rule=at_least(0),
        broker=("log.cleaner.delete.retention.ms",),
    )
    file_delete_delay_ms: int = int64(
        60_000,
        "How long the files of a deleted segment stay on disk.",
        rule=at_least(0),
        broker=("log.segment.delete.delay.ms",),
    )
    flush_messages: int = int64(
        LONG_MAX,
        "After how many records a log is forced to disk, beside what the system writes by itself.",
        rule=at_least(1),
        broker=("log.flush.interval.messages",),
    )
    flush_ms: int = int64(
        LONG_MAX,
        "After how long a log is forced to disk, beside what the system writes by itself.",
        rule=at_least(0),
        broker=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    follower_replication_throttled_replicas: tuple[str, ...] = names(
        (),
        "The followers, as partition:broker or * for all, whose fetching the throttle limits.",
        rule=throttled_replicas,
        honoured=False,
    )
    index_interval_bytes: int = int32(
        4096,
        "About how many bytes of a log lie between two entries of its offset index.",
        rule=at_least(0),
        broker=("log.index.interval.bytes",),
    )
    leader_replication_throttled_replicas: tuple[str, ...] = names(
        (),
        "The leaders, as partition:broker or * for all, whose serving of followers the throttle "
        "limits.",
        rule=throttled_replicas,
        honoured=False,
    )
    local_retention_bytes: int = int64(
        -2,
        "How much of a tiered partition stays on the broker's disk; -2 is as retention.bytes.",
        rule=at_least(-2),
        broker=("log.local.retention.bytes",),
    )
    local_retention_ms: int = int64(
        -2,
        "How long records of a tiered partition stay on the broker's disk; -2 is as retention.ms.",
        rule=at_least(-2),
        broker=("log.local.retention.ms",),
    )
    max_compaction_lag_ms: int = int64(
        LONG_MAX,
        "The longest that a record of a compacted topic waits before it may be compacted.",
        rule=at_least(1),
        broker=("log.cleaner.max.compaction.lag.ms",),
    )
    max_message_bytes: int = int32(
        1_048_588,
        "The largest batch that is taken, as stored: after compression, with its header.",
        rule=at_least(0),
        broker=("message.max.bytes",),
    )
    message_timestamp_after_max_ms: int = int64(
        3_600_000,
        "How far ahead of the broker's clock a producer's timestamp may be.",
        rule=at_least(0),
        broker=("log.message.timestamp.after.max.ms",),
    )
    message_timestamp_before_max_ms: int = int64(
        LONG_MAX,
        "How far behind the broker's clock a producer's timestamp may be.",
        rule=at_least(0),
        broker=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_type: str = string(
        "CreateTime",
        "Whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        rule=one_of(*TIMESTAMP_TYPES),
        broker=("log.message.timestamp.type",),
    )
    min_cleanable_dirty_ratio: float = float64(
        0.5,
        "The share of a log that must be uncompacted before compaction is worth its while.",
        rule=between(0, 1),
        broker=("log.cleaner.min.cleanable.ratio",),
    )
    min_compaction_lag_ms: int = int64(
        0,
        "How long a record stays as it is before compaction may drop it.",
        rule=at_least(0),
        broker=("log.cleaner.min.compaction.lag.ms",),
    )
    min_insync_replicas: int = int32(
        1,
        "How many replicas must be in sync for a write with acks=all to be taken.",
        rule=at_least(1),
        broker=("min.insync.replicas",),
    )
    preallocate: bool = boolean(
        False,
        "Whether a new segment's file is given its full size at once.",
        honoured=False,
        broker=("log.preallocate",),
    )
    remote_log_copy_disable: bool = boolean(
        False, "Whether a tiered topic stops sending segments to remote storage.", honoured=False
    )
    remote_log_delete_on_disable: bool = boolean(
        False,
        "Whether what is in remote storage goes when the topic stops being tiered.",
        honoured=False,
    )
    remote_storage_enable: bool = boolean(
        False, "Whether segments are also kept in remote storage."
    )
    retention_bytes: int = int64(
        -1,
        "How large a partition may grow before its oldest segments go; -1 is without limit.",
        broker=("log.retention.bytes",),
    )
    retention_ms: int = int64(
        7 * DAY_MS,
        "How old records become before their segment goes; -1 is for ever.",
        rule=at_least(-1),
        broker=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    segment_bytes: int = int32(
        1024**3,
        "The size at which a log goes on in a new segment.",
        rule=at_least(1024**2),
        broker=("log.segment.bytes",),
    )
    segment_index_bytes: int = int32(
        10 * 1024**2,
        "The size that a segment's index may have before the log goes on in a new segment.",
        rule=at_least(4),
        broker=("log.index.size.max.bytes",),
    )
    segment_jitter_ms: int = int64(
        0,
        "The most by which segment.ms is shortened at random, so that logs do not roll together.",
        rule=at_least(0),
        broker=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    segment_ms: int = int64(
        7 * DAY_MS,
        "The age at which a log goes on in a new segment even if the old one is not full.",
        rule=at_least(1),
        broker=("log.roll.ms", "log.roll.hours"),
    )
    unclean_leader_election_enable: bool = boolean(
        False,
        "Whether a replica that is not in sync may lead when no other can, and records be lost.",
        broker=("unclean.leader.election.enable",),
    )


TOPIC_KEYS: Final[Mapping[str, Key]] = TopicConfig.KEYS
