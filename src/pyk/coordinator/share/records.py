"""The records of share groups, as Kafka writes them."""

from __future__ import annotations

from pyk.coordinator.assigned import Partitions
from pyk.coordinator.machine import Record
from pyk.coordinator.share.member import STABLE, Member
from pyk.coordinator.share.partitions import ByTopic, SharePartitions
from pyk.wire.payloads.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TopicInfo,
    TopicPartition,
    TopicPartitions,
    TopicPartitionsInfo,
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return Record(
        ShareGroupMetadataKey(group_id=group_id),
        ShareGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def no_group(group_id: str) -> Record:
    return Record(ShareGroupMetadataKey(group_id=group_id), None)


def member_metadata(group_id: str, member: Member) -> Record:
    return Record(
        ShareGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
        ),
    )


def no_member_metadata(group_id: str, member_id: str) -> Record:
    return Record(ShareGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def target(group_id: str, member_id: str, partitions: Partitions) -> Record:
    return Record(
        ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ShareGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=sorted(numbers))
                for topic_id, numbers in partitions.items()
            ]
        ),
    )


def no_target(group_id: str, member_id: str) -> Record:
    key = ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return Record(key, None)


def target_epoch(group_id: str, epoch: int, timestamp: int) -> Record:
    return Record(
        ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
        ShareGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp
        ),
    )


def no_target_epoch(group_id: str) -> Record:
    return Record(ShareGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def place(group_id: str, member: Member) -> Record:
    """A member's own epoch, and what it has."""
    return Record(
        ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=STABLE,
            assigned_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
                for topic_id, numbers in member.assigned.items()
            ],
        ),
    )


def no_place(group_id: str, member_id: str) -> Record:
    key = ShareGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return Record(key, None)


def no_member(group_id: str, member_id: str) -> list[Record]:
    return [
        no_place(group_id, member_id),
        no_target(group_id, member_id),
        no_member_metadata(group_id, member_id),
    ]


def share_partitions(group_id: str, partitions: SharePartitions) -> Record:
    return Record(
        ShareGroupStatePartitionMetadataKey(group_id=group_id),
        ShareGroupStatePartitionMetadataValue(
            initializing_topics=_listed(partitions.initializing),
            initialized_topics=_listed(partitions.initialized),
            deleting_topics=[
                TopicInfo(topic_id=topic_id, topic_name=name)
                for topic_id, name in partitions.deleting.items()
            ],
        ),
    )


def no_share_partitions(group_id: str) -> Record:
    return Record(ShareGroupStatePartitionMetadataKey(group_id=group_id), None)


def _listed(topics: ByTopic) -> list[TopicPartitionsInfo]:
    return [
        TopicPartitionsInfo(
            topic_id=topic_id, topic_name=known.name, partitions=sorted(known.partitions)
        )
        for topic_id, known in topics.items()
    ]
