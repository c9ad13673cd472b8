"""What a log is told by its topic's configuration: Kafka's names, with the dots as underscores."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self

from msgspec import Struct

from pyk.config.topic import TopicConfig
from pyk.wire.batch import TimestampType
from pyk.wire.compression import Compression
from pyk.wire.records import RECORDS_BYTES_MAX

INT64_MAX: Final = 2**63 - 1
"""How Kafka writes "never" and "no limit"."""

UNLIMITED: Final = -1
"""How it writes the same for retention."""

_DAY_MS: Final = 24 * 3600 * 1000


_COMPRESSIONS: Final[Mapping[str, Compression | None]] = {
    "producer": None,
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_TIMESTAMP_TYPES: Final = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


class CleanupPolicy(StrEnum):
    DELETE = "delete"
    COMPACT = "compact"


class LogConfig(Struct, frozen=True, kw_only=True):
    segment_bytes: int = 1024**3
    segment_ms: int = 7 * _DAY_MS
    segment_index_bytes: int = 10 * 1024**2
    index_interval_bytes: int = 4096

    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX

    cleanup_policy: frozenset[CleanupPolicy] = frozenset({CleanupPolicy.DELETE})
    """Without any, a log is never cleaned up: but for what is before its start."""
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = UNLIMITED
    file_delete_delay_ms: int = 60_000

    delete_retention_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX

    max_message_bytes: int = 1_048_588
    compression_type: Compression | None = None
    """None is Kafka's `producer`: as it came."""
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000

    @classmethod
    def of(cls, topic: TopicConfig) -> Self:
        """The part of a topic's configuration that its logs need."""
        values = {name: getattr(topic, name) for name in cls.__struct_fields__}
        return cls(
            **values
            | {
                "cleanup_policy": frozenset(map(CleanupPolicy, topic.cleanup_policy)),
                "compression_type": _COMPRESSIONS[topic.compression_type],
                "message_timestamp_type": _TIMESTAMP_TYPES[topic.message_timestamp_type],
            }
        )

    @property
    def is_compacted(self) -> bool:
        return CleanupPolicy.COMPACT in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        return CleanupPolicy.DELETE in self.cleanup_policy

    @property
    def inflated_bytes_max(self) -> int:
        """What the records of a batch may inflate to, for all who read them: what the topic takes
        uncompressed, it takes compressed."""
        return max(self.max_message_bytes, RECORDS_BYTES_MAX)

    @property
    def roll_ms(self) -> int:
        """What is in the active segment cannot be compacted: it must not stay there for longer
        than that may wait."""
        if self.is_compacted and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms
