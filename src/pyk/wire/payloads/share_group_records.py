"""Share groups on `__consumer_offsets`: membership and assignment, not the records' state."""

from __future__ import annotations

from pyk.types import Uuid
from pyk.wire.fields import array, int8, int32, int64, string, uuid
from pyk.wire.message import message, struct


@message(record_type=10, versions="0")
class ShareGroupMemberMetadataKey:
    group_id: str = string()
    member_id: str = string()


@message(record_type=10, versions="0", flexible="0+")
class ShareGroupMemberMetadataValue:
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)


@message(record_type=11, versions="0")
class ShareGroupMetadataKey:
    group_id: str = string()


@message(record_type=11, versions="0", flexible="0+")
class ShareGroupMetadataValue:
    epoch: int = int32()
    metadata_hash: int = int64()


@message(record_type=12, versions="0")
class ShareGroupTargetAssignmentMetadataKey:
    group_id: str = string()


@message(record_type=12, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(default=0, tag=0, ignorable=True)


@message(record_type=13, versions="0")
class ShareGroupTargetAssignmentMemberKey:
    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartition:
    topic_id: Uuid = uuid()
    partitions: list[int] = array(int32)


@message(record_type=13, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue:
    topic_partitions: list[TopicPartition] = array(TopicPartition)


@message(record_type=14, versions="0")
class ShareGroupCurrentMemberAssignmentKey:
    group_id: str = string()
    member_id: str = string()


@struct
class TopicPartitions:
    topic_id: Uuid = uuid()
    partitions: list[int] = array(int32)


@message(record_type=14, versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)


@message(record_type=15, versions="0")
class ShareGroupStatePartitionMetadataKey:
    group_id: str = string()


@struct
class TopicPartitionsInfo:
    topic_id: Uuid = uuid()
    topic_name: str = string()
    partitions: list[int] = array(int32)


@struct
class TopicInfo:
    topic_id: Uuid = uuid()
    topic_name: str = string()


@message(record_type=15, versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue:
    initializing_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    initialized_topics: list[TopicPartitionsInfo] = array(TopicPartitionsInfo)
    deleting_topics: list[TopicInfo] = array(TopicInfo)
