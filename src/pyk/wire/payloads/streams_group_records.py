"""Streams groups on `__consumer_offsets`."""

from __future__ import annotations

from pyk.wire.fields import array, int8, int16, int32, int64, nested, string, uint16
from pyk.wire.message import message, struct


@message(record_type=17, versions="0")
class StreamsGroupMetadataKey:
    group_id: str = string()


@struct
class LastAssignmentConfig:
    key: str = string()
    value: str = string()


@message(record_type=17, versions="0", flexible="0+")
class StreamsGroupMetadataValue:
    epoch: int = int32()
    metadata_hash: int = int64()
    validated_topology_epoch: int = int32(default=-1, tag=0)
    last_assignment_configs: list[LastAssignmentConfig] | None = array(
        LastAssignmentConfig, nullable="0+", default=[], tag=1
    )


@message(record_type=19, versions="0")
class StreamsGroupMemberMetadataKey:
    group_id: str = string()
    member_id: str = string()


@struct
class Endpoint:
    host: str = string()
    port: int = uint16()


@struct
class KeyValue:
    key: str = string()
    value: str = string()


@message(record_type=19, versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue:
    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout_ms: int = int32(default=-1)
    topology_epoch: int = int32()
    process_id: str = string()
    user_endpoint: Endpoint | None = nested(Endpoint, nullable="0+", default=None)
    client_tags: list[KeyValue] = array(KeyValue)


@message(record_type=20, versions="0")
class StreamsGroupTargetAssignmentMetadataKey:
    group_id: str = string()


@message(record_type=20, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue:
    assignment_epoch: int = int32()
    assignment_timestamp: int = int64(default=0, tag=0, ignorable=True)


@message(record_type=21, versions="0")
class StreamsGroupTargetAssignmentMemberKey:
    group_id: str = string()
    member_id: str = string()


@struct
class TargetTaskIds:
    subtopology_id: str = string()
    partitions: list[int] = array(int32)


@message(record_type=21, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue:
    active_tasks: list[TargetTaskIds] = array(TargetTaskIds)
    standby_tasks: list[TargetTaskIds] = array(TargetTaskIds)
    warmup_tasks: list[TargetTaskIds] = array(TargetTaskIds)


@message(record_type=22, versions="0")
class StreamsGroupCurrentMemberAssignmentKey:
    group_id: str = string()
    member_id: str = string()


@struct
class CurrentTaskIds:
    subtopology_id: str = string()
    partitions: list[int] = array(int32)
    assignment_epochs: list[int] | None = array(int32, nullable="0+", default=[], tag=0)


@message(record_type=22, versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue:
    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()
    active_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks: list[CurrentTaskIds] = array(CurrentTaskIds)
    active_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    standby_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)
    warmup_tasks_pending_revocation: list[CurrentTaskIds] = array(CurrentTaskIds)


@message(record_type=23, versions="0")
class StreamsGroupTopologyKey:
    group_id: str = string()


@struct
class TopicConfig:
    key: str = string()
    value: str = string()


@struct
class TopicInfo:
    name: str = string()
    partitions: int = int32()
    replication_factor: int = int16()
    topic_configs: list[TopicConfig] = array(TopicConfig)


@struct
class CopartitionGroup:
    source_topics: list[int] = array(int16)
    source_topic_regex: list[int] = array(int16)
    repartition_source_topics: list[int] = array(int16)


@struct
class Subtopology:
    subtopology_id: str = string()
    source_topics: list[str] = array(string)
    source_topic_regex: list[str] = array(string)
    state_changelog_topics: list[TopicInfo] = array(TopicInfo)
    repartition_sink_topics: list[str] = array(string)
    repartition_source_topics: list[TopicInfo] = array(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array(CopartitionGroup)


@message(record_type=23, versions="0", flexible="0+")
class StreamsGroupTopologyValue:
    epoch: int = int32()
    subtopologies: list[Subtopology] = array(Subtopology)
