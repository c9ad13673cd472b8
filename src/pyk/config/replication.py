"""The broker's keys about replicas, leadership, quotas and the life of a cluster's member."""

from __future__ import annotations

from pyk.config.keys import CLUSTER_WIDE, Config, boolean, int32, int64, string
from pyk.config.rules import at_least


class ReplicationConfig(Config):
    default_replication_factor: int = int32(
        1, "How many replicas a topic gets that is created without a number."
    )
    min_insync_replicas: int = int32(
        1,
        "How many replicas must be in sync for a write with acks=all to be taken.",
        rule=at_least(1),
        update=CLUSTER_WIDE,
    )
    unclean_leader_election_enable: bool = boolean(
        False,
        "Whether a replica that is not in sync may lead when no other can, and records be lost.",
        update=CLUSTER_WIDE,
    )
    auto_leader_rebalance_enable: bool = boolean(
        True, "Whether leadership goes back to the preferred replicas by itself."
    )
    leader_imbalance_check_interval_seconds: int = int64(
        300, "How often the controller looks for leaders to move back.", rule=at_least(1)
    )
    controlled_shutdown_enable: bool = boolean(
        True, "Whether a broker that stops hands over its leaderships first."
    )

    replica_lag_time_max_ms: int = int64(
        30_000, "How long a follower may be behind before it is out of sync."
    )
    replica_fetch_max_bytes: int = int32(
        1024**2, "How much a follower asks for of one partition.", rule=at_least(0)
    )
    replica_fetch_response_max_bytes: int = int32(
        10 * 1024**2, "How much a follower asks for in all.", rule=at_least(0)
    )
    replica_fetch_min_bytes: int = int32(
        1, "How much must be there before a follower is answered at once."
    )
    replica_fetch_wait_max_ms: int = int32(
        500, "How long a follower's fetch waits for replica.fetch.min.bytes."
    )
    replica_fetch_backoff_ms: int = int32(
        1000, "How long a follower rests after a failed fetch.", rule=at_least(0)
    )
    replica_socket_timeout_ms: int = int32(
        30_000, "How long a follower waits for an answer of its leader."
    )
    replica_socket_receive_buffer_bytes: int = int32(
        64 * 1024, "The system's receive buffer of a follower's connection."
    )
    replica_high_watermark_checkpoint_interval_ms: int = int64(
        5000, "How often high watermarks are written down.", rule=at_least(1)
    )
    replica_selector_class: str | None = string(
        None, "The class that chooses which replica a consumer should read from.", honoured=False
    )
    num_replica_fetchers: int = int32(
        1,
        "How many connections fetch from each leader's broker.",
        rule=at_least(1),
        update=CLUSTER_WIDE,
    )

    broker_heartbeat_interval_ms: int = int32(2000, "How often a broker says that it is alive.")
    broker_session_timeout_ms: int = int32(
        9000, "How long a broker may be silent before the cluster goes on without it."
    )

    quota_window_num: int = int32(
        11, "Over how many windows the rates of client quotas are measured.", rule=at_least(1)
    )
    quota_window_size_seconds: int = int32(
        1, "How long each window of client quotas is.", rule=at_least(1)
    )
    replication_quota_window_num: int = int32(
        11,
        "Over how many windows the rates of throttled replicas are measured.",
        rule=at_least(1),
        honoured=False,
    )
    replication_quota_window_size_seconds: int = int32(
        1, "How long each window of throttled replicas is.", rule=at_least(1), honoured=False
    )
