"""The records of consumer groups, as Kafka writes them."""

from __future__ import annotations

from collections.abc import Iterable

from pyk.coordinator.assigned import Partitions
from pyk.coordinator.consumer.member import Assigned, Member
from pyk.coordinator.machine import Record
from pyk.wire.payloads.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> Record:
    return Record(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def no_group(group_id: str) -> Record:
    return Record(ConsumerGroupMetadataKey(group_id=group_id), None)


def no_partition_metadata(group_id: str) -> Record:
    """Brokers before 4.1 wrote down what they knew of topics. The hash is enough."""
    return Record(ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def member_metadata(group_id: str, member: Member) -> Record:
    return Record(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def no_member_metadata(group_id: str, member_id: str) -> Record:
    return Record(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None)


def target(group_id: str, member_id: str, partitions: Partitions) -> Record:
    return Record(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                TopicPartition(topic_id=topic_id, partitions=sorted(numbers))
                for topic_id, numbers in partitions.items()
            ]
        ),
    )


def no_target(group_id: str, member_id: str) -> Record:
    key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return Record(key, None)


def target_epoch(group_id: str, epoch: int, timestamp: int) -> Record:
    return Record(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=timestamp
        ),
    )


def no_target_epoch(group_id: str) -> Record:
    return Record(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None)


def place(group_id: str, member: Member) -> Record:
    """A member's own epoch, and what it has."""
    return Record(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.epoch,
            previous_member_epoch=member.previous_epoch,
            state=member.state,
            assigned_partitions=_with_epochs(member.assigned),
            partitions_pending_revocation=_with_epochs(member.pending_revocation),
        ),
    )


def no_place(group_id: str, member_id: str) -> Record:
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return Record(key, None)


def no_member(group_id: str, member_id: str) -> list[Record]:
    return [
        no_place(group_id, member_id),
        no_target(group_id, member_id),
        no_member_metadata(group_id, member_id),
    ]


def matches(
    group_id: str, regex: str, topics: Iterable[str], version: int, timestamp: int
) -> Record:
    """The topics that match an expression, of those that there were at that time."""
    return Record(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(
            topics=sorted(topics), version=version, timestamp=timestamp
        ),
    )


def no_matches(group_id: str, regex: str) -> Record:
    key = ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)
    return Record(key, None)


def _with_epochs(assigned: Assigned) -> list[TopicPartitions]:
    return [
        TopicPartitions(
            topic_id=topic_id,
            partitions=(numbers := sorted(epochs)),
            assignment_epochs=[epochs[partition] for partition in numbers],
        )
        for topic_id, epochs in assigned.items()
    ]
