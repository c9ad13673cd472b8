"""From one generation of a classic group to the next.

    prepare    members are called to join again; a group that was empty gathers for a while
    complete   all have joined, or had their time: those who have not are out, a generation begins
    hand out   the leader has shared out the work, and each member gets its part

Members who never ask for their part are out as well, and it all begins again. So it does if the log
refuses what the leader has shared out. If the log refuses that nobody is left, it is asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyk.coordinator.assigned import RETRY_AFTER
from pyk.coordinator.classic.answers import joined, not_joined, not_synced, synced
from pyk.coordinator.classic.group import ClassicGroup, State
from pyk.coordinator.classic.member import session_of
from pyk.coordinator.group import Surroundings, Timer
from pyk.coordinator.machine import Decision, Record, Reply, Ticket
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.payloads.classic_group_records import GroupMetadataValue

JOIN: Final = "join"
SYNC: Final = "sync"


class Draft:
    """A decision that is being made."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.replies: list[Reply] = []
        self.otherwise: Callable[[KafkaError], Decision] | None = None

    def answer(self, ticket: Ticket | None, response: Any) -> None:
        """None is nobody, who needs no answer."""
        if ticket is not None:
            self.replies.append(Reply(ticket, response))

    def decided(self) -> Decision:
        return Decision(self.records, self.replies, self.otherwise)


class Rebalances:
    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._timers = surroundings.timers

    def prepare_or_complete(self, draft: Draft, group: ClassicGroup, now: float) -> None:
        """Members have come or changed: that calls for a rebalance, or is what one waits for."""
        if group.state is State.PREPARING:
            self.complete_if_due(draft, group, now)
        else:
            self.prepare(draft, group, now)

    def prepare(self, draft: Draft, group: ClassicGroup, now: float) -> None:
        if group.state is State.COMPLETING:
            self._call_off(draft, group, now)
        group.unsynced.clear()
        self._timers.cancel(Timer(group.group_id, SYNC))
        was_empty = group.state is State.EMPTY
        group.move_to(State.PREPARING, self._surroundings.now_ms())
        if was_empty:
            self._gather(group, now)
        elif group.all_have_joined:
            self.complete(draft, group, now)
        else:
            self._timers.set(Timer(group.group_id, JOIN), now + group.rebalance_timeout)

    def complete_if_due(self, draft: Draft, group: ClassicGroup, now: float) -> None:
        if group.gathers_until is None and group.all_have_joined:
            self.complete(draft, group, now)

    def complete(self, draft: Draft, group: ClassicGroup, now: float) -> None:
        """Go on without those who have not joined. Static members are waited for by their sessions
        only."""
        self._timers.cancel(Timer(group.group_id, JOIN))
        for member in list(group.members.values()):
            if member.instance_id is None and member.member_id not in group.joining:
                self.dismiss(draft, group, member.member_id)
        if group.members and not self._has_leader(group):
            self._timers.set(Timer(group.group_id, JOIN), now + group.rebalance_timeout)
            return
        group.gathers_until = None
        if not group.members:
            # When the log has taken it there is nothing left to do.
            self._timers.set(Timer(group.group_id, JOIN), now + RETRY_AFTER)
            draft.records.append(group.record_of_empty(self._surroundings.now_ms()))
            return
        group.begin_generation(self._surroundings.now_ms())
        self._surroundings.rebalances += 1
        for member in group.members.values():
            ticket = group.joining.pop(member.member_id, None)
            draft.answer(ticket, joined(group.current, member.member_id))
            group.touch(member, now)
        self._timers.set(Timer(group.group_id, SYNC), now + group.rebalance_timeout)

    def hand_out(
        self, draft: Draft, group: ClassicGroup, assignments: dict[str, bytes], now: float
    ) -> None:
        """A member that the leader has forgotten gets nothing to do, and no error."""
        draft.records.append(group.record(group.current.to_store(assignments)))
        for member_id, ticket in group.syncing.items():
            draft.answer(ticket, synced(group.current, assignments.get(member_id, b"")))
            group.touch(group.members[member_id], now)

        def begin_again(error: KafkaError) -> Decision:
            instead = Draft()
            for ticket, _ in draft.replies:
                instead.answer(ticket, not_synced(error.code))
            group.syncing.clear()
            self.prepare(instead, group, now)
            return instead.decided()

        draft.otherwise = begin_again

    def take(self, group: ClassicGroup, value: GroupMetadataValue) -> None:
        """The log has taken what came of a rebalance, or a new id of a static member."""
        before = group.members
        group.take(value)
        self._timers.cancel(Timer(group.group_id, JOIN))
        for member_id in before.keys() - group.members.keys():
            self._timers.cancel(before[member_id].session)

    def has_synced(self, group: ClassicGroup, member_id: str) -> None:
        group.unsynced.discard(member_id)
        if not group.unsynced:
            self._timers.cancel(Timer(group.group_id, SYNC))

    def dismiss(self, draft: Draft, group: ClassicGroup, member_id: str) -> None:
        """A member or a pending one is out. What it waits for it does not get."""
        self._timers.cancel(session_of(group.group_id, member_id))
        unknown = ErrorCode.UNKNOWN_MEMBER_ID
        draft.answer(group.joining.pop(member_id, None), not_joined(unknown))
        draft.answer(group.syncing.pop(member_id, None), not_synced(unknown))
        group.remove(member_id)

    def forget(self, group: ClassicGroup) -> None:
        """The group is gone, and with it all that it would have done some time."""
        for kind in (JOIN, SYNC):
            self._timers.cancel(Timer(group.group_id, kind))
        for member_id in [*group.members, *group.pending]:
            self._timers.cancel(session_of(group.group_id, member_id))

    def on_join_timeout(self, draft: Draft, group: ClassicGroup, now: float) -> None:
        if group.state is not State.PREPARING:
            return
        if group.gathers_until is not None and group.has_grown and now < group.gathers_until:
            group.has_grown = False
            self._wait_for_more(group, group.gathers_until, now)
        else:
            self.complete(draft, group, now)

    def on_sync_timeout(self, draft: Draft, group: ClassicGroup, now: float) -> None:
        if group.unsynced:
            for member_id in list(group.unsynced):
                self.dismiss(draft, group, member_id)
            self.prepare(draft, group, now)

    def _gather(self, group: ClassicGroup, now: float) -> None:
        group.gathers_until = now + max(group.rebalance_timeout, self._delay)
        group.has_grown = False
        self._wait_for_more(group, group.gathers_until, now)

    def _wait_for_more(self, group: ClassicGroup, until: float, now: float) -> None:
        self._timers.set(Timer(group.group_id, JOIN), min(now + self._delay, until))

    @property
    def _delay(self) -> float:
        return self._surroundings.config().group_initial_rebalance_delay_ms / 1000

    def _call_off(self, draft: Draft, group: ClassicGroup, now: float) -> None:
        """Who waits for an assignment does not get one, and has to join again."""
        group.take_assignments_back()
        for member in group.members.values():
            ticket = group.syncing.pop(member.member_id, None)
            if ticket is not None:
                draft.answer(ticket, not_synced(ErrorCode.REBALANCE_IN_PROGRESS))
                group.touch(member, now)

    def _has_leader(self, group: ClassicGroup) -> bool:
        """Whether there is one who has joined. Another one takes over from one who has not."""
        if group.leader not in group.joining:
            leader = next((m for m in group.members if m in group.joining), group.leader)
            group.changing().leader = leader
        return group.leader in group.joining
