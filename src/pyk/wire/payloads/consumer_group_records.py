"""KIP-848 consumer groups on `__consumer_offsets`."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, bytes_, int8, int32, int64, nested, string, uuid
from pyk.wire.message import message, struct


@message(record_type=3, versions="0")
class ConsumerGroupMetadataKey:
    group_id: str = string()


@message(record_type=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue:
    epoch: int = int32()
    metadata_hash: int = int64(default=0, tag=0)


@message(record_type=4, versions="0")
class ConsumerGroupPartitionMetadataKey:
    group_id: str = string()


@struct
class PartitionMetadata:
    partition: int = int32()
    racks: list[str] = array(string)


@struct
class TopicMetadata:
    topic_id: Uuid = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


@message(record_type=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue:
    topics: list[TopicMetadata] = array(TopicMetadata)


@message(record_type=5, versions="0")
class ConsumerGroupMemberMetadataKey:
    group_id: str = string()
    member_id: str = string()


@struct
class ClassicProtocol:
    name: str = string()
    metadata: bytes = bytes_()


@struct
class ClassicMemberMetadata:
    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


@message(record_type=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = nested(
        ClassicMemberMetadata, nullable="0+", factory=ClassicMemberMetadata, tag=0
    )


@message(record_type=6, versions="0")
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: str = string()


@message(record_type=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(default=0, tag=0, ignorable=True)


@message(record_type=7, versions="0")
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartition:
    topic_id: Uuid = uuid()
    partitions: list[int] = array(int32)


@message(record_type=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = array(TopicPartition)


@message(record_type=8, versions="0")
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartitions:
    topic_id: Uuid = uuid()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", default=[], tag=0)


@message(record_type=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)


@message(record_type=16, versions="0")
class ConsumerGroupRegularExpressionKey:
    group_id: str = string()
    regular_expression: str = string()


@message(record_type=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue:
    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()
