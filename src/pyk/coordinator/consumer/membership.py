"""What follows when a member has said something or has gone, whichever protocol it speaks.

    what has it changed -> a new epoch? -> a new target? -> its own next step

Each part adds its records to one list. What only a timer knows is when a member was last heard of,
when it must have given its partitions back, and that expressions are to be matched.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from pyk.coordinator.assigned import (
    JOINING,
    RETRY_AFTER,
    RETRY_MAX,
    Partitions,
    Targets,
    may_be_made,
    topic_ids,
)
from pyk.coordinator.consumer import conversion, records, regular_expressions
from pyk.coordinator.consumer.group import (
    MATCHING,
    REVOCATION,
    SESSION,
    ConsumerGroup,
    RefusedTarget,
    preferred_assignor,
)
from pyk.coordinator.consumer.member import Member, MemberState
from pyk.coordinator.consumer.reconciliation import Goal, reconcile
from pyk.coordinator.consumer.regular_expressions import Matches, Search
from pyk.coordinator.consumer.target import Assignment, predecessor
from pyk.coordinator.group import Surroundings, Timer
from pyk.coordinator.machine import Record
from pyk.coordinator.metadata_hash import TopicHashes
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.consumer_group_heartbeat import TopicPartitions

REFRESH_INTERVAL_MS: Final = 600_000
"""When expressions are matched again though no topic was created that is known of. A key that Kafka
does not show sets it there."""
MATCHING_INTERVAL_MS: Final = 10_000
"""How long expressions are not matched again, whoever brings new ones."""


class Membership:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self.hashes: Final = TopicHashes()
        self.topics_created_in = surroundings.image.revision
        """The revision of the last image that had new topics."""
        self.loaded_at = surroundings.image.revision
        """The revision that the image had then. What expressions matched before is believed only
        for as long as it takes to try them again."""
        self._jobs: list[Search | Assignment] = []
        self._planned: dict[str, Assignment] = {}
        """Targets to be made once the log has taken what they are for, by group."""
        self._searched: set[str] = set()
        """The groups whose expressions somebody tries."""
        self._assigned: set[str] = set()
        """The groups for which somebody makes a target."""

    def new_id(self) -> str:
        """A random UUID, as Kafka prints it. It does not begin with a dash, as in Kafka."""
        while True:
            number = bytearray(self._surroundings.rng.randbytes(16))
            number[6] = number[6] & 0x0F | 0x40
            number[8] = number[8] & 0x3F | 0x80
            text = urlsafe_b64encode(number).decode().rstrip("=")
            if not text.startswith("-"):
                return text

    def check_room(self, group: ConsumerGroup, member_id: str) -> None:
        """Raise KafkaError if there is none for one more."""
        size_max = self._surroundings.config().group_consumer_max_size
        if len(group.members) >= size_max and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of {size_max} members.",
            )

    def expect(self, group_id: str, member: Member, now: float) -> None:
        """It has been heard of, and must be heard of again in time."""
        if member.classic is None:
            timeout_ms = self._surroundings.group_config(group_id).consumer_session_timeout_ms
        else:
            timeout_ms = member.classic.session_timeout_ms
        timer = Timer(group_id, SESSION, member.member_id)
        self._surroundings.timers.set(timer, now + timeout_ms / 1000)

    def expect_revocation(self, group_id: str, member: Member, now: float) -> None:
        """It must give its partitions back in time. Classic members must join in time instead."""
        if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
            timer = Timer(group_id, REVOCATION, member.member_id)
            self._surroundings.timers.set(timer, now + member.rebalance_timeout_ms / 1000)

    def advance(
        self,
        group: ConsumerGroup,
        before: Member,
        after: Member,
        held: list[TopicPartitions] | None,
        done: list[Record],
        now: float,
        *,
        makes_target: bool = True,
    ) -> tuple[Member, int]:
        """The member, which was as `before` and describes itself as `after`, after its next step,
        and the epoch of the group then. Raise KafkaError."""
        if after is not before:
            done.append(records.member_metadata(group.group_id, after))
        renamed = after.subscribed_topic_names != before.subscribed_topic_names
        rematched = after.subscribed_topic_regex != before.subscribed_topic_regex
        knows_topics = rematched and self._expression_changed(group, before, after, done)
        if group.regex_counts or rematched:
            self._schedule_matching(group, before, after, now)
        epoch = group.epoch
        if renamed or knows_topics or group.must_look_at_its_topics:
            epoch = self._refreshed(group, before, after, done, bump=renamed or knows_topics)
        target_epoch, target = group.target_epoch, group.targets.get(predecessor(group, after), {})
        if makes_target and epoch > group.target_epoch and self._may_try(group, epoch, after, now):
            target_epoch, target = self._target(group, epoch, before, after, done)
        resubscribed = renamed or rematched
        if not resubscribed and after.is_reconciled_to(target_epoch):
            return after, epoch
        subscribed = topic_ids(group.topics_of(after), self._surroundings.image)
        goal = Goal(target_epoch, target, subscribed, group.is_owned)
        placed = reconcile(after, goal, held, has_resubscribed=resubscribed)
        if placed != after:
            done.append(records.place(group.group_id, placed))
            self.expect_revocation(group.group_id, placed, now)
        return placed, epoch

    def replaced(
        self, group: ConsumerGroup, owner: Member, member_id: str, done: list[Record]
    ) -> Member:
        """A member with the instance and all of another, which it takes the place of."""
        group_id = group.group_id
        member = replace(owner, member_id=member_id, epoch=JOINING, previous_epoch=JOINING)
        done += records.no_member(group_id, owner.member_id)
        done += [
            records.member_metadata(group_id, member),
            records.target(group_id, member_id, group.targets.get(owner.member_id, {})),
            records.place(group_id, member),
        ]
        return member

    def removed(
        self, group: ConsumerGroup, members: Collection[Member], now: float
    ) -> list[Record]:
        """The group without some of its members. If those who stay are all classic, so is it."""
        if conversion.may_be_classic_without(group, members, self._surroundings.config()):
            return conversion.to_classic(group, members, self._surroundings, now)
        done: list[Record] = []
        for member in members:
            done += records.no_member(group.group_id, member.member_id)
        gone = [member.subscribed_topic_regex for member in members]
        done += [
            records.no_matches(group.group_id, regex)
            for regex in sorted({*gone} - {""})
            if gone.count(regex) == group.regex_counts[regex]
        ]
        number = self.hashes.of_all(group.topics_with(members), self._surroundings.image)
        return [*done, records.group_epoch(group.group_id, group.epoch + 1, number)]

    def _refreshed(
        self,
        group: ConsumerGroup,
        before: Member,
        after: Member,
        done: list[Record],
        *,
        bump: bool,
    ) -> int:
        """The group's epoch, which grows if its topics are not what they were."""
        topics = group.topics_with([before], [after])
        number = self.hashes.of_all(topics, self._surroundings.image)
        epoch = group.epoch
        if bump or number != group.metadata_hash:
            epoch += 1
            done.append(records.group_epoch(group.group_id, epoch, number))
        if group.has_partition_metadata:
            done.append(records.no_partition_metadata(group.group_id))
        group.refreshed_at = epoch
        return epoch

    def _target(
        self,
        group: ConsumerGroup,
        epoch: int,
        before: Member,
        after: Member,
        done: list[Record],
    ) -> tuple[int, Partitions]:
        """The epoch of the group's target, and what of it is the member's."""
        if group.group_id not in self._assigned:
            surroundings, now_ms = self._surroundings, self._surroundings.now_ms()
            config = surroundings.group_config(group.group_id)
            interval_ms = config.consumer_assignment_interval_ms
            if may_be_made(group.target_timestamp, interval_ms, now_ms):
                surroundings.rebalances += 1
                names = surroundings.config().consumer_assignors
                assignor = preferred_assignor(group, before, after, names)
                assignment = Assignment(group, after, assignor, surroundings.image, epoch)
                if not assignment.is_larger_than(surroundings.inline_max):
                    targets = assignment.make()
                    done += _target_records(group, targets, epoch, now_ms)
                    return epoch, targets[after.member_id]
                self._planned[group.group_id] = assignment
        return group.target_epoch, group.targets.get(predecessor(group, after), {})

    def _may_try(self, group: ConsumerGroup, epoch: int, member: Member, now: float) -> bool:
        """Whether a target may be made of which the log has refused the last. Raise what it said if
        nothing has changed since, unless it is time to try again."""
        refused = group.refused_target
        if refused is None or refused.epoch <= group.target_epoch:
            return True
        if refused.epoch != epoch:
            return now >= refused.at + RETRY_AFTER
        if now >= refused.at + refused.patience and group.group_id not in self._assigned:
            return True
        self.expect(group.group_id, member, now)
        raise KafkaError(refused.error.code, refused.error.message)

    def note_refused(self, group: ConsumerGroup, epoch: int, error: KafkaError, now: float) -> None:
        """The log does not take a target that was made elsewhere. The group's members hear of that
        when they ask again."""
        before, patience = group.refused_target, RETRY_AFTER
        if before is not None and before.epoch > group.target_epoch:
            patience = min(2 * before.patience, RETRY_MAX)
        group.refused_target = RefusedTarget(epoch, error, now, patience)

    def assigned(self, group: ConsumerGroup, assignment: Assignment) -> list[Record]:
        """The target that was made elsewhere, for those who are members still. A static member may
        have come back under another id meanwhile."""
        found = assignment.take_found()
        is_of_it = assignment.group is group
        if not (is_of_it and group.target_epoch < assignment.epoch <= group.epoch):
            return []
        targets: Targets = {}
        for member_id, target in found.items():
            instance_id = assignment.members[member_id].instance_id
            owner = member_id if instance_id is None else group.static_members.get(instance_id)
            if owner in group.members:
                targets[owner] = target
        now_ms = self._surroundings.now_ms()
        return list(_target_records(group, targets, assignment.epoch, now_ms))

    def _expression_changed(
        self, group: ConsumerGroup, before: Member, after: Member, done: list[Record]
    ) -> bool:
        """Whether what the member subscribes to is known at once. Raise KafkaError."""
        old, new = before.subscribed_topic_regex, after.subscribed_topic_regex
        if old and group.regex_counts[old] == 1:
            done.append(records.no_matches(group.group_id, old))
        if not new:
            return bool(old)
        if new not in group.regex_counts:
            regular_expressions.check(new)
            return False
        return new in group.matches

    def _schedule_matching(
        self, group: ConsumerGroup, before: Member, after: Member, now: float
    ) -> None:
        """Expressions are matched apart from heartbeats: there may be many topics."""
        timer = Timer(group.group_id, MATCHING)
        timers, now_ms = self._surroundings.timers, self._surroundings.now_ms()
        if timer in timers or group.group_id in self._searched:
            return
        matches = group.matches.values()
        tried_at = max((each.timestamp for each in matches), default=None)
        if tried_at is not None and 0 <= now_ms - tried_at < MATCHING_INTERVAL_MS:
            return
        wanted = {*group.regex_counts}
        if group.regex_counts[before.subscribed_topic_regex] == 1:
            wanted.discard(before.subscribed_topic_regex)
        if after.subscribed_topic_regex:
            wanted.add(after.subscribed_topic_regex)
        if wanted and (
            wanted != group.matches.keys()
            or min(each.version for each in matches) < self.topics_created_in
            or (tried_at is not None and now_ms - tried_at > REFRESH_INTERVAL_MS)
        ):
            timers.set(timer, now)

    # What is done elsewhere

    def take_jobs(self) -> list[Search | Assignment]:
        """Those that nobody does yet, when a decision was carried out. Whoever takes them has to
        say what came of them, and when they are over."""
        if self._planned:
            self._begin_planned()
        jobs, self._jobs = self._jobs, []
        return jobs

    def _begin_planned(self) -> None:
        planned, self._planned = self._planned, {}
        for assignment in planned.values():
            group = self._surroundings.groups.get(assignment.group_id)
            if not isinstance(group, ConsumerGroup):
                continue
            if assignment.is_for(group, self._surroundings.image):
                assignment.group = group
                self._assigned.add(assignment.group_id)
                self._jobs.append(assignment)

    def end_job(self, job: Search | Assignment) -> None:
        under_way = self._searched if isinstance(job, Search) else self._assigned
        under_way.discard(job.group_id)

    def search(self, group: ConsumerGroup) -> None:
        """Have a group's expressions tried on the topics that there are."""
        if group.regex_counts:
            known = {regex: self._known(group.matches.get(regex)) for regex in group.regex_counts}
            image = self._surroundings.image
            self._jobs.append(Search(group.group_id, known, image))
            self._searched.add(group.group_id)

    def _known(self, matches: Matches | None) -> Matches | None:
        return None if matches is None or matches.version < self.loaded_at else matches

    def matched(
        self, group: ConsumerGroup, found: Mapping[str, frozenset[str]], revision: int
    ) -> list[Record]:
        """What follows from what matches some expressions of a group."""
        image, now_ms = self._surroundings.image, self._surroundings.now_ms()
        found = {regex: topics for regex, topics in found.items() if regex in group.regex_counts}
        if not found:
            return []
        done = [
            records.matches(group.group_id, regex, topics, revision, now_ms)
            for regex, topics in found.items()
        ]
        known = {r: group.matches[r].topics if r in group.matches else frozenset() for r in found}
        others = (m.topics for r, m in group.matches.items() if r not in found)
        topics = set(group.topic_counts).union(*found.values(), *others)
        number = self.hashes.of_all(topics, image)
        if known != found or number != group.metadata_hash or self._has_too_much(group, found):
            done.append(records.group_epoch(group.group_id, group.epoch + 1, number))
            group.refreshed_at = group.epoch + 1
        return done

    def _has_too_much(self, group: ConsumerGroup, found: Mapping[str, frozenset[str]]) -> bool:
        """Whether the target gives a member something that it subscribed to by its last expression,
        and that the one which it has now, and which was never tried before, does not match."""
        names = self._surroundings.image.names
        for member in group.members.values():
            topics = found.get(member.subscribed_topic_regex)
            if topics is not None and member.subscribed_topic_regex not in group.matches:
                for topic_id in group.targets.get(member.member_id, ()):
                    name = names.get(topic_id, "")
                    if name not in topics and name not in member.subscribed_topic_names:
                        return True
        return False


def _target_records(
    group: ConsumerGroup, targets: Targets, epoch: int, now_ms: int
) -> Iterator[Record]:
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            yield records.target(group.group_id, member_id, target)
    yield records.target_epoch(group.group_id, epoch, now_ms)
