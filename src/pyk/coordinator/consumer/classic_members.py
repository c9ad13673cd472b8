"""Members of a consumer group that speak the classic protocol, until all have changed to the new.

    JoinGroup    is what a heartbeat is to others: it moves the member on, and tells its epoch
    SyncGroup    tells what it has been assigned
    Heartbeat    tells whether it should join again

Nobody leads: it is the broker that shares out. A member that should join or sync, and does not in
time, is out.
"""

from __future__ import annotations

from msgspec.structs import replace

from pyk.coordinator.classic.answers import not_joined
from pyk.coordinator.classic.generation import CONSUMER
from pyk.coordinator.classic.joining import must_bring_a_member_id
from pyk.coordinator.classic.member import named, rebalance_timeout_ms
from pyk.coordinator.consumer import conversion
from pyk.coordinator.consumer.consumer_protocol import (
    decode_subscription,
    encode_assignment,
    owned_in,
    version_to_answer,
)
from pyk.coordinator.consumer.group import REJOIN, SYNC, ConsumerGroup
from pyk.coordinator.consumer.heartbeats import check_instance_is_own
from pyk.coordinator.consumer.member import Member, MemberState
from pyk.coordinator.consumer.membership import Membership
from pyk.coordinator.group import Caller, Surroundings, Timer
from pyk.coordinator.machine import Decision, Record, Reply, Ticket
from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from pyk.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from pyk.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from pyk.wire.payloads.consumer_protocol import ConsumerProtocolSubscription


class ClassicMembers:
    def __init__(self, surroundings: Surroundings, membership: Membership) -> None:
        self._surroundings = surroundings
        self._membership = membership

    def join(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        caller: Caller,
        ticket: Ticket,
        now: float,
    ) -> Decision:
        """Raise KafkaError."""
        if self._surroundings.config().group_consumer_migration_policy.lower() == "disabled":
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = request.member_id or self._membership.new_id()
        self._membership.check_room(group, member_id)
        if not _is_supported(group, request):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_dynamic = request.group_instance_id is None
        if is_dynamic and not request.member_id and must_bring_a_member_id(caller):
            refusal = not_joined(ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return Decision(replies=[Reply(ticket, refusal)])
        done: list[Record] = []
        owner = _static_member(group, request.group_instance_id)
        before = self._member(group, request, member_id, done)
        try:
            subscription = decode_subscription(request.protocols[0].metadata)
        except ProtocolError as error:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        after = _described(before, request, caller, subscription)
        held = owned_in(subscription, self._surroundings.image)
        is_downgraded = owner is not None and self._is_downgraded_by(group, owner)
        after, epoch = self._membership.advance(
            group, before, after, held, done, now, makes_target=not is_downgraded
        )
        generation = after.epoch
        if is_downgraded:
            assert owner is not None
            is_due = group.target_epoch < epoch
            done = conversion.to_classic(
                group, [owner], self._surroundings, now, after, is_rebalanced=is_due
            )
            generation = group.epoch
        else:
            self._expect_sync(group.group_id, after, now)
        response = JoinGroupResponse(
            generation_id=generation,
            protocol_type=CONSUMER,
            protocol_name=request.protocols[0].name,
            leader="",
            member_id=after.member_id,
            members=[],
        )
        return Decision(done, [Reply(ticket, response)])

    def _is_downgraded_by(self, group: ConsumerGroup, replaced: Member) -> bool:
        """Whether the one that is replaced is the last that speaks the new protocol."""
        if replaced.classic is not None:
            return False
        config = self._surroundings.config()
        return conversion.may_be_classic_without(group, [replaced], config, joining=1)

    def _member(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        member_id: str,
        done: list[Record],
    ) -> Member:
        """The member as it was. One that is static takes the place of who had its instance, also of
        one that speaks the new protocol."""
        instance_id = request.group_instance_id
        if instance_id is None:
            return group.members.get(member_id) or Member(member_id=member_id)
        owner = group.static_member(instance_id)
        if request.member_id:
            return check_instance_is_own(owner, member_id, instance_id)
        if owner is None:
            return Member(member_id=member_id)
        return self._membership.replaced(group, owner, member_id, done)

    def _expect_sync(self, group_id: str, member: Member, now: float) -> None:
        self._membership.expect(group_id, member, now)
        timers = self._surroundings.timers
        timers.cancel(Timer(group_id, REJOIN, member.member_id))
        timeout = member.rebalance_timeout_ms / 1000
        timers.set(Timer(group_id, SYNC, member.member_id), now + timeout)

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, ticket: Ticket, now: float
    ) -> Decision:
        """Raise KafkaError."""
        member = _classic_member(group, request.member_id, request.group_instance_id)
        assert member.classic is not None
        _check_generation(member, request.generation_id)
        protocol = member.classic.supported_protocols[0]
        if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (
            None,
            protocol.name,
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        is_revoking = member.state is MemberState.UNREVOKED_PARTITIONS
        if group.target_epoch > member.epoch and not is_revoking:
            self._expect_rejoin(group.group_id, member, now)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._surroundings.timers.cancel(Timer(group.group_id, SYNC, member.member_id))
        self._membership.expect(group.group_id, member, now)
        assigned = {t: frozenset(epochs) for t, epochs in member.assigned.items()}
        version = version_to_answer(protocol.metadata)
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encode_assignment(assigned, version, self._surroundings.image),
        )
        return Decision(replies=[Reply(ticket, response)])

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, ticket: Ticket, now: float
    ) -> Decision:
        """Raise KafkaError."""
        member = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        self._membership.expect(group.group_id, member, now)
        error = ErrorCode.NONE
        if _should_join_again(group, member):
            error = ErrorCode.REBALANCE_IN_PROGRESS
            self._expect_rejoin(group.group_id, member, now)
        return Decision(replies=[Reply(ticket, HeartbeatResponse(error_code=error))])

    def _expect_rejoin(self, group_id: str, member: Member, now: float) -> None:
        timer = Timer(group_id, REJOIN, member.member_id)
        if timer not in self._surroundings.timers:
            timeout = member.rebalance_timeout_ms / 1000
            self._surroundings.timers.set(timer, now + timeout)

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, ticket: Ticket, now: float
    ) -> Decision:
        gone: dict[str, Member] = {}
        responses = []
        for leaving in request.members:
            error = ErrorCode.NONE
            try:
                member = _leaving_member(group, leaving)
                gone[member.member_id] = member
            except KafkaError as refusal:
                error = refusal.code
            responses.append(
                MemberResponse(
                    member_id=leaving.member_id,
                    group_instance_id=leaving.group_instance_id,
                    error_code=error,
                )
            )
        done = self._membership.removed(group, list(gone.values()), now) if gone else []
        return Decision(done, [Reply(ticket, LeaveGroupResponse(members=responses))])


