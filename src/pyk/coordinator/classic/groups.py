"""The classic groups of a shard, as a machine: what members ask for, and what time brings.

A log has of a group what its leader has decided, or that nobody is left, and a group has that by
`apply` only. Everything else is soft: after a restart a group is as it was last written down,
and whoever has joined since comes again when it is told that nobody knows it.
"""

from __future__ import annotations

from pyk.coordinator.classic.answers import described, not_joined, not_synced, synced
from pyk.coordinator.classic.group import ClassicGroup, State
from pyk.coordinator.classic.joining import Join
from pyk.coordinator.classic.member import SESSION
from pyk.coordinator.classic.rebalance import JOIN, SYNC, Draft, Rebalances
from pyk.coordinator.group import Caller, Surroundings, Timer
from pyk.coordinator.machine import Decision, Record, Reply, Ticket
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.describe_groups import DescribedGroup
from pyk.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from pyk.wire.messages.join_group import JoinGroupRequest
from pyk.wire.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from pyk.wire.messages.sync_group import SyncGroupRequest


class ClassicGroups:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._groups = surroundings.groups
        self._rebalances = Rebalances(surroundings)

    # Records

    def simple(self, group_id: str) -> ClassicGroup:
        """A group that has offsets, and no members so far."""
        group = self._groups[group_id] = ClassicGroup(group_id, self._surroundings.timers)
        return group

    def apply(self, record: Record) -> None:
        group_id: str = record.key.group
        group = self._groups.get(group_id)
        if record.value is None:
            if isinstance(group, ClassicGroup):
                self._rebalances.forget(group)
                del self._groups[group_id]
        elif isinstance(group, ClassicGroup):
            self._rebalances.take(group, record.value)
        else:
            staged = self._surroundings.staged
            if staged is None or staged.group_id != group_id:
                staged = ClassicGroup(group_id, self._surroundings.timers)
            self._surroundings.staged = None
            staged.begin(record.value)
            self._groups[group_id] = staged

    def on_loaded(self, now: float) -> None:
        size_max = self._surroundings.config().group_max_size
        for group in self._groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    group.touch(member, now)
                if len(group.members) > size_max:
                    # Whoever rejoins too late is turned away, after it could commit its offsets.
                    self._rebalances.prepare(Draft(), group, now)

    # What members ask for

    def join(
        self, request: JoinGroupRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        """It may make a group, also in the place of an empty one of another type."""
        found = self._groups.get(request.group_id)
        if isinstance(found, ClassicGroup):
            return Join(self._surroundings, found, request, caller, ticket, now).decide().decided()
        if request.member_id:
            refusal = not_joined(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            return Decision(replies=[Reply(ticket, refusal)])
        timers, now_ms = self._surroundings.timers, self._surroundings.now_ms()
        group = ClassicGroup(request.group_id, timers, now_ms)
        self._surroundings.staged = group
        draft = Join(self._surroundings, group, request, caller, ticket, now).decide()
        draft.records.append(group.record_of_nobody())

        def forget(error: KafkaError) -> Decision:
            self._rebalances.forget(group)
            return Decision(replies=[Reply(ticket, not_joined(error.code))])

        draft.otherwise = forget
        return draft.decided()

    def sync(
        self, request: SyncGroupRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        group = self._found(request.group_id)
        member = group.member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if _contradicts(request.protocol_type, group.protocol_type) or _contradicts(
            request.protocol_name, group.protocol
        ):
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is State.PREPARING:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        draft = Draft()
        self._rebalances.has_synced(group, member.member_id)
        if group.state is State.STABLE:
            draft.answer(ticket, synced(group.current, member.assignment))
            return draft.decided()
        # Whoever asks twice has given up on the first answer.
        superseded = not_synced(ErrorCode.REBALANCE_IN_PROGRESS)
        draft.answer(group.syncing.get(member.member_id), superseded)
        group.syncing[member.member_id] = ticket
        if group.leader == member.member_id:
            assignments = {each.member_id: each.assignment for each in request.assignments}
            self._rebalances.hand_out(draft, group, assignments, now)
        return draft.decided()

    def heartbeat(
        self, request: HeartbeatRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        group = self._found(request.group_id)
        member = group.member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        group.touch(member, now)
        is_rebalancing = group.state is State.PREPARING
        error = ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE
        return Decision(replies=[Reply(ticket, HeartbeatResponse(error_code=error))])

    def leave(
        self, request: LeaveGroupRequest, caller: Caller, ticket: Ticket, now: float
    ) -> Decision:
        draft, responses = Draft(), []
        group = self._groups.get(request.group_id)
        for leaving in request.members:
            error = ErrorCode.UNKNOWN_MEMBER_ID
            if isinstance(group, ClassicGroup):
                error = self._let_go(draft, group, leaving)
            responses.append(
                MemberResponse(
                    member_id=leaving.member_id,
                    group_instance_id=leaving.group_instance_id,
                    error_code=error,
                )
            )
        draft.answer(ticket, LeaveGroupResponse(members=responses))
        has_changed = any(response.error_code == ErrorCode.NONE for response in responses)
        if has_changed and isinstance(group, ClassicGroup) and group.state is not State.EMPTY:
            self._rebalances.prepare_or_complete(draft, group, now)
        return draft.decided()

    def describe(self, group: ClassicGroup, authorized_operations: int) -> DescribedGroup:
        return described(group, authorized_operations)

    # What time brings

    def expire(self, timer: Timer, now: float) -> Decision:
        draft, group = Draft(), self._groups.get(timer.group_id)
        if isinstance(group, ClassicGroup):
            if timer.kind == SESSION:
                self._on_session_timeout(draft, group, timer.member_id, now)
            elif timer.kind == JOIN:
                self._rebalances.on_join_timeout(draft, group, now)
            elif timer.kind == SYNC:
                self._rebalances.on_sync_timeout(draft, group, now)
        return draft.decided()

    def _on_session_timeout(
        self, draft: Draft, group: ClassicGroup, member_id: str, now: float
    ) -> None:
        member = group.members.get(member_id)
        if member is None and member_id not in group.pending:
            return
        is_waiting = member_id in group.joining or member_id in group.syncing
        if member is not None and is_waiting and member_id not in group.newcomers:
            # It has a session again when it is answered.
            return
        self._rebalances.dismiss(draft, group, member_id)
        if group.state is State.PREPARING:
            if group.all_have_joined:
                self._rebalances.complete(draft, group, now)
        elif member is not None:
            self._rebalances.prepare(draft, group, now)

    def _found(self, group_id: str) -> ClassicGroup:
        group = self._groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def _let_go(self, draft: Draft, group: ClassicGroup, leaving: MemberIdentity) -> ErrorCode:
        member_id, instance_id = leaving.member_id, leaving.group_instance_id
        if not member_id and instance_id is not None:
            # Administrators know a static member by its instance id only.
            member_id = group.statics.get(instance_id, "")
        try:
            if member_id not in group.pending:
                group.member(member_id, instance_id)
        except KafkaError as refusal:
            return refusal.code
        self._rebalances.dismiss(draft, group, member_id)
        return ErrorCode.NONE


def _contradicts(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known
