"""A classic group: its members, and where it is between two generations.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable
               members rejoin         all wait for           each has
               and wait               the leader             its assignment

From anywhere back to PreparingRebalance when members come, go or change their minds, and from there
to Empty when the last has gone. Generations only grow. What changes a group is in `rebalance.py`
and `groups.py`; here is what it consists of, and what may be asked of it.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Final

from pyk.coordinator.classic.member import Member
from pyk.coordinator.classic.subscriptions import topics_in
from pyk.coordinator.group import GroupType, Timer
from pyk.coordinator.machine import Record, Ticket
from pyk.coordinator.timers import Timers
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupResponseMember
from pyk.wire.payloads.classic_group_records import GroupMetadataKey, GroupMetadataValue

CONSUMER: Final = "consumer"
"""The type of protocol that Kafka's consumers speak, the only one that brokers know a little of."""
VALUE_VERSION: Final = 3
UNKNOWN_TIME: Final = -1


class State(StrEnum):
    """Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


NEXT: Final = {
    State.EMPTY: {State.PREPARING},
    State.PREPARING: {State.COMPLETING, State.EMPTY},
    State.COMPLETING: {State.STABLE, State.PREPARING},
    State.STABLE: {State.PREPARING},
}


class ClassicGroup:
    type = GroupType.CLASSIC

    def __init__(self, group_id: str, timers: Timers[Timer], since_ms: int | None) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.since_ms = since_ms
        """When it came into this state, by the time of day. Old records do not tell."""
        self.generation = 0
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.statics: dict[str, str] = {}
        """The ids of static members, by their instance ids (KIP-345)."""
        self.pending: set[str] = set()
        """Ids that were given out to those who must come back with them (KIP-394)."""
        self.joining: dict[str, Ticket] = {}
        """Members who wait for the next generation."""
        self.syncing: dict[str, Ticket] = {}
        """Members who wait for their assignments."""
        self.unsynced: set[str] = set()
        """Members of this generation who have not asked for their assignments."""
        self.gathers_until: float | None = None
        """Up to when a group that was empty may wait for more members, while it does."""
        self.has_grown = False
        """Somebody came while it gathered."""
        self.subscribed_topics: frozenset[str] | None = None
        """Of all members of this generation, as far as a broker can tell."""
        self._supporters: Counter[str] = Counter()
        self._timers = timers

    @classmethod
    def restored(
        cls, group_id: str, timers: Timers[Timer], value: GroupMetadataValue
    ) -> ClassicGroup:
        since_ms = value.current_state_timestamp
        group = cls(group_id, timers, None if since_ms == UNKNOWN_TIME else since_ms)
        group.generation = value.generation
        group.protocol = value.protocol
        for member in value.members:
            group.add(Member.stored(group_id, value.protocol or "", member))
        group.protocol_type = value.protocol_type
        if value.leader in group.members:
            group.leader = value.leader
        if group.members:
            group.state = State.STABLE
        group.note_subscriptions()
        return group

    # Its members

    def add(self, member: Member) -> None:
        if member.instance_id is not None:
            self.statics[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(member.protocols.keys())
        self.pending.discard(member.member_id)
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        """Let a member go to whom no answer is due."""
        assert member_id not in self.joining
        assert member_id not in self.syncing
        self.pending.discard(member_id)
        self.unsynced.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._supporters.subtract(member.protocols.keys())
        if member.instance_id is not None:
            del self.statics[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: Member, new: Member) -> None:
        """Let a static member go on under another id, in everything that it was."""
        assert old.instance_id == new.instance_id is not None
        del self.members[old.member_id]
        self._supporters.subtract(old.protocols.keys())
        self.members[new.member_id] = new
        self._supporters.update(new.protocols.keys())
        self.statics[new.instance_id] = new.member_id
        if self.leader == old.member_id:
            self.leader = new.member_id
        if old.member_id in self.unsynced:
            self.unsynced.remove(old.member_id)
            self.unsynced.add(new.member_id)

    def set_protocols(self, member: Member, protocols: dict[str, bytes]) -> None:
        self._supporters.subtract(member.protocols.keys())
        member.protocols = protocols
        self._supporters.update(protocols.keys())

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

    def roster(self) -> list[JoinGroupResponseMember]:
        """What the leader has to know in order to share out the work."""
        assert self.protocol is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.protocols[self.protocol],
            )
            for member in self.members.values()
        ]

    # Its protocol

    def supports(self, request: JoinGroupRequest) -> bool:
        """Whether who wants to join has something in common with all who are in."""
        if self.state is State.EMPTY:
            return bool(request.protocol_type and request.protocols)
        everybody = len(self.members)
        return request.protocol_type == self.protocol_type and any(
            self._supporters[protocol.name] == everybody for protocol in request.protocols
        )

    def choose_protocol(self) -> str:
        """What most members like best of what all can do. In a tie it is what was named first."""
        everybody = len(self.members)
        common = {name for name, count in self._supporters.items() if count == everybody}
        votes = Counter(member.vote(common) for member in self.members.values())
        return votes.most_common(1)[0][0]

    # Its state

    def move_to(self, state: State, now_ms: int) -> None:
        assert state in NEXT[self.state], (self.group_id, self.state, state)
        self.state, self.since_ms = state, now_ms

    def begin_generation(self, now_ms: int) -> None:
        """Of those who are in now, which may be nobody."""
        self.generation += 1
        self.unsynced.clear()
        self._supporters = +self._supporters
        self.protocol = self.choose_protocol() if self.members else None
        self.note_subscriptions()
        self.move_to(State.COMPLETING if self.members else State.EMPTY, now_ms)

    def note_subscriptions(self) -> None:
        if self.protocol_type != CONSUMER:
            self.subscribed_topics = None
        elif not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol is not None:
            said = {member.protocols[self.protocol] for member in self.members.values()}
            self.subscribed_topics = topics_in(said)

    def record(self) -> Record:
        protocol = self.protocol
        members = [] if protocol is None else [m.to_store(protocol) for m in self.members.values()]
        value = GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=protocol,
            leader=self.leader,
            current_state_timestamp=UNKNOWN_TIME if self.since_ms is None else self.since_ms,
            members=members,
        )
        return Record(GroupMetadataKey(group=self.group_id), value, VALUE_VERSION)

    def record_of_nobody(self) -> Record:
        """That there is such a group, before it has had a generation."""
        value = GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=UNKNOWN_TIME if self.since_ms is None else self.since_ms,
            members=[],
        )
        return Record(GroupMetadataKey(group=self.group_id), value, VALUE_VERSION)

    def tombstones(self) -> list[Record]:
        return [Record(GroupMetadataKey(group=self.group_id), None)]

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
            return commit_timestamp if self.since_ms is None else self.since_ms
        if self.state is State.STABLE and self.subscribed_topics is not None:
            return commit_timestamp
        return None

    def note_commit(self, member_id: str, now: float) -> None:
        member = self.members.get(member_id)
        if member is not None and self.state in (State.STABLE, State.PREPARING):
            self.touch(member, now)
