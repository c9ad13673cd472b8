"""A share group: what its records say, and what offsets, listings and deletions ask of it.

    Empty    it has no members
    Stable   it has some

- The group's epoch grows with every change that may move partitions; the target's epoch follows.
- A partition may have many readers, so nobody waits for another to give one back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from pyk.coordinator.assigned import FIRST_EPOCH, NEVER, Partitions, count
from pyk.coordinator.group import Group, GroupType, PartitionCheck
from pyk.coordinator.machine import Record
from pyk.coordinator.share import records
from pyk.coordinator.share.member import Member
from pyk.coordinator.share.partitions import SharePartitions
from pyk.errors import ErrorCode, KafkaError


class ShareGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp = NEVER
        self.members: dict[str, Member] = {}
        self.targets: dict[str, Partitions] = {}
        self.partitions: SharePartitions | None = None
        """None before there were any."""
        self.has_new_partitions = False
        """Whether some were initialized after the target was made."""
        self.topic_counts: Counter[str] = Counter()
        """How many members subscribe to a topic."""
        self.refreshed_at: int | None = None
        """The epoch in which it last looked at its topics. Not in the log."""
        self.may_lack_partitions = True
        """Whether some of its topics may have partitions that are not initialized. Not in the
        log."""

    @property
    def type(self) -> GroupType:
        return GroupType.SHARE

    @property
    def protocol_type(self) -> str:
        return "share"

    @property
    def state(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def must_look_at_its_topics(self) -> bool:
        """They have changed, or an epoch that was to say so never reached the log."""
        return self.refreshed_at is None or self.epoch < self.refreshed_at

    @property
    def share_partitions(self) -> SharePartitions:
        return self.partitions or SharePartitions()

    def has_partitions_to_give(self) -> bool:
        """Whether what is initialized of its topics is not what its members are to have."""
        if not self.members:
            return False
        given: dict[bytes, set[int]] = {}
        for target in self.targets.values():
            for topic_id, numbers in target.items():
                given.setdefault(topic_id, set()).update(numbers)
        return any(
            given.get(topic_id, set()) != set(known.partitions)
            for topic_id, known in self.share_partitions.initialized.items()
            if known.name in self.topic_counts
        )

    def found(self, member_id: str) -> Member:
        """Raise KafkaError."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def topics_with(self, gone: Iterable[Member], come: Iterable[Member] = ()) -> set[str]:
        """All that its members subscribe to, once some have gone and others have come."""
        names = Counter(self.topic_counts)
        for members, step in ((gone, -1), (come, 1)):
            for member in members:
                count(names, member.subscribed_topic_names, step)
        return set(names)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_counts

    def update_member(self, member: Member) -> None:
        self.remove_member(member.member_id)
        self.members[member.member_id] = member
        count(self.topic_counts, member.subscribed_topic_names, 1)

    def remove_member(self, member_id: str) -> None:
        before = self.members.pop(member_id, None)
        if before is not None:
            count(self.topic_counts, before.subscribed_topic_names, -1)

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        version: int,
        is_transactional: bool,
    ) -> PartitionCheck | None:
        raise self._no_consumer_group()

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """It has none, and that is no error."""

    def check_offset_delete(self) -> None:
        raise self._no_consumer_group()

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    def offsets_age_from(self, commit_timestamp: int) -> int | None:
        return None

    def note_commit(self, member_id: str, now: float) -> None:
        """It has no offsets."""

    def tombstones(self) -> list[Record]:
        group_id = self.group_id
        return [
            *(records.no_place(group_id, member_id) for member_id in self.members),
            *(records.no_target(group_id, member_id) for member_id in self.members),
            records.no_target_epoch(group_id),
            *(records.no_member_metadata(group_id, member_id) for member_id in self.members),
            records.no_share_partitions(group_id),
            records.no_group(group_id),
        ]

    def _no_consumer_group(self) -> KafkaError:
        message = f"Group {self.group_id} is not a consumer group."
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def known(groups: Mapping[str, Group], group_id: str) -> ShareGroup:
    """The share group of that name. Raise KafkaError."""
    group = groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ShareGroup):
        message = f"Group {group_id} is not a share group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)
    return group
