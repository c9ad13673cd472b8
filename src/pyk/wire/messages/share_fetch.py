"""ShareFetch: acquire records for a share group member, and acknowledge earlier ones on the way."""

from __future__ import annotations

from pyk.types import Records, Uuid
from pyk.wire.fields import array, boolean, int8, int16, int32, int64, nested, records, string, uuid
from pyk.wire.message import message, struct


@struct
class AcknowledgementBatch:
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array(int8)


@struct
class FetchPartition:
    partition_index: int = int32()
    partition_max_bytes: int = int32(versions="0", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


@struct
class FetchTopic:
    topic_id: Uuid = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


@struct
class ForgottenTopic:
    topic_id: Uuid = uuid()
    partitions: list[int] = array(int32)


@message(api_key=78, versions="1-2", flexible="0+")
class ShareFetchRequest:
    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8(versions="2+", default=0, ignorable=True)
    is_renew_ack: bool = boolean(versions="2+", default=False)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32()
    leader_epoch: int = int32()


@struct
class AcquiredRecords:
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


@struct
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = nested(LeaderIdAndEpoch)
    records: Records | None = records(nullable="0")
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


@struct
class ShareFetchableTopicResponse:
    topic_id: Uuid = uuid()
    partitions: list[PartitionData] = array(PartitionData)


@struct
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message(api_key=78, versions="1-2", flexible="0+")
class ShareFetchResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)
