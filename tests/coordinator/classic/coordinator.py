"""A coordinator of classic groups without a loop, a disk or a network: a machine and its log.

Records are kept as the bytes that a log would have, so that a restart reads what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from pyk.config.broker import BrokerConfig
from pyk.config.group import GroupConfig
from pyk.coordinator.classic.group import ClassicGroup
from pyk.coordinator.classic.groups import ClassicGroups
from pyk.coordinator.group import Caller, Surroundings
from pyk.coordinator.machine import Decision, Record, Ticket
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.heartbeat import HeartbeatRequest
from pyk.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pyk.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity, MemberResponse
from pyk.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pyk.wire.payloads.classic_group_records import GroupMetadataKey, GroupMetadataValue
from pyk.wire.prefixed import by_record_type, decode_key, decode_value, encode_key, encode_value

GROUP = "orders"
RANGE = {"range": b"any topic"}
MIDNIGHT_MS = 1_700_000_000_000
KEYS = by_record_type(GroupMetadataKey)


class Refused(NamedTuple):
    """What a handler makes of an error that was raised."""

    error_code: ErrorCode


def durable(surroundings: Surroundings) -> Mapping[str, GroupMetadataValue]:
    groups = surroundings.groups.items()
    return {
        group_id: group.stored.to_store()
        for group_id, group in groups
        if isinstance(group, ClassicGroup)
    }


class Coordinator:
    def __init__(self, *, seed: int = 0, **config: int) -> None:
        self.config = BrokerConfig(**{"group_initial_rebalance_delay_ms": 0, **config})
        self.log: list[tuple[bytes, bytes | None]] = []
        self.log_refuses: ErrorCode | None = None
        self.now = 1000.0
        self._rng = Random(seed)
        self._last_ticket = 0
        self.answers: dict[Ticket, Any] = {}
        self._begin()

    def restart(self) -> None:
        """Whoever waits is not answered any more."""
        self._begin()
        self._load(self.machine)
        self.machine.on_loaded(self.now)

    def _begin(self) -> None:
        self.surroundings = self._new_surroundings()
        self.machine = ClassicGroups(self.surroundings)
        if not self.log:
            self.machine.on_loaded(self.now)

    def _load(self, machine: ClassicGroups) -> None:
        for key, value in self.log:
            read = None if value is None else decode_value(GroupMetadataValue, value)
            machine.apply(Record(decode_key(KEYS, key), read))

    def _new_surroundings(self) -> Surroundings:
        return Surroundings(
            config=lambda: self.config,
            group_config=lambda group_id: GroupConfig(),
            rng=self._rng,
            now_ms=lambda: MIDNIGHT_MS + int(self.now * 1000),
        )

    @property
    def durable(self) -> Mapping[str, GroupMetadataValue]:
        """What the groups have of the log."""
        return durable(self.surroundings)

    def durable_beside(self) -> Mapping[str, GroupMetadataValue]:
        """The same of another coordinator, which reads the log now."""
        surroundings = self._new_surroundings()
        self._load(ClassicGroups(surroundings))
        return durable(surroundings)

    @property
    def group(self) -> ClassicGroup:
        group = self.surroundings.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state(self) -> str:
        return self.group.state

    @property
    def last_record(self) -> GroupMetadataValue | None:
        value = self.log[-1][1]
        return None if value is None else decode_value(GroupMetadataValue, value)

    def pass_time(self, seconds: float) -> None:
        """Do what is due in that time, each when it is."""
        until = self.now + seconds
        timers = self.surroundings.timers
        while (deadline := timers.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            timer = timers.take_due(self.now)
            assert timer is not None
            self._perform(self.machine.expire(timer, self.now))
        self.now = until

    def settle(self) -> None:
        self.pass_time(0)

    # What members say

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        protocols: Mapping[str, bytes] = RANGE,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        client_id: str = "app",
        group_id: str = GROUP,
    ) -> Ticket:
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols.items()],
        )
        caller = Caller(version, client_id, "/127.0.0.1")
        return self._ask(lambda ticket: self.machine.join(request, caller, ticket, self.now))

    def newcomer(self, **more: Any) -> tuple[str, Ticket]:
        """Join as clients do: get an id, and come back with it."""
        told = self.answer(self.join(**more))
        assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return told.member_id, self.join(told.member_id, **more)

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] = {},
        *,
        instance_id: str | None = None,
        protocol_type: str | None = "consumer",
        protocol_name: str | None = "range",
        group_id: str = GROUP,
    ) -> Ticket:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=m, assignment=a)
                for m, a in assignments.items()
            ],
        )
        caller = Caller(5, "app", "/127.0.0.1")
        return self._ask(lambda ticket: self.machine.sync(request, caller, ticket, self.now))

    def heartbeat(
        self,
        member_id: str,
        generation: int,
        instance_id: str | None = None,
        group_id: str = GROUP,
    ) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        caller = Caller(4, "app", "/127.0.0.1")
        ticket = self._ask(lambda t: self.machine.heartbeat(request, caller, t, self.now))
        return ErrorCode(self.answer(ticket).error_code)

    def leave(
        self, *members: str | tuple[str, str | None], group_id: str = GROUP
    ) -> list[ErrorCode]:
        """How it went for each: a member id, alone or with an instance id."""
        identities = [(m, None) if isinstance(m, str) else m for m in members]
        request = LeaveGroupRequest(
            group_id=group_id,
            members=[MemberIdentity(member_id=m, group_instance_id=i) for m, i in identities],
        )
        caller = Caller(5, "app", "/127.0.0.1")
        ticket = self._ask(lambda t: self.machine.leave(request, caller, t, self.now))
        response = self.answer(ticket)
        if isinstance(response, Refused):
            return [response.error_code for _ in members]
        told: list[MemberResponse] = response.members
        assert [(t.member_id, t.group_instance_id) for t in told] == identities
        return [ErrorCode(each.error_code) for each in told]

    # What they hear

    def answer(self, ticket: Ticket) -> Any:
        assert ticket in self.answers, "still waiting"
        return self.answers[ticket]

    def error(self, ticket: Ticket) -> ErrorCode:
        return ErrorCode(self.answer(ticket).error_code)

    def is_waiting(self, ticket: Ticket) -> bool:
        return ticket not in self.answers

    # Groups as tests need them

    def completing(self, count: int, **more: Any) -> list[str]:
        """The members of a group that waits for its leader, who is the first of them."""
        newcomers = [self.newcomer(**more) for _ in range(count)]
        self.settle()
        for _, ticket in newcomers:
            assert self.error(ticket) == ErrorCode.NONE
        return [member_id for member_id, _ in newcomers]

    def stable(self, count: int, **more: Any) -> list[str]:
        """The members of a group in which everybody has an assignment, its own id."""
        members = self.completing(count, **more)
        self.hand_out()
        return members

    def hand_out(self) -> None:
        """All members ask for their assignments, the leader first."""
        group = self.group
        assignments = {member_id: member_id.encode() for member_id in group.members}
        leader = group.leader or ""
        for member_id in (leader, *(m for m in group.members if m != leader)):
            said = assignments if member_id == leader else {}
            ticket = self.sync(
                member_id,
                group.generation,
                said,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol,
            )
            assert self.answer(ticket).assignment == member_id.encode()

    def _ask(self, decide: Callable[[Ticket], Decision]) -> Ticket:
        self._last_ticket += 1
        ticket = Ticket(self._last_ticket)
        try:
            self._perform(decide(ticket))
        except KafkaError as refusal:
            self.answers[ticket] = Refused(refusal.code)
        return ticket

    def _perform(self, decision: Decision) -> None:
        if decision.records and self.log_refuses is not None:
            refusal = KafkaError(self.log_refuses)
            if decision.otherwise is None:
                self.answers |= {t: Refused(refusal.code) for t, _ in decision.replies}
                return
            decision = decision.otherwise(refusal)
            assert not decision.records
        for record in decision.records:
            value = None if record.value is None else encode_value(record.value, record.version)
            self.log.append((encode_key(record.key), value))
            self.machine.apply(record)
        for ticket, response in decision.replies:
            assert ticket not in self.answers, "answered twice"
            self.answers[ticket] = response
