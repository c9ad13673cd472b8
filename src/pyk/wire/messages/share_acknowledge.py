"""ShareAcknowledge: say what became of acquired records."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, boolean, int8, int16, int32, int64, nested, string, uuid
from pyk.wire.message import message, struct


@struct
class AcknowledgementBatch:
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


@struct
class AcknowledgePartition:
    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@struct
class AcknowledgeTopic:
    topic_id: Uuid = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


@message(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeRequest:
    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean(versions="2+", default=False)
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch)


@struct
class ShareAcknowledgeTopicResponse:
    topic_id: Uuid = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message(api_key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32(versions="2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
