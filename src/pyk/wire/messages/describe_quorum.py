"""DescribeQuorum: the state of the metadata quorum."""

from __future__ import annotations

from pyk.types import ZERO_UUID, Uuid
from pyk.wire.fields import array, int16, int32, int64, string, uint16, uuid
from pyk.wire.message import message, struct


@struct
class PartitionData:
    partition_index: int = int32()


@struct
class TopicData:
    topic_name: str = string()
    partitions: list[PartitionData] = array(PartitionData)


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumRequest:
    topics: list[TopicData] = array(TopicData)


@struct
class ReplicaState:
    replica_id: int = int32()
    replica_directory_id: Uuid = uuid(versions="2+", default=ZERO_UUID)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(versions="1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int = int64(versions="1+", default=-1, ignorable=True)


@struct
class PartitionQuorum:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(versions="2+", nullable="2+", default="", ignorable=True)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: list[ReplicaState] = array(ReplicaState)
    observers: list[ReplicaState] = array(ReplicaState)


@struct
class TopicQuorum:
    topic_name: str = string()
    partitions: list[PartitionQuorum] = array(PartitionQuorum)


@struct
class Listener:
    name: str = string(versions="2+", default="")
    host: str = string(versions="2+", default="")
    port: int = uint16(versions="2+", default=0)


@struct
class Node:
    node_id: int = int32(versions="2+", default=0)
    listeners: list[Listener] = array(Listener, versions="2+", default=[])


@message(api_key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse:
    error_code: int = int16(default=0)
    error_message: str | None = string(versions="2+", nullable="2+", default="", ignorable=True)
    topics: list[TopicQuorum] = array(TopicQuorum)
    nodes: list[Node] = array(Node, versions="2+", default=[])
