"""A consumer group: what its records say, and what offsets, listings and deletions ask of it.

    Empty       it has no members
    Assigning   something has changed that its target does not know of yet
    Reconciling its members are on their way to the target
    Stable      they are there

- The group's epoch grows with every change that may move partitions; the target's epoch follows.
- A partition has one owner: who has it assigned, or has not said yet that it gave it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from typing import Final, NamedTuple

from pyk.coordinator.assigned import FIRST_EPOCH, NEVER, Partitions, count
from pyk.coordinator.consumer import records
from pyk.coordinator.consumer.member import Member
from pyk.coordinator.consumer.regular_expressions import Matches
from pyk.coordinator.group import GroupType, PartitionCheck
from pyk.coordinator.machine import Record
from pyk.errors import ErrorCode, KafkaError
from pyk.types import Uuid

MEMBER_EPOCHS_SINCE: Final = 9
"""The first version of OffsetCommit in which a member can say its epoch."""

SESSION: Final = "consumer session"
REVOCATION: Final = "revocation"
REJOIN: Final = "rejoin"
SYNC: Final = "classic member's sync"
MATCHING: Final = "matching"
"""The kinds of timers. Those of classic groups have other names, since theirs go with them."""


class RefusedTarget(NamedTuple):
    """One that the log did not take."""

    epoch: int
    error: KafkaError
    at: float
    patience: float
    """How long it is not made again, unless the group changes."""


class ConsumerGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = FIRST_EPOCH
        self.target_timestamp = NEVER
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """The ids of members by those of their instances."""
        self.targets: dict[str, Partitions] = {}
        self.matches: dict[str, Matches] = {}
        """By the regular expressions that are known."""
        self.topic_counts: Counter[str] = Counter()
        """How many members subscribe to a topic by its name."""
        self.regex_counts: Counter[str] = Counter()
        self.assignor_counts: Counter[str] = Counter()
        self.classic_counts: Counter[str] = Counter()
        """How many classic members support a protocol."""
        self.classic_members_count = 0
        self.has_partition_metadata = False
        """Whether a broker before 4.1 has left a record that nobody reads any more."""
        self.refreshed_at: int | None = None
        """The epoch in which it last looked at its topics. Not in the log."""
        self.refused_target: RefusedTarget | None = None
        """Not in the log, since that did not take it."""
        self._owners: dict[tuple[Uuid, int], str] = {}

    @property
    def type(self) -> GroupType:
        return GroupType.CONSUMER

    @property
    def protocol_type(self) -> str:
        return "consumer"

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    @property
    def must_look_at_its_topics(self) -> bool:
        """They have changed, or an epoch that was to say so never reached the log."""
        return self.refreshed_at is None or self.epoch < self.refreshed_at

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def found(self, member_id: str) -> Member:
        """Raise KafkaError."""
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member {member_id} is not a member of group {self.group_id}.",
            )
        return member

    def is_owned(self, topic_id: Uuid, partition: int) -> bool:
        return (topic_id, partition) in self._owners

    def topics_of(self, member: Member) -> frozenset[str]:
        return topics_of(member, self.matches)

    def topics_with(self, gone: Iterable[Member], come: Iterable[Member] = ()) -> set[str]:
        """All that its members subscribe to, once some have gone and others have come."""
        gone, come = list(gone), list(come)
        if len(gone) == len(come) == 1 and _have_same_subscription(gone[0], come[0]):
            gone = come = []
        names, expressions = Counter(self.topic_counts), Counter(self.regex_counts)
        for members, step in ((gone, -1), (come, 1)):
            for member in members:
                count(names, member.subscribed_topic_names, step)
                count(expressions, _expressions(member), step)
        matched = (self.matches[regex].topics for regex in expressions if regex in self.matches)
        return set(names).union(*matched)

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.topic_counts or any(
            topic in self.matches[regex].topics
            for regex in self.regex_counts
            if regex in self.matches
        )

    def is_subscribed_to_any(self, topics: Set[str]) -> bool:
        return not self.topic_counts.keys().isdisjoint(topics) or any(
            not self.matches[regex].topics.isdisjoint(topics)
            for regex in self.regex_counts
            if regex in self.matches
        )

    def update_member(self, member: Member) -> None:
        before = self.members.get(member.member_id)
        if before is not None and _have_same_subscription(before, member):
            # A member may name very many topics, and mostly changes its place.
            self.members[member.member_id] = member
            self._disown(before)
            self._own(member)
            return
        if before is not None:
            self._take_back(before)
        self.members[member.member_id] = member
        self._note(member)

    def remove_member(self, member_id: str) -> None:
        before = self.members.pop(member_id, None)
        if before is not None:
            self._take_back(before)

    def _note(self, member: Member) -> None:
        self._count_in(member, 1)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        self._own(member)

    def _own(self, member: Member) -> None:
        for partition in _all_partitions(member):
            self._owners[partition] = member.member_id

    def _take_back(self, member: Member) -> None:
        self._count_in(member, -1)
        instance_id, member_id = member.instance_id, member.member_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        self._disown(member)

    def _disown(self, member: Member) -> None:
        for partition in _all_partitions(member):
            if self._owners.get(partition) == member.member_id:
                del self._owners[partition]

    def _count_in(self, member: Member, step: int) -> None:
        count(self.topic_counts, member.subscribed_topic_names, step)
        count(self.regex_counts, _expressions(member), step)
        if member.server_assignor is not None:
            count(self.assignor_counts, (member.server_assignor,), step)
        if member.classic is not None:
            self.classic_members_count += step
            names = [protocol.name for protocol in member.classic.supported_protocols]
            count(self.classic_counts, names, step)

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        version: int,
        is_transactional: bool,
    ) -> PartitionCheck | None:
        """A member that was told of a later epoch than the one it commits in may commit what it had
        in both: what it does is only late.
        """
        if generation < 0 and not self.members:
            return None
        if is_transactional and (generation, member_id, instance_id) == (-1, "", None):
            return None
        member = self.found(member_id)
        if not is_transactional and member.classic is None and version < MEMBER_EPOCHS_SINCE:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the consumer "
                "group protocol",
            )
        if generation == member.epoch:
            return None
        if generation > member.epoch:
            _refuse_epoch(
                member, f"{generation} is newer than current member epoch {member.epoch}."
            )

        def check(topic: str, topic_id: Uuid, partition: int) -> None:
            since = member.assigned.get(topic_id, {}).get(partition)
            if since is None:
                since = member.pending_revocation.get(topic_id, {}).get(partition)
            if since is None or generation < since:
                _refuse_epoch(member, f"{generation} is older than that of {topic}-{partition}.")

        return check

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return
        member = self.found(member_id or "")
        if member_epoch != member.epoch:
            _refuse_epoch(member, f"{member_epoch} does not match {member.epoch}.")

    def check_offset_delete(self) -> None:
        """Only what members subscribe to is kept from it, and that is asked for each topic."""

    def check_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def offsets_age_from(self, commit_timestamp: int) -> int | None:
        return commit_timestamp

    def note_commit(self, member_id: str, now: float) -> None:
        """A commit is no heartbeat here."""

    def tombstones(self) -> list[Record]:
        group_id = self.group_id
        return [
            *(records.no_place(group_id, member_id) for member_id in self.members),
            *(records.no_target(group_id, member_id) for member_id in self.members),
            records.no_target_epoch(group_id),
            *(records.no_member_metadata(group_id, member_id) for member_id in self.members),
            *(records.no_matches(group_id, regex) for regex in self.matches),
            records.no_partition_metadata(group_id),
            records.no_group(group_id),
        ]


def topics_of(member: Member, known: Mapping[str, Matches]) -> frozenset[str]:
    """What it subscribes to, by names and by what matches its expression."""
    matches = known.get(member.subscribed_topic_regex)
    if matches is None:
        return member.subscribed_topic_names
    if not member.subscribed_topic_names:
        return matches.topics
    return member.subscribed_topic_names | matches.topics


def _refuse_epoch(member: Member, what: str) -> None:
    if member.classic is not None:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"The received generation id {what}")
    raise KafkaError(ErrorCode.STALE_MEMBER_EPOCH, f"The received member epoch {what}")


def _have_same_subscription(before: Member, after: Member) -> bool:
    return (
        after.subscribed_topic_names is before.subscribed_topic_names
        and after.subscribed_topic_regex == before.subscribed_topic_regex
        and after.instance_id == before.instance_id
        and after.server_assignor == before.server_assignor
        and after.classic is before.classic
    )


def _all_partitions(member: Member) -> Iterable[tuple[Uuid, int]]:
    for held in (member.assigned, member.pending_revocation):
        for topic_id, epochs in held.items():
            for partition in epochs:
                yield topic_id, partition


def _expressions(member: Member) -> tuple[str, ...]:
    return (member.subscribed_topic_regex,) if member.subscribed_topic_regex else ()


def preferred_assignor(
    group: ConsumerGroup, before: Member | None, after: Member | None, names: Iterable[str]
) -> str:
    """What most members ask for, or else the first of `names`, which are in the broker's order."""
    counts: Mapping[str, int] = group.assignor_counts
    if before is not after:
        changed = Counter(counts)
        for member, step in ((before, -1), (after, 1)):
            if member is not None and member.server_assignor is not None:
                count(changed, (member.server_assignor,), step)
        counts = changed
    return max(names, key=lambda name: counts.get(name, 0))
