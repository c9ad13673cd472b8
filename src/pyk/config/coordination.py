"""The broker's keys about groups, their offsets, producers and transactions."""

from __future__ import annotations

from typing import Final

from pyk.config.keys import CLUSTER_WIDE, Config, boolean, int16, int32, int64, names, string
from pyk.config.rules import (
    CODEC_MAX,
    all_of,
    at_least,
    between,
    each_of,
    not_empty,
    one_of_any_case,
)
from pyk.config.topic import DAY_MS
from pyk.config.values import INT_MAX

ASSIGNOR_CLASSES: Final = {
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""As Kafka had them for its default up to 3.9, and takes them still."""


class CoordinationConfig(Config):
    group_initial_rebalance_delay_ms: int = int32(
        3000, "How long an empty classic group waits for more members before its first rebalance."
    )
    group_min_session_timeout_ms: int = int32(
        6000, "The shortest session timeout that a member of a classic group may ask for."
    )
    group_max_session_timeout_ms: int = int32(
        1_800_000, "The longest session timeout that a member of a classic group may ask for."
    )
    group_max_size: int = int32(
        INT_MAX, "How many members a classic group may have.", rule=at_least(1)
    )
    group_coordinator_rebalance_protocols: tuple[str, ...] = names(
        ("classic", "consumer", "streams"),
        "The kinds of groups that are served.",
        rule=all_of(not_empty, each_of("consumer", "classic", "share", "streams")),
    )
    group_coordinator_threads: int = int32(
        4,
        "How many threads carry out what groups ask for; pyk needs none.",
        rule=at_least(1),
        honoured=False,
    )

    group_consumer_session_timeout_ms: int = int32(
        45_000,
        "How long a member of a consumer group may be silent before it is out.",
        rule=at_least(1),
    )
    group_consumer_min_session_timeout_ms: int = int32(
        45_000, "The least that a group's own session timeout may be.", rule=at_least(1)
    )
    group_consumer_max_session_timeout_ms: int = int32(
        60_000, "The most that a group's own session timeout may be.", rule=at_least(1)
    )
    group_consumer_heartbeat_interval_ms: int = int32(
        5000, "How often members of a consumer group are told to report.", rule=at_least(1)
    )
    group_consumer_min_heartbeat_interval_ms: int = int32(
        5000, "The least that a group's own heartbeat interval may be.", rule=at_least(1)
    )
    group_consumer_max_heartbeat_interval_ms: int = int32(
        15_000, "The most that a group's own heartbeat interval may be.", rule=at_least(1)
    )
    group_consumer_assignment_interval_ms: int = int32(
        1000,
        "How long a consumer group keeps an assignment before it gets a new one.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
    group_consumer_min_assignment_interval_ms: int = int32(
        0, "The least that a group's own assignment interval may be.", rule=at_least(0)
    )
    group_consumer_max_assignment_interval_ms: int = int32(
        15_000, "The most that a group's own assignment interval may be.", rule=at_least(0)
    )
    group_consumer_max_size: int = int32(
        INT_MAX, "How many members a consumer group may have.", rule=at_least(1)
    )
    group_consumer_assignors: tuple[str, ...] = names(
        ("uniform", "range"),
        "The ways in which the broker shares out partitions, the default first: uniform, range, or"
        " the names of Kafka's classes for them.",
        rule=all_of(not_empty, each_of("uniform", "range", *ASSIGNOR_CLASSES)),
    )
    group_consumer_migration_policy: str = string(
        "bidirectional",
        "Whether a group changes between the classic and the consumer protocol, and which way.",
        rule=one_of_any_case("disabled", "downgrade", "upgrade", "bidirectional"),
    )

    offset_metadata_max_bytes: int = int32(
        4096, "The longest note that may go with a committed offset."
    )
    offsets_commit_timeout_ms: int = int32(
        5000, "How long a commit waits for the replicas of the offsets topic.", rule=at_least(1)
    )
    offsets_retention_minutes: int = int32(
        10_080,
        "How long the offsets of a group are kept after its last member left.",
        rule=at_least(1),
    )
    offsets_retention_check_interval_ms: int = int64(
        600_000, "How often the broker looks for offsets that may go.", rule=at_least(1)
    )
    offsets_topic_num_partitions: int = int32(
        50,
        "How many partitions the offsets topic gets; never change it later.",
        rule=at_least(1),
    )
    offsets_topic_replication_factor: int = int16(
        3, "How many replicas the offsets topic gets.", rule=at_least(1)
    )
    offsets_topic_segment_bytes: int = int32(
        100 * 1024**2, "The size of the offsets topic's segments.", rule=at_least(1)
    )
    offsets_topic_compression_codec: int = int32(
        0,
        "The codec, by its number, in which committed offsets are stored.",
        rule=between(0, CODEC_MAX),
    )

    transaction_max_timeout_ms: int = int32(
        900_000, "The longest timeout that a transactional producer may ask for.", rule=at_least(1)
    )
    transaction_state_log_num_partitions: int = int32(
        50,
        "How many partitions the transaction topic gets; never change it later.",
        rule=at_least(1),
    )
    transaction_state_log_replication_factor: int = int16(
        3, "How many replicas the transaction topic gets.", rule=at_least(1)
    )
    transaction_state_log_min_isr: int = int32(
        2, "The min.insync.replicas of the transaction topic.", rule=at_least(1)
    )
    transaction_state_log_segment_bytes: int = int32(
        100 * 1024**2, "The size of the transaction topic's segments.", rule=at_least(1)
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = int32(
        10_000,
        "How often Kafka looks for transactions that timed out; pyk aborts each when it does.",
        rule=at_least(1),
        honoured=False,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = int32(
        3_600_000, "How often the broker looks for transactional ids to forget.", rule=at_least(1)
    )
    transaction_partition_verification_enable: bool = boolean(
        True,
        "Whether a transactional write is checked to belong to an open transaction.",
        update=CLUSTER_WIDE,
    )
    transaction_two_phase_commit_enable: bool = boolean(
        False, "Whether producers may have transactions that never time out.", honoured=False
    )
    transactional_id_expiration_ms: int = int32(
        7 * DAY_MS, "How long an unused transactional id is remembered.", rule=at_least(1)
    )
    producer_id_expiration_ms: int = int32(
        DAY_MS,
        "How long a partition remembers a producer that writes no more.",
        rule=at_least(1),
        update=CLUSTER_WIDE,
    )

    @property
    def consumer_assignors(self) -> tuple[str, ...]:
        """The assignors by their names, whichever way they were given."""
        return tuple(ASSIGNOR_CLASSES.get(each, each) for each in self.group_consumer_assignors)
