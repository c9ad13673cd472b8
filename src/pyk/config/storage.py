"""The broker's keys about logs: where they are, and the defaults of topics' configuration."""

from __future__ import annotations

import sys

from pyk.config.keys import (
    CLUSTER_WIDE,
    PER_BROKER,
    Config,
    boolean,
    float64,
    int32,
    int64,
    names,
    string,
)
from pyk.config.rules import at_least, between, each_of, not_empty, one_of
from pyk.config.topic import CLEANUP_POLICIES, COMPRESSION_TYPES, DAY_MS, TIMESTAMP_TYPES
from pyk.config.values import LONG_MAX


class StorageConfig(Config):
    log_dir: tuple[str, ...] = names(
        ("/tmp/kafka-logs",), "Where logs are kept unless log.dirs says so.", rule=not_empty
    )
    log_dirs: tuple[str, ...] | None = names(None, "Where logs are kept.", rule=not_empty)
    cordoned_log_dirs: tuple[str, ...] = names(
        (),
        "Directories of logs that get no new partitions.",
        update=PER_BROKER,
        honoured=False,
    )
    num_partitions: int = int32(
        1, "How many partitions a topic gets that is created without a number.", rule=at_least(1)
    )
    auto_create_topics_enable: bool = boolean(
        True, "Whether asking for a topic that is not there creates it."
    )
    delete_topic_enable: bool = boolean(True, "Whether topics can be deleted.")

    log_segment_bytes: int = int32(
        1024**3,
        "The size at which a log goes on in a new segment.",
        rule=at_least(1024**2),
        update=CLUSTER_WIDE,
    )
    log_roll_ms: int | None = int64(
        None, "The age at which a log goes on in a new segment.", update=CLUSTER_WIDE
    )
    log_roll_hours: int = int32(
        168, "The same as log.roll.ms in hours, used where that is not set.", rule=at_least(1)
    )
    log_roll_jitter_ms: int | None = int64(
        None,
        "The most by which log.roll.ms is shortened at random.",
        update=CLUSTER_WIDE,
    )
    log_roll_jitter_hours: int = int32(
        0, "The same as log.roll.jitter.ms in hours, used where that is not set.", rule=at_least(0)
    )
    log_index_size_max_bytes: int = int32(
        10 * 1024**2,
        "The size that a segment's index may have before the log goes on in a new segment.",
        rule=at_least(4),
        update=CLUSTER_WIDE,
    )
    log_index_interval_bytes: int = int32(
        4096,
        "About how many bytes of a log lie between two entries of its offset index.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
    log_preallocate: bool = boolean(
        False,
        "Whether a new segment's file is given its full size at once.",
        update=CLUSTER_WIDE,
        honoured=False,
    )

    log_flush_interval_messages: int = int64(
        LONG_MAX,
        "After how many records a log is forced to disk.",
        rule=at_least(1),
        update=CLUSTER_WIDE,
    )
    log_flush_interval_ms: int | None = int64(
        None, "After how long a log is forced to disk.", update=CLUSTER_WIDE
    )
    log_flush_scheduler_interval_ms: int = int64(
        LONG_MAX, "How often logs are looked at that may have to be forced to disk."
    )
    log_flush_offset_checkpoint_interval_ms: int = int32(
        60_000, "How often the points to recover from are written down.", rule=at_least(0)
    )
    log_flush_start_offset_checkpoint_interval_ms: int = int32(
        60_000, "How often the starts of logs are written down.", rule=at_least(0)
    )
    num_recovery_threads_per_data_dir: int = int32(
        2,
        "How many threads recover the logs of a directory after a crash.",
        rule=at_least(1),
        update=CLUSTER_WIDE,
    )

    log_cleanup_policy: tuple[str, ...] = names(
        ("delete",),
        "How old records leave: delete, compact, both, or not at all.",
        rule=each_of(*CLEANUP_POLICIES),
        update=CLUSTER_WIDE,
    )
    log_retention_ms: int | None = int64(
        None,
        "How old records become before their segment goes; -1 is for ever.",
        update=CLUSTER_WIDE,
    )
    log_retention_minutes: int | None = int32(
        None, "The same as log.retention.ms in minutes, used where that is not set."
    )
    log_retention_hours: int = int32(
        168, "The same as log.retention.ms in hours, used where neither it nor minutes are set."
    )
    log_retention_bytes: int = int64(
        -1,
        "How large a partition may grow before its oldest segments go; -1 is without limit.",
        update=CLUSTER_WIDE,
    )
    log_retention_check_interval_ms: int = int64(
        300_000, "How often the broker looks for segments that may go.", rule=at_least(1)
    )
    log_segment_delete_delay_ms: int = int64(
        60_000,
        "How long the files of a deleted segment stay on disk.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
    log_local_retention_ms: int = int64(
        -2,
        "How long records of a tiered partition stay on the broker's disk; -2 is as the whole.",
        rule=at_least(-2),
        update=CLUSTER_WIDE,
    )
    log_local_retention_bytes: int = int64(
        -2,
        "How much of a tiered partition stays on the broker's disk; -2 is as the whole.",
        rule=at_least(-2),
        update=CLUSTER_WIDE,
    )

    log_cleaner_enable: bool = boolean(True, "Whether logs are compacted at all.")
    log_cleaner_threads: int = int32(
        1,
        "How many logs are compacted at once.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
        honoured=False,
    )
    log_cleaner_backoff_ms: int = int64(
        15_000,
        "How long the cleaner rests when no log needs it.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size: int = int64(
        128 * 1024**2,
        "The memory for the keys of the logs being compacted.",
        update=CLUSTER_WIDE,
        honoured=False,
    )
    log_cleaner_io_buffer_size: int = int32(
        512 * 1024,
        "The memory for reading and writing the logs being compacted.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
        honoured=False,
    )
    log_cleaner_io_buffer_load_factor: float = float64(
        0.9,
        "How full the memory for keys may become.",
        update=CLUSTER_WIDE,
        honoured=False,
    )
    log_cleaner_io_max_bytes_per_second: float = float64(
        sys.float_info.max,
        "How fast the cleaner may read and write.",
        update=CLUSTER_WIDE,
        honoured=False,
    )
    log_cleaner_delete_retention_ms: int = int64(
        DAY_MS,
        "How long compaction leaves a tombstone for readers that start from the beginning.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
    log_cleaner_min_cleanable_ratio: float = float64(
        0.5,
        "The share of a log that must be uncompacted before compaction is worth its while.",
        rule=between(0, 1),
        update=CLUSTER_WIDE,
    )
    log_cleaner_min_compaction_lag_ms: int = int64(
        0,
        "How long a record stays as it is before compaction may drop it.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
    log_cleaner_max_compaction_lag_ms: int = int64(
        LONG_MAX,
        "The longest that a record of a compacted topic waits before it may be compacted.",
        rule=at_least(1),
        update=CLUSTER_WIDE,
    )

    message_max_bytes: int = int32(
        1_048_588,
        "The largest batch that is taken, as stored: after compression, with its header.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
    compression_type: str = string(
        "producer",
        "The codec in which batches are stored; producer leaves them as they came.",
        rule=one_of(*COMPRESSION_TYPES),
        update=CLUSTER_WIDE,
    )
    compression_gzip_level: int = int32(
        -1,
        "How hard gzip tries where compression.type is gzip; -1 is the codec's own default.",
        rule=between(1, 9, or_else=-1),
        update=CLUSTER_WIDE,
    )
    compression_lz4_level: int = int32(
        9,
        "How hard lz4 tries where compression.type is lz4.",
        rule=between(1, 17),
        update=CLUSTER_WIDE,
    )
    compression_zstd_level: int = int32(
        3,
        "How hard zstd tries where compression.type is zstd.",
        rule=between(-131_072, 22),
        update=CLUSTER_WIDE,
    )
    log_message_timestamp_type: str = string(
        "CreateTime",
        "Whose clock stamps records: the producer's (CreateTime) or the broker's (LogAppendTime).",
        rule=one_of(*TIMESTAMP_TYPES),
        update=CLUSTER_WIDE,
    )
    log_message_timestamp_before_max_ms: int = int64(
        LONG_MAX,
        "How far behind the broker's clock a producer's timestamp may be.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
    log_message_timestamp_after_max_ms: int = int64(
        3_600_000,
        "How far ahead of the broker's clock a producer's timestamp may be.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
