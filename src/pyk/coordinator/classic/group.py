"""A classic group: its members, and where it is between two generations.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
               members rejoin         all wait for           each has
               and wait               the leader             its assignment

From anywhere back to PreparingRebalance when members come, go or change their minds, and from there
to Empty when the last has gone. Generations only grow.

- What the log has of a group is `stored`, which records change and nothing else. An empty or a
  stable group is that.
- A rebalance changes a copy of it, `current`, and ends when the log has taken what came of it.
- Who waits for an answer, and what is due some time, is not in the log.

What changes a group is in `rebalance.py` and `groups.py`; here is what it consists of, and what may
be asked of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from pyk.coordinator.classic.generation import CONSUMER, Generation
from pyk.coordinator.classic.member import Member
from pyk.coordinator.group import GroupType, Timer
from pyk.coordinator.machine import Record, Ticket
from pyk.coordinator.timers import Timers
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.join_group import JoinGroupRequest
from pyk.wire.payloads.classic_group_records import GroupMetadataKey, GroupMetadataValue

VALUE_VERSION: Final = 3


class State(StrEnum):
    """Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


NEXT: Final = {
    State.EMPTY: {State.PREPARING},
    State.PREPARING: {State.COMPLETING},
    State.COMPLETING: {State.PREPARING},
    State.STABLE: {State.PREPARING},
}
"""Where decisions move a group. What makes it empty or stable is a record."""