def _is_supported(group: ConsumerGroup, request: JoinGroupRequest) -> bool:
    """Whether who wants to join has something in common with all other classic members."""
    return request.protocol_type == CONSUMER and any(
        group.classic_counts.get(protocol.name, 0) == group.classic_members_count
        for protocol in request.protocols
    )


def _described(
    before: Member,
    request: JoinGroupRequest,
    caller: Caller,
    subscription: ConsumerProtocolSubscription,
) -> Member:
    after = replace(
        before,
        instance_id=request.group_instance_id or before.instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms(request, caller),
        subscribed_topic_names=frozenset(subscription.topics),
        subscribed_topic_regex="",
        client_id=caller.client_id,
        client_host=caller.host,
        classic=conversion.classic_metadata(
            request.session_timeout_ms, named(request.protocols).items()
        ),
    )
    return before if after == before else after


def _static_member(group: ConsumerGroup, instance_id: str | None) -> Member | None:
    return None if instance_id is None else group.static_member(instance_id)


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """Raise KafkaError."""
    if instance_id is None:
        member = group.found(member_id)
    else:
        member = check_instance_is_own(group.static_member(instance_id), member_id, instance_id)
    if member.classic is None:
        message = f"Member {member_id} does not use the classic protocol."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, message)
    return member


def _leaving_member(group: ConsumerGroup, leaving: MemberIdentity) -> Member:
    """Of either protocol: administrators send any member away, and a static one by its instance
    alone. Raise KafkaError."""
    instance_id = leaving.group_instance_id
    if instance_id is None:
        return group.found(leaving.member_id)
    owner = group.static_member(instance_id)
    member_id = leaving.member_id or (owner.member_id if owner is not None else "")
    return check_instance_is_own(owner, member_id, instance_id)


def _check_generation(member: Member, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)


def _should_join_again(group: ConsumerGroup, member: Member) -> bool:
    """There is a new target, or it has to say that it gave something back, or what it waits for is
    free."""
    if member.epoch < group.target_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not any(
        group.is_owned(topic_id, partition)
        for topic_id, partitions in group.targets.get(member.member_id, {}).items()
        for partition in partitions - member.assigned.get(topic_id, {}).keys()
    )
