"""Produce: append record batches to partitions."""

from __future__ import annotations

from pyk.types import ZERO_UUID, Records, Uuid
from pyk.wire.fields import array, int16, int32, int64, nested, records, string, uuid
from pyk.wire.message import message, struct


@struct
class PartitionProduceData:
    index: int = int32()
    records: Records | None = records(nullable="0+")


@struct
class TopicProduceData:
    name: str = string(versions="0-12", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceRequest:
    """Versions below 3 are advertised, since old librdkafka looks for them, but not served."""

    transactional_id: str | None = string(nullable="0+", default=None)
    acks: int = int16()
    """0: no answer at all. 1: once the leader has it. -1: once all in-sync replicas have it."""
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


@struct
class BatchIndexAndErrorMessage:
    batch_index: int = int32(versions="8+", default=0)
    batch_index_error_message: str | None = string(versions="8+", nullable="8+", default=None)


@struct
class LeaderIdAndEpoch:
    leader_id: int = int32(versions="10+", default=-1)
    leader_epoch: int = int32(versions="10+", default=-1)


@struct
class PartitionProduceResponse:
    index: int = int32()
    error_code: int = int16(default=0)
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1, ignorable=True)
    """-1 where the records keep the times that their producer gave them."""
    log_start_offset: int = int64(versions="5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = array(
        BatchIndexAndErrorMessage, versions="8+", default=[], ignorable=True
    )
    error_message: str | None = string(versions="8+", nullable="8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = nested(
        LeaderIdAndEpoch, versions="10+", factory=LeaderIdAndEpoch, tag=0
    )


@struct
class TopicProduceResponse:
    name: str = string(versions="0-12", default="", ignorable=True)
    topic_id: Uuid = uuid(versions="13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


@struct
class NodeEndpoint:
    node_id: int = int32(versions="10+", default=0)
    host: str = string(versions="10+", default="")
    port: int = int32(versions="10+", default=0)
    rack: str | None = string(versions="10+", nullable="10+", default=None)


@message(api_key=0, versions="3-13", flexible="9+")
class ProduceResponse:
    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32(default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="10+", default=[], tag=0)
