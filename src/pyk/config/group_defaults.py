"""The broker's keys about share and streams groups: what such a group has that nobody configured,
and what its own configuration may be.

pyk has no streams groups. It keeps their configurations, and judges them by these.
"""

from __future__ import annotations

from pyk.config.keys import CLUSTER_WIDE, Config, int32
from pyk.config.rules import at_least, between


class GroupDefaultsConfig(Config):
    group_share_session_timeout_ms: int = int32(
        45_000,
        "How long a member of a share group may be silent before it is out.",
        rule=at_least(1),
    )
    group_share_min_session_timeout_ms: int = int32(
        45_000,
        "The least that a share group's own session timeout may be.",
        rule=at_least(1),
    )
    group_share_max_session_timeout_ms: int = int32(
        60_000,
        "The most that a share group's own session timeout may be.",
        rule=at_least(1),
    )
    group_share_heartbeat_interval_ms: int = int32(
        5000,
        "How often members of a share group are told to report.",
        rule=at_least(1),
    )
    group_share_min_heartbeat_interval_ms: int = int32(
        5000,
        "The least that a share group's own heartbeat interval may be.",
        rule=at_least(1),
    )
    group_share_max_heartbeat_interval_ms: int = int32(
        15_000,
        "The most that a share group's own heartbeat interval may be.",
        rule=at_least(1),
    )
    group_share_assignment_interval_ms: int = int32(
        1000,
        "How long a share group keeps an assignment before it gets a new one.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
    group_share_min_assignment_interval_ms: int = int32(
        0,
        "The least that a share group's own assignment interval may be.",
        rule=at_least(0),
    )
    group_share_max_assignment_interval_ms: int = int32(
        15_000,
        "The most that a share group's own assignment interval may be.",
        rule=at_least(0),
    )
    group_share_max_size: int = int32(
        200, "How many members a share group may have.", rule=between(1, 1000)
    )
    group_share_record_lock_duration_ms: int = int32(
        30_000,
        "How long a record is a share group member's alone.",
        rule=between(1000, 3_600_000),
    )
    group_share_min_record_lock_duration_ms: int = int32(
        15_000,
        "The least that a group's own lock duration may be.",
        rule=between(1000, 30_000),
    )
    group_share_max_record_lock_duration_ms: int = int32(
        60_000,
        "The most that a group's own lock duration may be.",
        rule=between(30_000, 3_600_000),
    )
    group_share_delivery_count_limit: int = int32(
        5,
        "How many times a record is offered to a share group.",
        rule=between(2, 10),
    )
    group_share_min_delivery_count_limit: int = int32(
        2,
        "The least that a group's own delivery limit may be.",
        rule=between(2, 5),
    )
    group_share_max_delivery_count_limit: int = int32(
        10,
        "The most that a group's own delivery limit may be.",
        rule=between(5, 25),
    )
    group_share_partition_max_record_locks: int = int32(
        2000,
        "How many records of a partition may be locked for a share group.",
        rule=between(100, 10_000),
    )
    group_share_min_partition_max_record_locks: int = int32(
        100,
        "The least that a group's own number of locks may be.",
        rule=between(100, 2000),
    )
    group_share_max_partition_max_record_locks: int = int32(
        4000,
        "The most that a group's own number of locks may be.",
        rule=between(2000, 10_000),
    )

    group_streams_session_timeout_ms: int = int32(
        45_000,
        "How long a member of a streams group may be silent before it is out.",
        rule=at_least(1),
        honoured=False,
    )
    group_streams_min_session_timeout_ms: int = int32(
        45_000,
        "The least that a streams group's own session timeout may be.",
        rule=at_least(1),
        honoured=False,
    )
    group_streams_max_session_timeout_ms: int = int32(
        60_000,
        "The most that a streams group's own session timeout may be.",
        rule=at_least(1),
        honoured=False,
    )
    group_streams_heartbeat_interval_ms: int = int32(
        5000,
        "How often members of a streams group are told to report.",
        rule=at_least(1),
        honoured=False,
    )
    group_streams_min_heartbeat_interval_ms: int = int32(
        5000,
        "The least that a streams group's own heartbeat interval may be.",
        rule=at_least(1),
        honoured=False,
    )
    group_streams_max_heartbeat_interval_ms: int = int32(
        15_000,
        "The most that a streams group's own heartbeat interval may be.",
        rule=at_least(1),
        honoured=False,
    )
    group_streams_assignment_interval_ms: int = int32(
        1000,
        "How long a streams group keeps an assignment before it gets a new one.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
        honoured=False,
    )
    group_streams_min_assignment_interval_ms: int = int32(
        0,
        "The least that a streams group's own assignment interval may be.",
        rule=at_least(0),
        honoured=False,
    )
    group_streams_max_assignment_interval_ms: int = int32(
        15_000,
        "The most that a streams group's own assignment interval may be.",
        rule=at_least(0),
        honoured=False,
    )
    group_streams_num_standby_replicas: int = int32(
        0,
        "How many standby copies each task of a streams group has.",
        rule=at_least(0),
        honoured=False,
    )
    group_streams_max_standby_replicas: int = int32(
        2,
        "The most that a group's own number of standby copies may be.",
        rule=at_least(0),
        honoured=False,
    )
    group_streams_initial_rebalance_delay_ms: int = int32(
        3000,
        "How long an empty streams group waits for more members before its first rebalance.",
        rule=at_least(0),
        honoured=False,
    )
