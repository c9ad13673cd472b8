"""The consumer groups of a shard, as a machine: what members ask for, and what time brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from pyk.coordinator.assigned import JOINING, LEAVING, RETRY_AFTER
from pyk.coordinator.classic.answers import not_joined, not_synced
from pyk.coordinator.classic.group import ClassicGroup, State
from pyk.coordinator.consumer import conversion, records, state
from pyk.coordinator.consumer.classic_members import ClassicMembers
from pyk.coordinator.consumer.description import described
from pyk.coordinator.consumer.group import (
    MATCHING,
    REJOIN,
    REVOCATION,
    SESSION,
    SYNC,
    ConsumerGroup,
    preferred_assignor,
)
from pyk.coordinator.consumer.heartbeats import (
    assignment,
    check_epoch,
    check_instance_is_free,
    check_instance_is_own,
    check_request,
    is_full,
    updated,
)
from pyk.coordinator.consumer.member import (
    LEAVING_FOR_A_WHILE,
    Assigned,
    Member,
    MemberState,
)
from pyk.coordinator.consumer.membership import Membership
from pyk.coordinator.consumer.regular_expressions import Search
from pyk.coordinator.consumer.target import Assignment
from pyk.coordinator.group import Caller, Group, Surroundings, Timer
from pyk.coordinator.machine import Decision, Record, Reply, Ticket
from pyk.coordinator.topic_changes import TopicChanges
from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage
from pyk.turns import Work
from pyk.wire.messages.consumer_group_describe import DescribedGroup
from pyk.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from pyk.wire.messages.heartbeat import HeartbeatRequest
from pyk.wire.messages.join_group import JoinGroupRequest
from pyk.wire.messages.leave_group import LeaveGroupRequest
from pyk.wire.messages.sync_group import SyncGroupRequest


class ConsumerGroups:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._membership = Membership(surroundings)
        self._classic_members = ClassicMembers(surroundings, self._membership)

    # Records, and the cluster around

    def apply(self, record: Record) -> None:
        state.apply(self._surroundings.groups, record)

    def on_loaded(self, now: float) -> None:
        """Members have their whole time again: nobody could hear them while this was loading."""
        revision = self._surroundings.image.revision
        self._membership.topics_created_in = self._membership.loaded_at = revision
        for group in self._groups():
            for member in group.members.values():
                self._membership.expect(group.group_id, member, now)
                self._membership.expect_revocation(group.group_id, member, now)

    def on_image(self, image: ClusterImage, changes: TopicChanges) -> None:
        """Groups look at their topics again when one of them was created, deleted or changed."""
        if changes.has_created:
            self._membership.topics_created_in = image.revision
        self._membership.hashes.forget(changes.names)
        for group in self._groups():
            if group.is_subscribed_to_any(changes.names):
                group.refreshed_at = None

    # What members ask for

    def heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        ticket: Ticket,
        now: float,
    ) -> Decision:
        """Raise KafkaError."""
        assignors = self._surroundings.config().consumer_assignors
        check_request(request, caller.version, assignors)
        if request.member_epoch in (LEAVING, LEAVING_FOR_A_WHILE):
            return self._leave(request, ticket, now)
        return self._stay(request, caller, ticket, now)

    def learn_topics(self, names: Iterable[str]) -> Work[None]:
        """Know, before many topics are subscribed to, what a group notes of them."""
        return self._membership.hashes.learn_in_turns(names, lambda: self._surroundings.image)

    def join(
        self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        group = self._known(request.group_id)
        return self._classic_members.join(group, request, caller, ticket, now)

    def sync(
        self, request: SyncGroupRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        return self._classic_members.sync(self._known(request.group_id), request, ticket, now)

    def classic_heartbeat(
        self, request: HeartbeatRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        return self._classic_members.heartbeat(self._known(request.group_id), request, ticket, now)

    def leave(
        self, request: LeaveGroupRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        return self._classic_members.leave(self._known(request.group_id), request, ticket, now)

    def describe(self, group: ConsumerGroup, authorized_operations: int) -> DescribedGroup:
        names = self._surroundings.config().consumer_assignors
        assignor = preferred_assignor(group, None, None, names)
        return described(group, assignor, self._surroundings.image, authorized_operations)

    # What time brings

    def expire(self, timer: Timer, now: float) -> Decision:
        group = self._surroundings.groups.get(timer.group_id)
        if not isinstance(group, ConsumerGroup):
            return Decision()
        if timer.kind == MATCHING:
            self._membership.search(group)
            return Decision()
        member = group.members.get(timer.member_id)
        if member is None or not _is_too_late(timer, member):
            return Decision()
        done = self._membership.removed(group, [member], now)
        return Decision(done, otherwise=self._later(timer, now))

    def take_jobs(self) -> list[Search | Assignment]:
        """What is to be done elsewhere, and what nobody does yet. Asked for when a decision was
        carried out."""
        return self._membership.take_jobs()

    def take_result(self, job: Search | Assignment, now: float) -> Decision:
        """What follows from what was done of a job."""
        group = self._surroundings.groups.get(job.group_id)
        if isinstance(job, Assignment):
            if not isinstance(group, ConsumerGroup):
                job.take_found()
                return Decision()
            done = self._membership.assigned(group, job)
            return Decision(done, otherwise=self._refused(group, job, now))
        found = job.take_found()
        if not isinstance(group, ConsumerGroup):
            return Decision()
        self._membership.hashes.learn(job.hashes)
        done = self._membership.matched(group, found, job.revision)
        return Decision(done, otherwise=self._later(Timer(job.group_id, MATCHING), now))

    def end_job(self, job: Search | Assignment) -> None:
        self._membership.end_job(job)

    def _refused(
        self, group: ConsumerGroup, job: Assignment, now: float
    ) -> Callable[[KafkaError], Decision]:
        def note(error: KafkaError) -> Decision:
            job.refusal = error
            self._membership.note_refused(group, job.epoch, error, now)
            return Decision()

        return note

    def _later(self, timer: Timer, now: float) -> Callable[[KafkaError], Decision]:
        """Try again, and do not forget a member because the disk was full when it was due."""

        def set_again(error: KafkaError) -> Decision:
            self._surroundings.timers.set(timer, now + RETRY_AFTER)
            return Decision()

        return set_again

    # Members who speak the new protocol

    def _leave(
        self, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now: float
    ) -> Decision:
        group = self._known(request.group_id)
        if request.instance_id is None:
            member = group.found(request.member_id)
        else:
            owner = group.static_member(request.instance_id)
            member = check_instance_is_own(owner, request.member_id, request.instance_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=0,
        )
        if request.member_epoch == LEAVING_FOR_A_WHILE:
            done = [records.place(group.group_id, _away(member))]
        else:
            done = self._membership.removed(group, [member], now)
        return Decision(done, [Reply(ticket, response)])

    def _stay(
        self,
        request: ConsumerGroupHeartbeatRequest,
        caller: Caller,
        ticket: Ticket,
        now: float,
    ) -> Decision:
        done: list[Record] = []
        replies: list[Reply] = []
        found = self._surroundings.groups.get(request.group_id)
        group = self._group_of(request, found, done, replies, now)
        self._membership.check_room(group, request.member_id)
        before = self._member(group, request, done)
        described_now = updated(before, request, caller)
        held = request.topic_partitions
        after, _ = self._membership.advance(group, before, described_now, held, done, now)
        self._membership.expect(group.group_id, after, now)
        response = self._response(request, before.assigned, after)
        return Decision(done, [*replies, Reply(ticket, response)], _refusal(ticket, replies))

    def _group_of(
        self,
        request: ConsumerGroupHeartbeatRequest,
        found: Group | None,
        done: list[Record],
        replies: list[Reply],
        now: float,
    ) -> ConsumerGroup:
        """The group that a heartbeat is about. Who joins may make it, also of a classic group."""
        if isinstance(found, ConsumerGroup):
            return found
        if found is None and request.member_epoch != JOINING:
            message = f"Consumer group {request.group_id} not found."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)
        if found is not None:
            if request.member_epoch != JOINING or not isinstance(found, ClassicGroup):
                raise _no_consumer_group(request.group_id)
            if found.state is not State.EMPTY:
                return self._upgraded(found, done, replies, now)
            done += found.tombstones()
        return ConsumerGroup(request.group_id)

    def _upgraded(
        self, group: ClassicGroup, done: list[Record], replies: list[Reply], now: float
    ) -> ConsumerGroup:
        """Who waits for the next generation, or for an assignment, has to join again."""
        conversion.check_upgrade(group, self._surroundings.config())
        image, hashes = self._surroundings.image, self._membership.hashes
        done += conversion.to_consumer(group, image, hashes)
        again = ErrorCode.REBALANCE_IN_PROGRESS
        replies += [Reply(ticket, not_joined(again)) for ticket in group.joining.values()]
        replies += [Reply(ticket, not_synced(again)) for ticket in group.syncing.values()]
        scratch: dict[str, Group] = {}
        for record in done:
            if record.value is not None:
                state.apply(scratch, record)
        upgraded = scratch[group.group_id]
        assert isinstance(upgraded, ConsumerGroup)
        for member in upgraded.members.values():
            self._membership.expect(group.group_id, member, now)
            # It may have been in a consumer group before, and had to do something in time.
            for kind in (REVOCATION, REJOIN, SYNC):
                timer = Timer(group.group_id, kind, member.member_id)
                self._surroundings.timers.cancel(timer)
        return upgraded

    def _member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        done: list[Record],
    ) -> Member:
        """The member as it was: new, known, or in the place of another with its instance."""
        joins = request.member_epoch == JOINING
        instance_id = request.instance_id
        member_id = request.member_id or self._membership.new_id()
        if instance_id is None:
            if joins and member_id not in group.members:
                return Member(member_id=member_id)
            member = group.found(member_id)
        else:
            owner = group.static_member(instance_id)
            if joins:
                if owner is None:
                    return group.members.get(member_id) or Member(member_id=member_id)
                if owner.classic is None:
                    check_instance_is_free(owner, member_id, instance_id)
                return self._membership.replaced(group, owner, member_id, done)
            member = check_instance_is_own(owner, member_id, instance_id)
        check_epoch(member, request.member_epoch, request.topic_partitions)
        return member

    def _response(
        self, request: ConsumerGroupHeartbeatRequest, before: Assigned, after: Member
    ) -> ConsumerGroupHeartbeatResponse:
        config = self._surroundings.group_config(request.group_id)
        is_news = is_full(request) or after.assigned != before
        return ConsumerGroupHeartbeatResponse(
            member_id=after.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=config.consumer_heartbeat_interval_ms,
            assignment=assignment(after.assigned) if is_news else None,
        )

    # Groups

    def _groups(self) -> list[ConsumerGroup]:
        groups = self._surroundings.groups.values()
        return [group for group in groups if isinstance(group, ConsumerGroup)]

    def _known(self, group_id: str) -> ConsumerGroup:
        """Raise KafkaError."""
        group = self._surroundings.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise _no_consumer_group(group_id)
        return group


def _is_too_late(timer: Timer, member: Member) -> bool:
    """Whether what was to be done until now is not done. Most timers are never taken back."""
    if timer.kind == REVOCATION:
        return member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS
    if timer.kind in (REJOIN, SYNC):
        return member.classic is not None
    return timer.kind == SESSION


def _refusal(ticket: Ticket, others: list[Reply]) -> Callable[[KafkaError], Decision] | None:
    """If the log refuses to convert a classic group, its members go on waiting as before."""
    if not others:
        return None
    return lambda error: Decision(replies=[Reply(ticket, error)])


def _away(member: Member) -> Member:
    """A static member that will be back. It keeps what it has, and who comes back may commit it
    in any epoch."""
    return replace(
        member,
        epoch=LEAVING_FOR_A_WHILE,
        assigned={t: dict.fromkeys(epochs, 0) for t, epochs in member.assigned.items()},
        pending_revocation={},
    )


def _no_consumer_group(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
