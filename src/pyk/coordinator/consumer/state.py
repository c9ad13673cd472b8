"""How the records of consumer groups become consumer groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyk.coordinator.assigned import FIRST_EPOCH, NEVER
from pyk.coordinator.consumer.group import ConsumerGroup
from pyk.coordinator.consumer.member import Member
from pyk.coordinator.consumer.regular_expressions import Matches
from pyk.coordinator.group import Group
from pyk.coordinator.machine import Record
from pyk.wire.payloads.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


def apply(groups: dict[str, Group], record: Record) -> None:
    """Take a record into the group that it is of, which comes with the first and goes with the
    tombstone of its epoch. Other records are somebody else's."""
    take = _APPLY.get(type(record.key))
    if take is None:
        return
    group_id = record.key.group_id
    group = groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        if record.value is None:
            return
        group = groups[group_id] = ConsumerGroup(group_id)
    take(group, record.key, record.value)
    if isinstance(record.key, ConsumerGroupMetadataKey) and record.value is None:
        del groups[group_id]


def _apply_epoch(
    group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None
) -> None:
    if value is not None:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _apply_partition_metadata(
    group: ConsumerGroup,
    key: ConsumerGroupPartitionMetadataKey,
    value: ConsumerGroupPartitionMetadataValue | None,
) -> None:
    group.has_partition_metadata = value is not None


def _apply_member(
    group: ConsumerGroup,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue | None,
) -> None:
    if value is None:
        group.remove_member(key.member_id)
    else:
        group.update_member(_member(group, key.member_id).described_by(value))


def _apply_target_epoch(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
) -> None:
    group.target_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
    group.target_timestamp = NEVER if value is None else value.assignment_timestamp


def _apply_target(
    group: ConsumerGroup,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = {
            topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
        }


def _apply_place(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    if value is not None:
        group.update_member(_member(group, key.member_id).placed_by(value))
    elif key.member_id in group.members:
        group.update_member(group.members[key.member_id].displaced())


def _apply_matches(
    group: ConsumerGroup,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
) -> None:
    if value is None:
        group.matches.pop(key.regular_expression, None)
    else:
        matches = Matches(frozenset(value.topics), value.version, value.timestamp)
        group.matches[key.regular_expression] = matches


def _member(group: ConsumerGroup, member_id: str) -> Member:
    return group.members.get(member_id) or Member(member_id=member_id)


_APPLY: dict[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupMetadataKey: _apply_epoch,
    ConsumerGroupPartitionMetadataKey: _apply_partition_metadata,
    ConsumerGroupMemberMetadataKey: _apply_member,
    ConsumerGroupTargetAssignmentMetadataKey: _apply_target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _apply_target,
    ConsumerGroupCurrentMemberAssignmentKey: _apply_place,
    ConsumerGroupRegularExpressionKey: _apply_matches,
}
