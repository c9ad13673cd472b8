"""Fetch: read record batches, as a consumer or as a replica that follows its leader."""

from __future__ import annotations

from pyk.types import ZERO_UUID, Records, Uuid
from pyk.wire.fields import array, int8, int16, int32, int64, nested, records, string, uuid
from pyk.wire.message import message, struct


@struct
class ReplicaState:
    replica_id: int = int32(versions="15+", default=-1)
    replica_epoch: int = int64(versions="15+", default=-1)


@struct
class FetchPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(versions="9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    """The batch that holds it is returned whole, so earlier records may come too."""
    last_fetched_epoch: int = int32(versions="12+", default=-1)
    """Of the last record that the reader has: shows the leader where logs part (KIP-595)."""
    log_start_offset: int = int64(versions="5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: Uuid = uuid(versions="17+", default=ZERO_UUID, tag=0, ignorable=True)
    high_watermark: int = int64(versions="18+", default=2**63 - 1, tag=1, ignorable=True)


@struct
class FetchTopic:
    topic: str = string(versions="0-12", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic:
    topic: str = string(versions="7-12", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[int] = array(int32, versions="7+", default=[])


@message(api_key=1, versions="4-18", flexible="12+")
class FetchRequest:
    cluster_id: str | None = string(
        versions="12+", nullable="12+", default=None, tag=0, ignorable=True
    )
    replica_id: int = int32(versions="0-14", default=-1)
    """-1 for consumers. Since v15 it is in `replica_state`."""
    replica_state: ReplicaState = nested(ReplicaState, versions="15+", factory=ReplicaState, tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1, ignorable=True)
    isolation_level: int = int8(default=0, ignorable=True)
    session_id: int = int32(versions="7+", default=0, ignorable=True)
    session_epoch: int = int32(versions="7+", default=-1, ignorable=True)
    """0 opens a session, -1 means none or closes one, else it counts on (KIP-227)."""
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, versions="7+", default=[])
    rack_id: str = string(versions="11+", default="", ignorable=True)


@struct
class EpochEndOffset:
    epoch: int = int32(versions="12+", default=-1)
    end_offset: int = int64(versions="12+", default=-1)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32(versions="12+", default=-1)
    leader_epoch: int = int32(versions="12+", default=-1)


@struct
class SnapshotId:
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@struct
class AbortedTransaction:
    producer_id: int = int64()
    first_offset: int = int64()


@struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1, ignorable=True)
    log_start_offset: int = int64(versions="5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = nested(
        EpochEndOffset, versions="12+", factory=EpochEndOffset, tag=0
    )
    """Where the reader's log leaves the leader's, if it does."""
    current_leader: LeaderIdAndEpoch = nested(
        LeaderIdAndEpoch, versions="12+", factory=LeaderIdAndEpoch, tag=1
    )
    snapshot_id: SnapshotId = nested(SnapshotId, versions="12+", factory=SnapshotId, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, nullable="0+", default=[], ignorable=True
    )
    """None for readers that do not mind uncommitted records."""
    preferred_read_replica: int = int32(versions="11+", default=-1)
    records: Records | None = records(nullable="0+")


@struct
class FetchableTopicResponse:
    topic: str = string(versions="0-12", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint:
    node_id: int = int32(versions="16+", default=0)
    host: str = string(versions="16+", default="")
    port: int = int32(versions="16+", default=0)
    rack: str | None = string(versions="16+", nullable="16+", default=None)


@message(api_key=1, versions="4-18", flexible="12+")
class FetchResponse:
    throttle_time_ms: int = int32(default=0, ignorable=True)
    error_code: int = int16(versions="7+", default=0, ignorable=True)
    session_id: int = int32(versions="7+", default=0)
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="16+", default=[], tag=0)