class ClassicGroup:
    type = GroupType.CLASSIC

    def __init__(self, group_id: str, timers: Timers[Timer], since_ms: int | None = None) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.stored = Generation(since_ms)
        self.current = self.stored
        self.pending: set[str] = set()
        """Ids that were given out to those who must come back with them (KIP-394)."""
        self.newcomers: set[str] = set()
        """Members who wait for their first generation, so they have never heard of a session."""
        self.joining: dict[str, Ticket] = {}
        """Members who wait for the next generation."""
        self.syncing: dict[str, Ticket] = {}
        """Members who wait for their assignments."""
        self.unsynced: set[str] = set()
        """Members of this generation who have not asked for their assignments."""
        self.returning: Member | None = None
        """A static member under the new id that the log is asked to take."""
        self.gathers_until: float | None = None
        """Up to when a group that was empty may wait for more members, while it does."""
        self.has_grown = False
        """Somebody came while it gathered."""
        self._timers = timers

    # Records

    def begin(self, value: GroupMetadataValue, known: Mapping[str, Member] | None = None) -> None:
        """Take the first record of it. If it is in a rebalance, that begins with the record."""
        state, rebalance = self.state, self.current
        is_rebalancing = rebalance is not self.stored
        self._read(value, self.members if known is None else known)
        if is_rebalancing:
            self.state, self.current = state, rebalance

    def take(self, value: GroupMetadataValue) -> None:
        """Take a record, which ends a rebalance."""
        before, known = self.statics, self.members
        if self.returning is not None:
            known = {**known, self.returning.member_id: self.returning}
            self.returning = None
        self._read(value, known)
        self.syncing.clear()
        for instance_id, member_id in self.statics.items():
            old_id = before.get(instance_id, member_id)
            if old_id != member_id and old_id in self.unsynced:
                self.unsynced.add(member_id)
        self.unsynced &= self.members.keys()

    def _read(self, value: GroupMetadataValue, known: Mapping[str, Member]) -> None:
        self.current = self.stored = Generation.read(self.group_id, value, known)
        self.state = State.STABLE if self.stored.members else State.EMPTY

    def record(self, value: GroupMetadataValue) -> Record:
        return Record(GroupMetadataKey(group=self.group_id), value, VALUE_VERSION)

    def record_of_nobody(self) -> Record:
        """That there is such a group, before it has had a generation."""
        return self.record(Generation(self.stored.since_ms).to_store())

    def record_of_empty(self, now_ms: int) -> Record:
        """That nobody is left."""
        empty = Generation(now_ms)
        empty.number, empty.protocol_type = self.generation + 1, self.protocol_type
        return self.record(empty.to_store())

    def tombstones(self) -> list[Record]:
        return [Record(GroupMetadataKey(group=self.group_id), None)]

    # Its generation

    @property
    def generation(self) -> int:
        return self.current.number

    @property
    def protocol_type(self) -> str:
        return self.current.protocol_type

    @property
    def protocol(self) -> str | None:
        return self.current.protocol

    @property
    def leader(self) -> str | None:
        return self.current.leader

    @property
    def members(self) -> Mapping[str, Member]:
        return self.current.members

    @property
    def statics(self) -> Mapping[str, str]:
        return self.current.statics

    @property
    def subscribed_topics(self) -> frozenset[str] | None:
        return self.current.subscribed_topics

    def changing(self) -> Generation:
        """What a rebalance changes."""
        if self.current is self.stored:
            self.current = self.stored.copy()
        return self.current

    # Its members

    def add(self, member: Member, protocol_type: str) -> None:
        """The first one says what kind of group it is."""
        changing = self.changing()
        if not changing.members:
            changing.protocol_type = protocol_type
        changing.add(member)
        self.newcomers.add(member.member_id)
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Let a member go to whom no answer is due."""
        assert member_id not in self.joining
        assert member_id not in self.syncing
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)
        self.newcomers.discard(member_id)
        if member_id in self.members:
            self.changing().remove(member_id)

    def replace(self, old: Member, new: Member) -> None:
        """Let a static member go on under another id, in a rebalance."""
        self.changing().replace(old, new)
        self.newcomers.discard(old.member_id)
        if old.member_id in self.unsynced:
            self.unsynced.remove(old.member_id)
            self.unsynced.add(new.member_id)

    def take_assignments_back(self) -> None:
        changing = self.changing()
        for member_id, member in changing.members.items():
            changing.members[member_id] = replace(member, assignment=b"")

    def member(self, member_id: str, instance_id: str | None) -> Member:
        """Who says that it is this one. Raise KafkaError."""
        if instance_id is not None:
            known = self.statics.get(instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def touch(self, member: Member, now: float) -> None:
        """It lives: its session lasts from now on."""
        self._timers.set(member.session, now + member.session_timeout_ms / 1000)

    @property
    def all_have_joined(self) -> bool:
        return len(self.joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout(self) -> float:
        """In seconds: the slowest member's."""
        slowest = max((m.rebalance_timeout_ms for m in self.members.values()), default=0)
        return max(slowest, 0) / 1000

    def supports(self, request: JoinGroupRequest) -> bool:
        """Whether who wants to join has something in common with all who are in."""
        if self.state is State.EMPTY:
            return bool(request.protocol_type and request.protocols)
        is_same_type = request.protocol_type == self.protocol_type
        return is_same_type and self.current.have_all_one_of(request.protocols)

    # Its state

    def move_to(self, state: State, now_ms: int) -> None:
        assert state in NEXT[self.state], (self.group_id, self.state, state)
        self.state, self.changing().since_ms = state, now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Of those who are in now."""
        self.changing().begin_next()
        self.newcomers.clear()
        self.unsynced = set(self.members)
        self.move_to(State.COMPLETING, now_ms)

    # What offsets, listings and deletions ask of it

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        version: int,
        is_transactional: bool,
    ) -> None:
        is_empty = self.state is State.EMPTY
        if generation < 0 and is_empty:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.member(member_id, instance_id)
            if generation != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not is_transactional and not is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not is_transactional and self.state is State.COMPLETING:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anybody may."""

    def check_offset_delete(self) -> None:
        if self.state is not State.EMPTY and self.protocol_type != CONSUMER:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        if self.state is not State.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    def offsets_age_from(self, commit_timestamp: int) -> int | None:
        """KIP-211: not while there are members, but for topics that they have turned from."""
        if not self.protocol_type:
            return commit_timestamp
        if self.state is State.EMPTY:
            since_ms = self.stored.since_ms
            return commit_timestamp if since_ms is None else since_ms
        if self.state is State.STABLE and self.subscribed_topics is not None:
            return commit_timestamp
        return None

    def note_commit(self, member_id: str, now: float) -> None:
        member = self.members.get(member_id)
        if member is not None and self.state in (State.STABLE, State.PREPARING):
            self.touch(member, now)
