"""How the records of share groups become share groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from pyk.coordinator.assigned import FIRST_EPOCH, NEVER
from pyk.coordinator.group import Group
from pyk.coordinator.machine import Record
from pyk.coordinator.share.group import ShareGroup
from pyk.coordinator.share.member import Member
from pyk.coordinator.share.partitions import Known, SharePartitions
from pyk.types import Uuid
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
    TopicPartitionsInfo,
)


def apply(groups: dict[str, Group], record: Record) -> bool:
    """Take a record into the group that it is of, which comes with the first and goes with the
    tombstone of its epoch. Whether it is such a record."""
    take = _APPLY.get(type(record.key))
    if take is None:
        return False
    group_id = record.key.group_id
    group = groups.get(group_id)
    if not isinstance(group, ShareGroup):
        if record.value is None:
            return True
        group = groups[group_id] = ShareGroup(group_id)
    take(group, record.key, record.value)
    if isinstance(record.key, ShareGroupMetadataKey) and record.value is None:
        del groups[group_id]
    return True


def _apply_epoch(
    group: ShareGroup, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue | None
) -> None:
    if value is not None:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash


def _apply_member(
    group: ShareGroup,
    key: ShareGroupMemberMetadataKey,
    value: ShareGroupMemberMetadataValue | None,
) -> None:
    if value is None:
        group.remove_member(key.member_id)
    else:
        group.update_member(_member(group, key.member_id).described_by(value))


def _apply_target_epoch(
    group: ShareGroup,
    key: ShareGroupTargetAssignmentMetadataKey,
    value: ShareGroupTargetAssignmentMetadataValue | None,
) -> None:
    group.target_epoch = FIRST_EPOCH if value is None else value.assignment_epoch
    group.target_timestamp = NEVER if value is None else value.assignment_timestamp
    group.has_new_partitions = False


def _apply_target(
    group: ShareGroup,
    key: ShareGroupTargetAssignmentMemberKey,
    value: ShareGroupTargetAssignmentMemberValue | None,
) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    else:
        group.targets[key.member_id] = {
            topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions
        }


def _apply_place(
    group: ShareGroup,
    key: ShareGroupCurrentMemberAssignmentKey,
    value: ShareGroupCurrentMemberAssignmentValue | None,
) -> None:
    if value is not None:
        group.update_member(_member(group, key.member_id).placed_by(value))
    elif key.member_id in group.members:
        group.update_member(group.members[key.member_id].displaced())


def _apply_partitions(
    group: ShareGroup,
    key: ShareGroupStatePartitionMetadataKey,
    value: ShareGroupStatePartitionMetadataValue | None,
) -> None:
    group.refreshed_at, group.may_lack_partitions = None, True
    if value is None:
        group.partitions = None
        return
    before, group.partitions = (
        group.share_partitions,
        SharePartitions(
            _by_topic(value.initializing_topics),
            _by_topic(value.initialized_topics),
            {topic.topic_id: topic.topic_name for topic in value.deleting_topics},
        ),
    )
    known = before.assignable
    for topic_id, partitions in group.partitions.assignable.items():
        if not partitions <= known.get(topic_id, frozenset()):
            group.has_new_partitions = True


def _by_topic(topics: Iterable[TopicPartitionsInfo]) -> dict[Uuid, Known]:
    return {t.topic_id: Known(t.topic_name, frozenset(t.partitions)) for t in topics}


def _member(group: ShareGroup, member_id: str) -> Member:
    return group.members.get(member_id) or Member(member_id=member_id)


_APPLY: dict[type, Callable[[ShareGroup, Any, Any], None]] = {
    ShareGroupMetadataKey: _apply_epoch,
    ShareGroupMemberMetadataKey: _apply_member,
    ShareGroupTargetAssignmentMetadataKey: _apply_target_epoch,
    ShareGroupTargetAssignmentMemberKey: _apply_target,
    ShareGroupCurrentMemberAssignmentKey: _apply_place,
    ShareGroupStatePartitionMetadataKey: _apply_partitions,
}
