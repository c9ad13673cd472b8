"""Members of both protocols come and go, a group changes its type with them, and now and then the
log refuses: at every moment, who reads the log has the groups that the coordinator has."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyk.coordinator.classic.group import ClassicGroup, State
from pyk.coordinator.classic.rebalance import JOIN
from pyk.coordinator.consumer.consumer_protocol import encode_assignment
from pyk.coordinator.consumer.group import SESSION, ConsumerGroup
from pyk.coordinator.group import Surroundings, Timer
from pyk.coordinator.groups import Groups
from pyk.coordinator.machine import Ticket
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.leave_group import MemberIdentity
from tests.coordinator.consumer.coordinator import GROUP
from tests.coordinator.consumer.test_migration import Migration, subscription

OLD = st.integers(0, 2)
"""Clients of the classic protocol. The first is static."""
NEW = st.sampled_from(["new", "newer"])


def durable(surroundings: Surroundings) -> dict[str, Any]:
    return {group_id: _of_group(group) for group_id, group in surroundings.groups.items()}


def _of_group(group: Any) -> Any:
    if isinstance(group, ClassicGroup):
        return group.stored.to_store()
    assert isinstance(group, ConsumerGroup)
    target = (group.target_epoch, group.target_timestamp, group.targets)
    return (group.epoch, group.metadata_hash, target, group.members, group.matches)


class OldClient:
    def __init__(self, instance_id: str | None) -> None:
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.members: list[str] = []
        self.joining: Ticket | None = None
        self.syncing: Ticket | None = None

    def begin_anew(self) -> None:
        self.member_id, self.generation = "", -1
        self.joining = self.syncing = None


class History(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 3000]))
    def begin(self, delay_ms: int) -> None:
        self.it = Migration(
            {"a": 4},
            group_initial_rebalance_delay_ms=delay_ms,
            offsets_retention_check_interval_ms=10**9,
        )
        self.old = [OldClient("one"), OldClient(None), OldClient(None)]
        self.epochs = {"new": 0, "newer": 0}
        self.refusals = 0
        """Steps until the log takes records again."""

    # What clients do

    @rule(number=OLD, range_first=st.booleans())
    def join(self, number: int, range_first: bool) -> None:
        self._join(self.old[number], range_first)

    @rule(rounds=st.integers(1, 4))
    def old_ones_go_on(self, rounds: int) -> None:
        for _ in range(rounds):
            for client in self.old:
                self._go_on(client)
                self.answers_are_believed()
            self.it.pass_time(3)
            self.answers_are_believed()

    def _go_on(self, client: OldClient) -> None:
        if client.joining is not None or client.syncing is not None:
            return
        if client.generation < 0:
            self._join(client)
        elif self.it.classic_beat(client.member_id, client.generation) != ErrorCode.NONE:
            client.generation = -1
        else:
            self._sync(client)

    def _join(self, client: OldClient, range_first: bool = True) -> None:
        if client.joining is not None or client.syncing is not None:
            return
        said = subscription(["a"], {})
        protocols = [("range", said), ("sticky", said)]
        try:
            client.joining = self.it.classic_join(
                client.member_id,
                protocols=protocols if range_first else protocols[::-1],
                group_instance_id=client.instance_id,
            )
        except KafkaError:
            client.begin_anew()

    def _sync(self, client: OldClient) -> None:
        ids = client.members
        shares = {
            member_id: encode_assignment(
                {self.it.topic_id("a"): frozenset(range(4)[number :: len(ids)])}, 3, self.it.image
            )
            for number, member_id in enumerate(ids)
        }
        try:
            client.syncing = self.it.sync(client.member_id, client.generation, shares)
        except KafkaError:
            client.generation = -1

    @rule(number=OLD)
    def leave(self, number: int) -> None:
        client = self.old[number]
        if client.member_id:
            gone = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)
            self.it.ask_to_leave(gone)
            client.begin_anew()

    @rule(number=OLD)
    def die(self, number: int) -> None:
        self.old[number].begin_anew()

    @rule(name=NEW)
    def beat(self, name: str) -> None:
        if self.epochs[name]:
            answer = self.it.beat(name, self.epochs[name])
        else:
            answer = self.it.join(name, "a")
        self.epochs[name] = answer.epoch

    @rule(name=NEW)
    def new_one_leaves(self, name: str) -> None:
        self.it.leave(name)
        self.epochs[name] = 0

    # What happens around them

    @rule(seconds=st.sampled_from([0.0, 2.0, 7.0, 20.0, 60.0]))
    def pass_time(self, seconds: float) -> None:
        self.it.pass_time(seconds)

    @rule(steps=st.sampled_from([1, 4, 10]))
    @precondition(lambda self: self.it.log)
    def let_the_log_refuse(self, steps: int) -> None:
        self.refusals = steps + 1
        self.it.log_refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE

    @invariant()
    def the_log_does_not_refuse_for_ever(self) -> None:
        self.refusals -= 1
        if self.refusals <= 0:
            self.it.log_refuses = None

    @rule()
    def restart(self) -> None:
        before = durable(self.it.surroundings)
        self.it.restart()
        for client in self.old:
            client.joining = client.syncing = None
        assert durable(self.it.surroundings) == before

    # What they make of answers

    @invariant()
    def answers_are_believed(self) -> None:
        for client in self.old:
            if client.joining in self.it.answers:
                self._joined(client, self.it.answers[client.joining])
                client.joining = None
            if client.syncing in self.it.answers:
                told = self.it.answers[client.syncing]
                if isinstance(told, KafkaError) or told.error_code != ErrorCode.NONE:
                    client.generation = -1
                client.syncing = None

    def _joined(self, client: OldClient, told: Any) -> None:
        if isinstance(told, KafkaError):
            client.generation = -1
        elif told.error_code == ErrorCode.NONE:
            client.member_id, client.generation = told.member_id, told.generation_id
            client.members = [each.member_id for each in told.members]
        elif told.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = told.member_id
        elif told.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
            client.begin_anew()

    # What is always true

    @invariant()
    def who_reads_the_log_now_has_what_this_coordinator_has(self) -> None:
        beside = self.it.surroundings_beside()
        groups = Groups(beside)
        for record in self.it.records():
            groups.apply(record)
        assert durable(beside) == durable(self.it.surroundings)

    @invariant()
    def nobody_is_waited_for_without_an_end(self) -> None:
        group, timers = self.it.surroundings.groups.get(GROUP), self.it.surroundings.timers
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                is_waiting = member.member_id in group.joining or member.member_id in group.syncing
                assert is_waiting or member.session in timers
            assert (Timer(GROUP, JOIN) in timers) or group.state is not State.PREPARING
        elif isinstance(group, ConsumerGroup):
            for member_id, away in group.members.items():
                assert away.epoch < 0 or Timer(GROUP, SESSION, member_id) in timers

    def teardown(self) -> None:
        """When nobody says anything any more, nobody is left."""
        if hasattr(self, "it"):
            self.it.log_refuses = None
            self.it.pass_time(2000)
            group = self.it.surroundings.groups.get(GROUP)
            assert group is None or not group.members
            self.who_reads_the_log_now_has_what_this_coordinator_has()


TestHistory = History.TestCase
TestHistory.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
