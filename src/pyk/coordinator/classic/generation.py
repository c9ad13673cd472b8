"""One generation of a classic group: who is in, what all have agreed on, and what each was given.

The log has the last one in which members got their assignments, or in which nobody was left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from pyk.coordinator.classic.member import Member
from pyk.coordinator.classic.subscriptions import topics_in
from pyk.wire.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponseMember
from pyk.wire.payloads.classic_group_records import GroupMetadataValue

CONSUMER: Final = "consumer"
"""The type of protocol that Kafka's consumers speak, the only one that brokers know a little of."""
UNKNOWN_TIME: Final = -1


class Generation:
    def __init__(self, since_ms: int | None = None) -> None:
        self.number = 0
        self.since_ms = since_ms
        """When the group came into its state, by the time of day. Old records do not tell."""
        self.protocol_type = ""
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.statics: dict[str, str] = {}
        """The ids of static members, by their instance ids (KIP-345)."""
        self.subscribed_topics: frozenset[str] | None = None
        """Of all members, as far as a broker can tell."""
        self._supporters: Counter[str] = Counter()

    @classmethod
    def read(
        cls, group_id: str, value: GroupMetadataValue, known: Mapping[str, Member]
    ) -> Generation:
        """The generation that a `GroupMetadata` record describes. A record has one protocol of each
        member; for members that are `known`, the others are kept."""
        since_ms = value.current_state_timestamp
        found = cls(None if since_ms == UNKNOWN_TIME else since_ms)
        found.number = value.generation
        found.protocol = value.protocol
        for each in value.members:
            before = known.get(each.member_id)
            found.add(Member.read(group_id, value.protocol or "", each, before))
        found.protocol_type = value.protocol_type
        if value.leader in found.members:
            found.leader = value.leader
        found.note_subscriptions()
        return found

    def to_store(self, assignments: Mapping[str, bytes] | None = None) -> GroupMetadataValue:
        """The `GroupMetadata` record of this generation, with these assignments if they are new."""
        protocol = self.protocol
        members = self.members.values() if protocol is not None else ()
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.number,
            protocol=protocol,
            leader=self.leader,
            current_state_timestamp=UNKNOWN_TIME if self.since_ms is None else self.since_ms,
            members=[
                member.to_store(
                    member.protocols[protocol or ""],
                    member.assignment
                    if assignments is None
                    else assignments.get(member.member_id, b""),
                )
                for member in members
            ],
        )

    def copy(self) -> Generation:
        """Members are never changed, but replaced."""
        copied = Generation(self.since_ms)
        copied.number, copied.leader = self.number, self.leader
        copied.protocol_type, copied.protocol = self.protocol_type, self.protocol
        copied.members, copied.statics = self.members.copy(), self.statics.copy()
        copied.subscribed_topics = self.subscribed_topics
        copied._supporters = self._supporters.copy()
        return copied

    # Its members

    def add(self, member: Member) -> None:
        if member.instance_id is not None:
            self.statics[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._supporters.update(member.protocols.keys())
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._supporters.subtract(member.protocols.keys())
        if member.instance_id is not None:
            del self.statics[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def update(self, member: Member) -> None:
        """A member says something else of itself."""
        self._supporters.subtract(self.members[member.member_id].protocols.keys())
        self._supporters.update(member.protocols.keys())
        self.members[member.member_id] = member

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

    def have_all_one_of(self, protocols: list[JoinGroupRequestProtocol]) -> bool:
        """Whether all members support the same one of them."""
        everybody = len(self.members)
        return any(self._supporters[protocol.name] == everybody for protocol in protocols)

    def choose_protocol(self) -> str:
        """What most members like best of what all can do. In a tie it is what was named first."""
        everybody = len(self.members)
        common = {name for name, count in self._supporters.items() if count == everybody}
        votes = Counter(member.vote(common) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def begin_next(self) -> None:
        """Of those who are in now."""
        self.number += 1
        self._supporters = +self._supporters
        self.protocol = self.choose_protocol()
        self.note_subscriptions()

    def note_subscriptions(self) -> None:
        if self.protocol_type != CONSUMER:
            self.subscribed_topics = None
        elif not self.members:
            self.subscribed_topics = frozenset()
        elif self.protocol is not None:
            said = {member.protocols[self.protocol] for member in self.members.values()}
            self.subscribed_topics = topics_in(said)
