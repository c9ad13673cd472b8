"""From one generation of a classic group to the next.

    prepare    members are called to join again; a group that was empty gathers for a while
    complete   all have joined, or had their time: those who have not are out, a generation begins
    hand out   the leader has shared out the work, and each member gets its part

Members who never ask for their part are out as well, and it all begins again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyk.coordinator.classic.answers import joined, not_joined, not_synced, synced
from pyk.coordinator.classic.group import ClassicGroup, State
from pyk.coordinator.classic.member import session_of
from pyk.coordinator.group import Surroundings, Timer
from pyk.coordinator.machine import Decision, Record, Reply, Ticket
from pyk.errors import ErrorCode, KafkaError

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
        group.begin_generation(self._surroundings.now_ms())
        self._surroundings.rebalances += 1
        if not group.members:
            draft.records.append(group.record())
            return
        for member in group.members.values():
            draft.answer(group.joining.pop(member.member_id, None), joined(group, member.member_id))
            group.touch(member, now)
            member.is_new = False
            group.unsynced.add(member.member_id)
        self._timers.set(Timer(group.group_id, SYNC), now + group.rebalance_timeout)

    def hand_out(
        self, draft: Draft, group: ClassicGroup, assignments: dict[str, bytes], now: float
    ) -> None:
        """A member that the leader has forgotten gets nothing to do, and no error."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        draft.records.append(group.record())
        waiting = list(group.syncing.values())
        for member_id in list(group.syncing):
            member = group.members[member_id]
            draft.answer(group.syncing.pop(member_id), synced(group, member))
            group.touch(member, now)
        group.move_to(State.STABLE, self._surroundings.now_ms())

        def begin_again(error: KafkaError) -> Decision:
            instead = Draft()
            for ticket in waiting:
                instead.answer(ticket, not_synced(error.code))
            for member in group.members.values():
                member.assignment = b""
            self.prepare(instead, group, now)
            return instead.decided()

        draft.otherwise = begin_again

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
        for member in group.members.values():
            member.assignment = b""
            ticket = group.syncing.pop(member.member_id, None)
            if ticket is not None:
                draft.answer(ticket, not_synced(ErrorCode.REBALANCE_IN_PROGRESS))
                group.touch(member, now)

    def _has_leader(self, group: ClassicGroup) -> bool:
        """Whether there is one who has joined. Another one takes over from one who has not."""
        if group.leader not in group.joining:
            group.leader = next((m for m in group.members if m in group.joining), group.leader)
        return group.leader in group.joining
