"""The share groups of a shard, as a machine: what members ask for, and what time brings.

who is it -> what has it changed -> a new epoch? -> all begun? -> a new target? -> its own part
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyk.coordinator.assigned import (
    JOINING,
    LEAVING,
    RETRY_AFTER,
    Partitions,
    TopicIds,
    may_be_made,
    topic_ids,
)
from pyk.coordinator.group import Caller, Surroundings, Timer
from pyk.coordinator.machine import Decision, Record, Reply, Ticket
from pyk.coordinator.metadata_hash import TopicHashes
from pyk.coordinator.share import records, state
from pyk.coordinator.share.assignor import Subscriber, assign
from pyk.coordinator.share.description import described
from pyk.coordinator.share.group import ShareGroup, known
from pyk.coordinator.share.heartbeats import (
    assignment,
    check_epoch,
    check_request,
    is_full,
    updated,
)
from pyk.coordinator.share.initialization import Initialization, Initializations, Waiting
from pyk.coordinator.share.member import Member
from pyk.coordinator.share.partitions import ByTopic, shared
from pyk.coordinator.topic_changes import TopicChanges
from pyk.errors import ErrorCode, KafkaError
from pyk.types import Uuid
from pyk.wire.messages.share_group_describe import DescribedGroup
from pyk.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

SESSION: Final = "share session"
WAITING: Final = "share initialization"
GONE: Final = "share topics that are gone"
"""The kinds of timers."""

INITIALIZED_WITHIN: Final = 30.0
"""After how many seconds a partition is begun again, if nothing was heard of it. A key that Kafka
does not show sets it there."""


class ShareGroups:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._hashes = TopicHashes()
        self._initializations = Initializations()
        self._half_deleted: dict[str, bool] = {}
        """Groups of which the log says that states are to be deleted, though whoever was about to
        do it may have stopped half-way, and whether somebody is finishing it."""

    # Records, and the cluster around

    def apply(self, record: Record) -> bool:
        """Whether it is about a share group."""
        return state.apply(self._surroundings.groups, record)

    def on_loaded(self, now: float) -> None:
        """Members have their whole time again: nobody could hear them while this was loading."""
        for group in self._groups():
            if group.share_partitions.topics() - self._surroundings.image.names.keys():
                self._surroundings.timers.set(Timer(group.group_id, GONE), now)
            if group.share_partitions.deleting:
                self._half_deleted[group.group_id] = False
            for member_id in group.members:
                self._expect(group.group_id, member_id, now)

    def on_image(self, changes: TopicChanges, now: float) -> None:
        """Groups look at their topics again when one of them was created, deleted or changed."""
        self._hashes.forget(changes.names)
        for group in self._groups():
            if not group.topic_counts.keys().isdisjoint(changes.names):
                group.refreshed_at, group.may_lack_partitions = None, True
            if changes.deleted and not group.share_partitions.topics().isdisjoint(changes.deleted):
                self._surroundings.timers.set(Timer(group.group_id, GONE), now)

    # What members ask for

    def heartbeat(
        self, request: ShareGroupHeartbeatRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        """Raise KafkaError."""
        check_request(request)
        if request.member_epoch == LEAVING:
            return self._leave(request, ticket)
        group = self._group_of(request)
        self._check_room(group, request.member_id)
        before = self._member(group, request)
        after = updated(before, request, caller)
        done = [] if after is before else [records.member_metadata(group.group_id, after)]
        renamed = after.subscribed_topic_names != before.subscribed_topic_names
        looks = renamed or group.must_look_at_its_topics
        epoch = self._refreshed(group, before, after, done) if looks else group.epoch
        self._expect(group.group_id, after.member_id, now)
        if group.share_partitions.deleting:
            self._half_deleted.setdefault(group.group_id, False)
        begun = None
        if renamed or group.may_lack_partitions:
            begun = self._begin(group, epoch, before, after, done, now)
        names = after.subscribed_topic_names
        if self._initializations.is_under_way(group.group_id, names, now):
            waiting = Waiting(ticket, after.member_id, is_full(request), before.assigned)
            return self._wait(group, waiting, begun, done, now)
        placed = self._placed(group, epoch, after, done, resubscribed=epoch > group.epoch)
        is_news = is_full(request) or placed.assigned != before.assigned
        response = self._response(group.group_id, placed, is_news=is_news)
        return Decision(
            done, [Reply(ticket, response)], self._refusal(group.group_id, ticket, begun)
        )

    def describe(self, group: ShareGroup, authorized_operations: int) -> DescribedGroup:
        return described(group, self._surroundings.image, authorized_operations)

    def _leave(self, request: ShareGroupHeartbeatRequest, ticket: Ticket) -> Decision:
        group = known(self._surroundings.groups, request.group_id)
        member = group.found(request.member_id)
        response = ShareGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=LEAVING, heartbeat_interval_ms=0
        )
        return Decision(self._removed(group, member), [Reply(ticket, response)])

    # What comes of partitions that were to begin

    def take_wanted(self) -> list[Initialization]:
        return self._initializations.take_wanted()

    @property
    def is_wanted(self) -> bool:
        return self._initializations.is_wanted

    def not_begun(self, initialization: Initialization) -> ByTopic:
        """What is left of it: others may have begun some of it meanwhile, or deleted the group."""
        group = self._surroundings.groups.get(initialization.group_id)
        there = group.share_partitions.initializing if isinstance(group, ShareGroup) else {}
        return shared(initialization.partitions, there)

    def take_half_deleted(self) -> list[str]:
        """Those that nobody finishes yet. Whoever takes them has to say when it is at an end."""
        taken = [group_id for group_id, is_taken in self._half_deleted.items() if not is_taken]
        self._half_deleted.update(dict.fromkeys(taken, True))
        return taken

    def end_deletion(self, group_id: str) -> None:
        """It is done, or has failed, and the next heartbeat is to try again."""
        self._half_deleted.pop(group_id, None)

    def ended(self, group_id: str, done: ByTopic, failed: ByTopic) -> Decision:
        """The state of some has begun. That of others has not, and the next heartbeat is to try
        again."""
        group = self._surroundings.groups.get(group_id)
        if not isinstance(group, ShareGroup) or not (done or failed):
            return Decision()
        after = group.share_partitions.done(done).given_up(failed)
        return Decision([records.share_partitions(group_id, after)])

    def epoch_of(self, group_id: str, topic_id: Uuid, partition: int) -> int | None:
        """The epoch of the group, if the state of the partition has begun."""
        group = self._surroundings.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            return None
        known = group.share_partitions.initialized.get(topic_id)
        return group.epoch if known is not None and partition in known.partitions else None

    def end(self, initialization: Initialization) -> None:
        """Whatever came of it has been said."""
        self._initializations.end(initialization)

    def is_waited_for(self, group_id: str) -> bool:
        return self._initializations.is_waited_for(group_id)

    def settle(self, group_id: str, now: float) -> Decision:
        """Answer one of those who wait, with what there is by now."""
        waiting, timer = self._initializations.take_waiting(group_id), Timer(group_id, WAITING)
        if waiting is None:
            return Decision()
        if self._initializations.is_waited_for(group_id):
            self._surroundings.timers.set(timer, now)
        else:
            self._surroundings.timers.cancel(timer)
        try:
            group = known(self._surroundings.groups, group_id)
            member = group.found(waiting.member_id)
        except KafkaError as refusal:
            return Decision(replies=[Reply(waiting.ticket, refusal)])
        done: list[Record] = []
        looks = group.must_look_at_its_topics
        epoch = self._refreshed(group, member, member, done) if looks else group.epoch
        placed = self._placed(group, epoch, member, done, resubscribed=True)
        is_news = waiting.is_full or placed.assigned != waiting.held
        response = self._response(group_id, placed, is_news=is_news)
        return Decision(done, [Reply(waiting.ticket, response)])

    # What time brings

    def expire(self, timer: Timer, now: float) -> Decision:
        if timer.kind == WAITING:
            return self.settle(timer.group_id, now)
        group = self._surroundings.groups.get(timer.group_id)
        if not isinstance(group, ShareGroup):
            return Decision()
        if timer.kind == GONE:
            return self._forget_topics(group, timer, now)
        if timer.member_id not in group.members:
            return Decision()
        done = self._removed(group, group.members[timer.member_id])
        return Decision(done, otherwise=self._later(timer, now))

    def _forget_topics(self, group: ShareGroup, timer: Timer, now: float) -> Decision:
        """Those of which the group reads nothing any more, since they are gone."""
        gone = group.share_partitions.topics() - self._surroundings.image.names.keys()
        if not gone:
            return Decision()
        left = group.share_partitions.without_topics(gone)
        done = [records.share_partitions(group.group_id, left)]
        return Decision(done, otherwise=self._later(timer, now))

    def _later(self, timer: Timer, now: float) -> Callable[[KafkaError], Decision]:
        """Try again what the log has refused."""

        def set_again(error: KafkaError) -> Decision:
            self._surroundings.timers.set(timer, now + RETRY_AFTER)
            return Decision()

        return set_again

    def _expect(self, group_id: str, member_id: str, now: float) -> None:
        """It has been heard of, and must be heard of again in time."""
        timeout_ms = self._surroundings.group_config(group_id).share_session_timeout_ms
        timer = Timer(group_id, SESSION, member_id)
        self._surroundings.timers.set(timer, now + timeout_ms / 1000)

    # A heartbeat, part by part

    def _group_of(self, request: ShareGroupHeartbeatRequest) -> ShareGroup:
        """Who joins may make it."""
        found = self._surroundings.groups.get(request.group_id)
        if found is not None:
            return known(self._surroundings.groups, request.group_id)
        if request.member_epoch != JOINING:
            message = f"Share group {request.group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)
        return ShareGroup(request.group_id)

    def _check_room(self, group: ShareGroup, member_id: str) -> None:
        """Raise KafkaError if there is none for one more."""
        size_max = self._surroundings.config().group_share_max_size
        if len(group.members) >= size_max and member_id not in group.members:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"The share group has reached its maximum capacity of {size_max} members.",
            )

    def _member(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> Member:
        """The member as it was, or a new one. Raise KafkaError."""
        if request.member_epoch == JOINING and request.member_id not in group.members:
            return Member(member_id=request.member_id)
        member = group.found(request.member_id)
        check_epoch(member, request.member_epoch)
        return member

    def _refreshed(
        self, group: ShareGroup, before: Member, after: Member, done: list[Record]
    ) -> int:
        """The group's epoch, which grows if its topics are not what they were, or if there are
        partitions that nobody knows of."""
        topics = group.topics_with([before], [after])
        number = self._hashes.of_all(topics, self._surroundings.image)
        epoch = group.epoch
        if (
            after.subscribed_topic_names != before.subscribed_topic_names
            or number != group.metadata_hash
            or (epoch == group.target_epoch and group.has_partitions_to_give())
        ):
            epoch += 1
            done.append(records.group_epoch(group.group_id, epoch, number))
        group.refreshed_at = epoch
        return epoch

    def _begin(
        self,
        group: ShareGroup,
        epoch: int,
        before: Member,
        after: Member,
        done: list[Record],
        now: float,
    ) -> Initialization | None:
        """What of the group's topics nobody has begun."""
        topics = group.topics_with([before], [after])
        missing = group.share_partitions.missing(topics, self._surroundings.image)
        group.may_lack_partitions = bool(missing)
        wanted = self._initializations.not_under_way(group.group_id, missing, now)
        if not wanted:
            return None
        begun = Initialization(group.group_id, epoch, wanted)
        self._initializations.begin(begun, now + INITIALIZED_WITHIN)
        partitions = group.share_partitions.begun(wanted)
        done.append(records.share_partitions(group.group_id, partitions))
        return begun

    def _wait(
        self,
        group: ShareGroup,
        waiting: Waiting,
        begun: Initialization | None,
        done: list[Record],
        now: float,
    ) -> Decision:
        """Until then, or for as long as it would be silent otherwise."""
        group_id = group.group_id
        interval_ms = self._surroundings.group_config(group_id).share_heartbeat_interval_ms
        timer = Timer(group_id, WAITING)
        if timer not in self._surroundings.timers:
            self._surroundings.timers.set(timer, now + interval_ms / 1000)
        self._initializations.wait(group_id, waiting)
        return Decision(done, otherwise=self._refusal(group_id, waiting.ticket, begun))

    def _refusal(
        self, group_id: str, ticket: Ticket, begun: Initialization | None
    ) -> Callable[[KafkaError], Decision]:
        """If the log refuses, nothing has begun, and nobody waits."""

        def refuse(error: KafkaError) -> Decision:
            if begun is not None:
                self._initializations.end(begun)
            self._initializations.forget(group_id, ticket)
            return Decision(replies=[Reply(ticket, error)])

        return refuse

    def _placed(
        self,
        group: ShareGroup,
        epoch: int,
        member: Member,
        done: list[Record],
        *,
        resubscribed: bool,
    ) -> Member:
        """The member with what the group's target has for it."""
        target_epoch, target = self._target(group, epoch, member, done)
        if member.epoch == target_epoch and not resubscribed:
            return member
        topics = topic_ids(member.subscribed_topic_names, self._surroundings.image)
        placed = member.moved(target_epoch, target, topics)
        if placed != member:
            done.append(records.place(group.group_id, placed))
        return placed

    def _target(
        self, group: ShareGroup, epoch: int, member: Member, done: list[Record]
    ) -> tuple[int, Partitions]:
        """The epoch of the group's target, and what of it is the member's."""
        surroundings, now_ms = self._surroundings, self._surroundings.now_ms()
        interval_ms = surroundings.group_config(group.group_id).share_assignment_interval_ms
        if epoch == group.target_epoch or not (
            group.has_new_partitions or may_be_made(group.target_timestamp, interval_ms, now_ms)
        ):
            return group.target_epoch, group.targets.get(member.member_id, {})
        surroundings.rebalances += 1
        topics = TopicIds(surroundings.image)
        subscribers = {
            each.member_id: Subscriber(
                topics.of(each.subscribed_topic_names), group.targets.get(each.member_id, {})
            )
            for each in ({**group.members, member.member_id: member}).values()
        }
        targets = assign(subscribers, group.share_partitions.assignable)
        done += [
            records.target(group.group_id, member_id, target)
            for member_id, target in targets.items()
            if group.targets.get(member_id) != target
        ]
        done.append(records.target_epoch(group.group_id, epoch, now_ms))
        return epoch, targets[member.member_id]

    def _removed(self, group: ShareGroup, member: Member) -> list[Record]:
        """The group without one of its members."""
        number = self._hashes.of_all(group.topics_with([member]), self._surroundings.image)
        return [
            *records.no_member(group.group_id, member.member_id),
            records.group_epoch(group.group_id, group.epoch + 1, number),
        ]

    def _response(
        self, group_id: str, member: Member, *, is_news: bool
    ) -> ShareGroupHeartbeatResponse:
        config = self._surroundings.group_config(group_id)
        return ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=config.share_heartbeat_interval_ms,
            assignment=assignment(member.assigned) if is_news else None,
        )

    # Groups

    def _groups(self) -> list[ShareGroup]:
        groups = self._surroundings.groups.values()
        return [group for group in groups if isinstance(group, ShareGroup)]
