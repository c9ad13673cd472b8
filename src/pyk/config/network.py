"""The broker's keys about who it is, where it listens and what it takes from one connection."""

from __future__ import annotations

from pyk.config.keys import CLUSTER_WIDE, Config, int32, int64, names, string
from pyk.config.rules import at_least, not_empty
from pyk.config.values import INT_MAX


class NetworkConfig(Config):
    node_id: int = int32(
        1,
        "The number by which clients and other brokers know this one.",
        rule=at_least(0),
    )
    """Kafka has no default. pyk has, because it starts with nothing to configure."""
    broker_id: int = int32(-1, "The older name of node.id, which follows it.")
    broker_rack: str | None = string(
        None, "The rack or zone of this broker, for spreading replicas and for near-by reading."
    )

    listeners: tuple[str, ...] = names(
        ("PLAINTEXT://:9092",),
        "Where the broker listens, as NAME://host:port; without a host it is every address.",
        rule=not_empty,
    )
    """Kafka can change this at run time, and the protocols. pyk listens where it began to."""
    advertised_listeners: tuple[str, ...] | None = names(
        None,
        "Where clients are told to connect, if not where the broker listens.",
        rule=not_empty,
    )
    listener_security_protocol_map: str = string(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which security protocol each listener's name stands for.",
    )
    inter_broker_listener_name: str | None = string(
        None, "The listener on which the brokers of a cluster talk to each other."
    )

    max_connections: int = int32(
        INT_MAX,
        "How many connections the broker holds at once.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
    max_connections_per_ip: int = int32(
        INT_MAX,
        "How many connections one address may hold at once.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
    )
    max_connections_per_ip_overrides: str = string(
        "",
        "Other limits than max.connections.per.ip for some hosts, as host:number with commas.",
        update=CLUSTER_WIDE,
    )
    max_connection_creation_rate: int = int32(
        INT_MAX,
        "How many connections the broker accepts in a second.",
        rule=at_least(0),
        update=CLUSTER_WIDE,
        honoured=False,
    )
    connections_max_idle_ms: int = int64(
        600_000,
        "How long a connection may be silent before the broker closes it; below 0 is for ever.",
    )
    connections_max_reauth_ms: int = int64(
        0,
        "How long an authenticated connection lasts before it must prove itself again; 0 is for "
        "ever.",
        honoured=False,
    )
    connection_failed_authentication_delay_ms: int = int32(
        100,
        "How long the answer to a failed authentication is held back.",
        rule=at_least(0),
        honoured=False,
    )

    socket_request_max_bytes: int = int32(
        100 * 1024**2, "The largest request that is read.", rule=at_least(1)
    )
    socket_receive_buffer_bytes: int = int32(
        100 * 1024, "The system's receive buffer of a connection; -1 leaves it to the system."
    )
    socket_send_buffer_bytes: int = int32(
        100 * 1024, "The system's send buffer of a connection; -1 leaves it to the system."
    )
    socket_listen_backlog_size: int = int32(
        50, "How many connections may wait to be accepted.", rule=at_least(1)
    )
    queued_max_requests: int = int32(
        500,
        "How many requests may wait for a thread before reading stops.",
        rule=at_least(1),
        honoured=False,
    )
    queued_max_request_bytes: int = int64(
        -1, "How many bytes of requests may be in memory at once; -1 is without limit."
    )
    request_timeout_ms: int = int32(
        30_000, "How long the broker waits for the answer to a request of its own."
    )
    fetch_max_bytes: int = int32(
        55 * 1024**2,
        "The most that one answer to a fetch holds, whatever the client asks for.",
        rule=at_least(1024),
    )
    max_incremental_fetch_session_cache_slots: int = int32(
        1000, "How many fetch sessions are remembered at once.", rule=at_least(0)
    )
    max_request_partition_size_limit: int = int32(
        2000,
        "The most partitions that one page of DescribeTopicPartitions holds.",
        rule=at_least(1),
    )

    num_network_threads: int = int32(
        3,
        "How many threads serve the connections of a listener; pyk serves all from one.",
        rule=at_least(1),
        update=CLUSTER_WIDE,
        honoured=False,
    )
    num_io_threads: int = int32(
        8,
        "How many threads carry out requests; pyk needs none.",
        rule=at_least(1),
        update=CLUSTER_WIDE,
        honoured=False,
    )
    background_threads: int = int32(
        10,
        "How many threads do what is not urgent; pyk has its own measure.",
        rule=at_least(1),
        update=CLUSTER_WIDE,
        honoured=False,
    )
