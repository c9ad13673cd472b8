"""Members who come, go, die, miss answers and come back, a coordinator that restarts, and a log
that refuses now and then: whatever the order, some sentences stay true."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyk.coordinator.classic.group import ClassicGroup, State
from pyk.coordinator.classic.rebalance import JOIN, SYNC
from pyk.coordinator.group import Timer
from pyk.coordinator.machine import Ticket
from pyk.errors import ErrorCode
from tests.coordinator.classic.coordinator import GROUP, Coordinator

PARTITIONS = range(6)
STATICS = {0: "one", 1: "two"}
"""The clients who have an instance id; the others have none."""
CLIENTS = st.integers(0, 4)
PROTOCOLS = st.sampled_from(
    [
        {"range": b"", "sticky": b""},
        {"sticky": b"", "range": b""},
        {"range": b"", "own": b""},
        {"range": b"something else"},
    ]
)
FOR_EVER = 10_000.0


@dataclass
class Client:
    """What a client believes, from what it was told."""

    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    protocol: str | None = None
    members: list[str] = field(default_factory=list)
    """Whom to share out to, if it leads."""
    has_synced: bool = False
    joining: Ticket | None = None
    syncing: Ticket | None = None
    protocols: dict[str, bytes] = field(default_factory=lambda: {"range": b"", "sticky": b""})
    version: int = 9

    @property
    def is_busy(self) -> bool:
        return self.joining is not None or self.syncing is not None

    def begin_anew(self) -> None:
        self.member_id, self.generation, self.has_synced = "", -1, False
        self.joining = self.syncing = None


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clients = [Client(STATICS.get(number)) for number in range(5)]
        self.owners: dict[tuple[int, int], str] = {}
        """Who was told to own a partition in a generation: static members by their instances."""
        self.last_generation_handed_out = 0
        self.asked: set[Ticket] = set()
        """Those who may expect an answer from this coordinator."""

    @initialize(
        delay_ms=st.sampled_from([0, 3000]), size_max=st.sampled_from([3, 100]), seed=st.integers()
    )
    def begin(self, delay_ms: int, size_max: int, seed: int) -> None:
        config = {"group_initial_rebalance_delay_ms": delay_ms, "group_max_size": size_max}
        self.it = Coordinator(seed=seed, **config)

    # What clients do

    @rule(number=CLIENTS, protocols=PROTOCOLS, version=st.sampled_from([3, 8, 9]))
    def join(self, number: int, protocols: dict[str, bytes], version: int) -> None:
        client = self.clients[number]
        client.protocols, client.version = protocols, version
        if not client.is_busy:
            self._join(client)

    @rule(number=CLIENTS)
    def go_on(self, number: int) -> None:
        self._go_on(self.clients[number])

    @rule(numbers=st.lists(CLIENTS, min_size=2, unique=True), rounds=st.integers(1, 8))
    def go_on_together(self, numbers: list[int], rounds: int) -> None:
        for _ in range(rounds):
            for number in numbers:
                self._go_on(self.clients[number])
                self.answers_are_believed()
            self.it.pass_time(3)

    def _go_on(self, client: Client) -> None:
        """Do what a client does that nothing happens to."""
        if client.is_busy:
            return
        if client.generation < 0:
            self._join(client)
        elif not client.has_synced:
            self._sync(client)
        else:
            self._heartbeat(client)

    def _join(self, client: Client) -> None:
        client.generation, client.has_synced = -1, False
        client.joining = self.it.join(
            client.member_id,
            version=client.version,
            instance_id=client.instance_id,
            protocols=client.protocols,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=30_000,
        )
        self.asked.add(client.joining)

    def _sync(self, client: Client) -> None:
        shares: dict[str, list[int]] = {member_id: [] for member_id in client.members}
        for partition in PARTITIONS if shares else ():
            shares[client.members[partition % len(shares)]].append(partition)
        client.syncing = self.it.sync(
            client.member_id,
            client.generation,
            {member_id: bytes(owned) for member_id, owned in shares.items()},
            instance_id=client.instance_id,
            protocol_name=client.protocol,
        )
        self.asked.add(client.syncing)

    def _heartbeat(self, client: Client) -> None:
        error = self.it.heartbeat(client.member_id, client.generation, client.instance_id)
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            client.generation = -1
        elif error != ErrorCode.NONE:
            client.begin_anew()

    @rule(number=CLIENTS)
    def leave(self, number: int) -> None:
        client = self.clients[number]
        if client.member_id:
            self.it.leave((client.member_id, client.instance_id))
            client.begin_anew()

    @rule(number=CLIENTS)
    def die(self, number: int) -> None:
        self.clients[number].begin_anew()

    @rule(number=st.sampled_from([*STATICS]), is_refused=st.booleans())
    @precondition(lambda self: self.it.log)
    def come_back(self, number: int, is_refused: bool) -> None:
        """A static member that has been in begins anew, which may be worth a record."""
        client, refuses = self.clients[number], self.it.log_refuses
        if client.member_id:
            client.begin_anew()
            self.it.log_refuses = ErrorCode.NOT_COORDINATOR if is_refused else None
            self._join(client)
            self.it.log_refuses = refuses

    @rule(number=CLIENTS)
    def lose_an_answer(self, number: int) -> None:
        client = self.clients[number]
        client.joining = client.syncing = None

    # What happens around them

    @rule(seconds=st.sampled_from([0.0, 2.0, 7.0, 20.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        self.it.pass_time(seconds)

    @rule()
    def restart(self) -> None:
        stored, durable = _stored(self.it), self.it.durable
        self.it.restart()
        assert self.it.durable == durable
        self.asked.clear()
        for client in self.clients:
            client.joining = client.syncing = None
        assert _stored(self.it) == stored

    @rule()
    @precondition(lambda self: self.it.log)
    def let_the_log_refuse(self) -> None:
        refuses = ErrorCode.NOT_COORDINATOR
        self.it.log_refuses = None if self.it.log_refuses else refuses

    # What they make of answers

    @invariant()
    def answers_are_believed(self) -> None:
        for client in self.clients:
            if client.joining in self.it.answers:
                self._joined(client, self.it.answers[client.joining])
            if client.syncing in self.it.answers:
                self._synced(client, self.it.answers[client.syncing])

    def _joined(self, client: Client, told: Any) -> None:
        client.joining = None
        match told.error_code:
            case ErrorCode.NONE:
                client.member_id, client.generation = told.member_id, told.generation_id
                client.protocol = told.protocol_name
                shares_out = told.leader == told.member_id and not told.skip_assignment
                client.members = [m.member_id for m in told.members] if shares_out else []
            case ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = told.member_id
            case ErrorCode.REBALANCE_IN_PROGRESS:
                pass
            case _:
                client.begin_anew()

    def _synced(self, client: Client, told: Any) -> None:
        client.syncing = None
        if told.error_code != ErrorCode.NONE:
            client.generation = -1
            if told.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                client.begin_anew()
            return
        client.has_synced = True
        assert client.generation >= self.last_generation_handed_out
        self.last_generation_handed_out = client.generation
        for partition in told.assignment:
            owner = client.instance_id or client.member_id
            known = self.owners.setdefault((client.generation, partition), owner)
            assert known == owner, "a partition has two owners in one generation"

    # What is always true

    @invariant()
    def who_reads_the_log_now_has_what_this_coordinator_has(self) -> None:
        assert self.it.durable == self.it.durable_beside()

    @invariant()
    def a_group_that_is_not_in_a_rebalance_is_what_the_log_has(self) -> None:
        group = self.it.surroundings.groups.get(GROUP)
        if isinstance(group, ClassicGroup):
            is_rebalancing = group.state in (State.PREPARING, State.COMPLETING)
            assert is_rebalancing == (group.current is not group.stored)

    @invariant()
    def a_group_is_as_its_state_says(self) -> None:
        group = self.it.surroundings.groups.get(GROUP)
        if not isinstance(group, ClassicGroup):
            return
        assert bool(group.joining) <= (group.state is State.PREPARING)
        assert bool(group.syncing) <= (group.state is State.COMPLETING)
        assert group.unsynced <= group.members.keys()
        assert group.joining.keys() | group.syncing.keys() <= group.members.keys()
        assert not group.pending & group.members.keys()
        assert (group.leader in group.members) == bool(group.members)
        assert bool(group.members) or group.state in (State.EMPTY, State.PREPARING)
        assert not (group.members and group.state is State.EMPTY)
        known = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id}
        assert group.statics == known

    @invariant()
    def nobody_is_waited_for_without_an_end(self) -> None:
        group = self.it.surroundings.groups.get(GROUP)
        if isinstance(group, ClassicGroup):
            timers = self.it.surroundings.timers
            for member in group.members.values():
                is_waiting = member.member_id in group.joining or member.member_id in group.syncing
                assert is_waiting or member.session in timers
            assert (group.state is State.PREPARING) == (Timer(GROUP, JOIN) in timers)
            assert bool(group.unsynced) == (Timer(GROUP, SYNC) in timers)

    def teardown(self) -> None:
        """In the end, when nobody says anything any more, all are answered and nobody is left."""
        self.it.log_refuses = None
        self.it.pass_time(FOR_EVER)
        assert all(ticket in self.it.answers for ticket in self.asked)
        group = self.it.surroundings.groups.get(GROUP)
        if isinstance(group, ClassicGroup):
            assert (group.state, group.members, group.pending) == (State.EMPTY, {}, set())
        assert len(self.it.surroundings.timers) == 0


def _stored(it: Coordinator) -> Any:
    """The generation of the log, and who has what in it."""
    if not it.log or it.last_record is None:
        return None
    record = it.last_record
    return record.generation, {m.member_id: m.assignment for m in record.members}


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
