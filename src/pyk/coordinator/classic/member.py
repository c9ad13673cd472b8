"""A member of a classic group: who it is, what it can do, and what it was given to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from pyk.coordinator.group import Caller, Timer
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyk.wire.payloads.classic_group_records import MemberMetadata

SESSION = "session"
UNSAID = -1


class Member(Struct, frozen=True, eq=False, kw_only=True):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: dict[str, bytes]
    """What it supports, the best first, with its metadata for each."""
    session: Timer
    """Made once, because every heartbeat puts it off."""
    assignment: bytes = b""

    @classmethod
    def joining(cls, member_id: str, request: JoinGroupRequest, caller: Caller) -> Member:
        return cls(
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=caller.client_id,
            host=caller.host,
            rebalance_timeout_ms=rebalance_timeout_ms(request, caller),
            session_timeout_ms=request.session_timeout_ms,
            protocols=named(request.protocols),
            session=session_of(request.group_id, member_id),
        )

    @classmethod
    def read(
        cls, group_id: str, protocol: str, value: MemberMetadata, before: Member | None
    ) -> Member:
        """Of what it supports, a record has only what the group has chosen. The member as it was
        `before` may have more."""
        said = value.rebalance_timeout != UNSAID
        protocols = {protocol: value.subscription}
        if before is not None and before.protocols.get(protocol) == value.subscription:
            protocols = before.protocols
        return cls(
            member_id=value.member_id,
            instance_id=value.group_instance_id,
            client_id=value.client_id,
            host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout if said else value.session_timeout,
            session_timeout_ms=value.session_timeout,
            protocols=protocols,
            session=session_of(group_id, value.member_id) if before is None else before.session,
            assignment=value.assignment,
        )

    def to_store(self, subscription: bytes, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=subscription,
            assignment=assignment,
        )

    def says_the_same(self, protocols: Iterable[JoinGroupRequestProtocol]) -> bool:
        """Whether it still supports the same, in the same order, with the same metadata."""
        return list(self.protocols.items()) == list(named(protocols).items())

    def vote(self, candidates: Collection[str]) -> str:
        return next(name for name in self.protocols if name in candidates)


def session_of(group_id: str, member_id: str) -> Timer:
    return Timer(group_id, SESSION, member_id)


def named(protocols: Iterable[JoinGroupRequestProtocol]) -> dict[str, bytes]:
    return {protocol.name: protocol.metadata for protocol in protocols}


def rebalance_timeout_ms(request: JoinGroupRequest, caller: Caller) -> int:
    """How long a member may take to rejoin. Before v1 that was as long as its session."""
    return request.session_timeout_ms if caller.version == 0 else request.rebalance_timeout_ms
