"""The APIs of Kafka's protocol: their keys, and the messages that belong to each.

A message module is imported when its API is first asked for: a broker that has just started has
not paid for the eighty that nobody has called yet.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from importlib import import_module

from pyk.types import Versions


class ApiKey(IntEnum):
    """Every key that Apache Kafka 4.3 knows."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


UNDECLARED = {
    ApiKey.LEADER_AND_ISR: "removed in Kafka 4.0",
    ApiKey.STOP_REPLICA: "removed in Kafka 4.0",
    ApiKey.UPDATE_METADATA: "removed in Kafka 4.0",
    ApiKey.CONTROLLED_SHUTDOWN: "removed in Kafka 4.0",
    ApiKey.VOTE: "KRaft quorum",
    ApiKey.BEGIN_QUORUM_EPOCH: "KRaft quorum",
    ApiKey.END_QUORUM_EPOCH: "KRaft quorum",
    ApiKey.ALTER_PARTITION: "broker to KRaft controller",
    ApiKey.ENVELOPE: "broker to KRaft controller",
    ApiKey.FETCH_SNAPSHOT: "KRaft quorum",
    ApiKey.BROKER_REGISTRATION: "broker to KRaft controller",
    ApiKey.BROKER_HEARTBEAT: "broker to KRaft controller",
    ApiKey.ALLOCATE_PRODUCER_IDS: "broker to KRaft controller",
    ApiKey.CONTROLLER_REGISTRATION: "KRaft quorum",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "broker to KRaft controller",
    ApiKey.UPDATE_RAFT_VOTER: "KRaft quorum",
}
"""Keys without messages here, and why: pyk keeps its metadata in etcd or in an embedded store."""

_ADVERTISED = {
    ApiKey.PRODUCE: "0-13",
    ApiKey.FETCH: "4-18",
    ApiKey.LIST_OFFSETS: "1-11",
    ApiKey.METADATA: "0-13",
    ApiKey.OFFSET_COMMIT: "2-10",
    ApiKey.OFFSET_FETCH: "1-10",
    ApiKey.FIND_COORDINATOR: "0-6",
    ApiKey.JOIN_GROUP: "0-9",
    ApiKey.HEARTBEAT: "0-4",
    ApiKey.LEAVE_GROUP: "0-5",
    ApiKey.SYNC_GROUP: "0-5",
    ApiKey.DESCRIBE_GROUPS: "0-6",
    ApiKey.LIST_GROUPS: "0-5",
    ApiKey.SASL_HANDSHAKE: "0-1",
    ApiKey.API_VERSIONS: "0-4",
    ApiKey.CREATE_TOPICS: "2-7",
    ApiKey.DELETE_TOPICS: "1-6",
    ApiKey.DELETE_RECORDS: "0-2",
    ApiKey.INIT_PRODUCER_ID: "0-5",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "2-4",
    ApiKey.ADD_PARTITIONS_TO_TXN: "0-5",
    ApiKey.ADD_OFFSETS_TO_TXN: "0-4",
    ApiKey.END_TXN: "0-5",
    ApiKey.WRITE_TXN_MARKERS: "1-2",
    ApiKey.TXN_OFFSET_COMMIT: "0-5",
    ApiKey.DESCRIBE_ACLS: "1-3",
    ApiKey.CREATE_ACLS: "1-3",
    ApiKey.DELETE_ACLS: "1-3",
    ApiKey.DESCRIBE_CONFIGS: "1-4",
    ApiKey.ALTER_CONFIGS: "0-2",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "1-2",
    ApiKey.DESCRIBE_LOG_DIRS: "1-5",
    ApiKey.SASL_AUTHENTICATE: "0-2",
    ApiKey.CREATE_PARTITIONS: "0-3",
    ApiKey.CREATE_DELEGATION_TOKEN: "1-3",
    ApiKey.RENEW_DELEGATION_TOKEN: "1-2",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "1-2",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "1-3",
    ApiKey.DELETE_GROUPS: "0-2",
    ApiKey.ELECT_LEADERS: "0-2",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "0-1",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "0-1",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "0",
    ApiKey.OFFSET_DELETE: "0",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "0-1",
    ApiKey.ALTER_CLIENT_QUOTAS: "0-1",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "0",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "0",
    ApiKey.DESCRIBE_QUORUM: "0-2",
    ApiKey.UPDATE_FEATURES: "0-2",
    ApiKey.DESCRIBE_CLUSTER: "0-2",
    ApiKey.DESCRIBE_PRODUCERS: "0",
    ApiKey.UNREGISTER_BROKER: "0",
    ApiKey.DESCRIBE_TRANSACTIONS: "0",
    ApiKey.LIST_TRANSACTIONS: "0-2",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "0-1",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "0-1",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "0",
    ApiKey.PUSH_TELEMETRY: "0",
    ApiKey.LIST_CONFIG_RESOURCES: "0-1",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "0",
    ApiKey.SHARE_GROUP_HEARTBEAT: "1",
    ApiKey.SHARE_GROUP_DESCRIBE: "1",
    ApiKey.SHARE_FETCH: "1-2",
    ApiKey.SHARE_ACKNOWLEDGE: "1-2",
    ApiKey.ADD_RAFT_VOTER: "0-1",
    ApiKey.REMOVE_RAFT_VOTER: "0",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "0",
    ApiKey.READ_SHARE_GROUP_STATE: "0",
    ApiKey.WRITE_SHARE_GROUP_STATE: "0-1",
    ApiKey.DELETE_SHARE_GROUP_STATE: "0",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "0-1",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "0",
    ApiKey.STREAMS_GROUP_DESCRIBE: "0",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "0-1",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "0",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "0",
}


def advertised(key: ApiKey) -> Versions:
    """What ApiVersions tells clients of it. That is wider than what is answered where old clients
    look for more, and narrower where a version is not stable yet."""
    return Versions.parse(_ADVERTISED[key])


@cache
def request_type(key: ApiKey) -> type:
    return _message(key, "Request")


@cache
def response_type(key: ApiKey) -> type:
    return _message(key, "Response")


def api_name(key: ApiKey) -> str:
    """As Kafka writes it."""
    return key.name.title().replace("_", "")


def _message(key: ApiKey, suffix: str) -> type:
    module = import_module(f"pyk.wire.messages.{key.name.lower()}")
    declared: type = getattr(module, api_name(key) + suffix)
    return declared
