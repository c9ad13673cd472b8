"""JoinGroup: who is let into a classic group, as whom, and what follows from it."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec.structs import replace

from pyk.coordinator.classic.answers import joined, not_joined, not_synced
from pyk.coordinator.classic.generation import Generation
from pyk.coordinator.classic.group import ClassicGroup, State
from pyk.coordinator.classic.member import Member, named, rebalance_timeout_ms, session_of
from pyk.coordinator.classic.rebalance import Draft, Rebalances
from pyk.coordinator.group import Caller, Surroundings
from pyk.coordinator.machine import Decision, Reply, Ticket
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.join_group import JoinGroupRequest

METADATA_BATCHES_MAX: Final = 4
"""A member's metadata for all of its protocols may be so many times as large as a batch. Kafka
takes what fits a request."""
NEW_MEMBER_TIMEOUT: Final = 300.0
"""How long somebody waits for its first generation. It has no session to keep up yet, and whoever
hung up meanwhile must not stay for ever."""


class Join:
    """One request to join a group, of which a decision is made."""

    def __init__(
        self,
        surroundings: Surroundings,
        group: ClassicGroup,
        request: JoinGroupRequest,
        caller: Caller,
        ticket: Ticket,
        now: float,
    ) -> None:
        self._surroundings = surroundings
        self._rebalances = Rebalances(surroundings)
        self._group = group
        self._request = request
        self._caller = caller
        self._ticket = ticket
        self._now = now
        self._draft = Draft()

    def decide(self) -> Draft:
        member_id = self._request.member_id
        if self._brings_too_much():
            self._refuse(ErrorCode.MESSAGE_TOO_LARGE, member_id)
        elif not self._has_room():
            self._turn_away()
        elif not self._group.supports(self._request):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif not member_id:
            self._newcomer()
        elif member_id in self._group.pending:
            if self._request.group_instance_id is not None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a static member is not pending")
            self._add(member_id)
        else:
            self._known()
        return self._draft

    def _brings_too_much(self) -> bool:
        """Members are kept in memory, with all that they say of themselves. What is chosen of it
        has to fit a batch of the log."""
        size = sum(len(protocol.metadata) for protocol in self._request.protocols)
        return size > METADATA_BATCHES_MAX * self._surroundings.config().message_max_bytes

    def _has_room(self) -> bool:
        """While members rejoin, those who have count: whoever comes late may be one too many, even
        an old member, if the limit was lowered."""
        group, member_id = self._group, self._request.member_id
        size_max = self._surroundings.config().group_max_size
        match group.state:
            case State.EMPTY:
                return True
            case State.PREPARING:
                return member_id in group.joining or len(group.joining) < size_max
            case _:
                return member_id in group.members or len(group.members) < size_max

    def _turn_away(self) -> None:
        group = self._group
        self._rebalances.dismiss(self._draft, group, self._request.member_id)
        self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if group.state is State.PREPARING:
            self._rebalances.complete_if_due(self._draft, group, self._now)

    def _refuse(self, error: ErrorCode, member_id: str = "") -> None:
        self._draft.answer(self._ticket, not_joined(error, member_id))

    def _newcomer(self) -> None:
        instance_id = self._request.group_instance_id
        name = self._caller.client_id if instance_id is None else instance_id
        member_id = f"{name}-{UUID(int=self._surroundings.rng.getrandbits(128), version=4)}"
        if instance_id is not None and instance_id in self._group.statics:
            self._take_over(self._group.statics[instance_id], member_id)
        elif instance_id is None and must_bring_a_member_id(self._caller):
            self._group.pending.add(member_id)
            session = session_of(self._group.group_id, member_id)
            timeout = self._request.session_timeout_ms / 1000
            self._surroundings.timers.set(session, self._now + timeout)
            self._refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        else:
            self._add(member_id)

    def _add(self, member_id: str) -> None:
        group = self._group
        member = Member.joining(member_id, self._request, self._caller)
        if group.gathers_until is not None:
            group.has_grown = True
        group.add(member, self._request.protocol_type)
        group.joining[member_id] = self._ticket
        self._surroundings.timers.set(member.session, self._now + NEW_MEMBER_TIMEOUT)
        self._rebalances.prepare_or_complete(self._draft, group, self._now)

    def _known(self) -> None:
        group, request = self._group, self._request
        try:
            member = group.member(request.member_id, request.group_instance_id)
        except KafkaError as refusal:
            self._refuse(refusal.code, request.member_id)
            return
        # A leader may know of changes that its own metadata does not show, such as new partitions.
        wants_a_rebalance = group.state is State.STABLE and group.leader == member.member_id
        if (
            group.state is State.PREPARING
            or wants_a_rebalance
            or not member.says_the_same(request.protocols)
        ):
            group.changing().update(self._described(member))
            self._wait_for_the_next_generation(member.member_id)
            self._rebalances.prepare_or_complete(self._draft, group, self._now)
        else:
            # It may have missed the answer to its last request.
            self._draft.answer(self._ticket, joined(group.current, member.member_id))

    def _described(self, member: Member) -> Member:
        """The member as it describes itself now."""
        return replace(
            member,
            protocols=named(self._request.protocols),
            rebalance_timeout_ms=rebalance_timeout_ms(self._request, self._caller),
            session_timeout_ms=self._request.session_timeout_ms,
        )

    def _wait_for_the_next_generation(self, member_id: str) -> None:
        # Whoever asks twice has given up on the first answer.
        superseded = not_joined(ErrorCode.REBALANCE_IN_PROGRESS, member_id)
        self._draft.answer(self._group.joining.get(member_id), superseded)
        self._group.joining[member_id] = self._ticket

    def _take_over(self, old_id: str, new_id: str) -> None:
        """A static member has come back, and does not know who it was. Whoever still goes by its
        old id is fenced (KIP-345)."""
        group, draft = self._group, self._draft
        old, session = group.members[old_id], session_of(group.group_id, new_id)
        new = self._described(replace(old, member_id=new_id, session=session))
        group.touch(new, self._now)
        if group.state is State.STABLE:
            after = group.current.copy()
            after.replace(old, new)
            if after.choose_protocol() == group.protocol:
                self._go_on(old, new, after)
                return
        fenced = ErrorCode.FENCED_INSTANCE_ID
        draft.answer(group.joining.pop(old_id, None), not_joined(fenced, old_id))
        draft.answer(group.syncing.pop(old_id, None), not_synced(fenced))
        self._surroundings.timers.cancel(old.session)
        group.replace(old, new)
        self._wait_for_the_next_generation(new_id)
        if group.state is State.PREPARING:
            self._rebalances.complete_if_due(draft, group, self._now)
        else:
            self._rebalances.prepare(draft, group, self._now)

    def _go_on(self, old: Member, new: Member, after: Generation) -> None:
        """With the assignment that the member had, and without a rebalance, once the log knows who
        it is."""
        group, before = self._group, self._group.current
        if can_skip_the_assignment(self._caller):
            is_leader = after.leader == new.member_id
            response = joined(after, new.member_id, skip_assignment=is_leader)
        else:
            # Not to be the leader keeps it from sharing out what is shared out already.
            response = joined(after, new.member_id, leader=before.leader)
        self._draft.answer(self._ticket, response)
        self._draft.records.append(group.record(after.to_store()))
        group.returning = new

        def stay(error: KafkaError) -> Decision:
            """It is who it was, and lives."""
            self._surroundings.timers.cancel(new.session)
            group.touch(old, self._now)
            refused = joined(before, "", leader=before.leader, error=error.code)
            return Decision(replies=[Reply(self._ticket, refused)])

        self._draft.otherwise = stay


def must_bring_a_member_id(caller: Caller) -> bool:
    """KIP-394: since v4 a first join is refused and told its id, so that retries do not pile up."""
    return caller.version >= 4


def can_skip_the_assignment(caller: Caller) -> bool:
    """KIP-814: since v9 a leader can be told that it leads and has nothing to share out."""
    return caller.version >= 9
