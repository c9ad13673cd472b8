"""Whatever happens, in whatever order: no two members have a partition, epochs grow, and when
nothing happens any more everything is shared out.

Clients lose answers, are silent, leave, and come back; topics come and go; the log refuses records;
the coordinator dies and reads its log.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from pyk.coordinator.consumer.member import MemberState
from pyk.coordinator.group import INLINE_MAX
from pyk.errors import ErrorCode
from tests.coordinator.consumer.coordinator import Answer, Coordinator, Held

TOPICS = ["a1", "a2", "b1"]
NAMES = [f"c{n}" for n in range(4)]
OUT = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)

subscriptions: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.fixed_dictionaries({"topics": st.lists(st.sampled_from(TOPICS), unique=True)}),
    st.sampled_from(
        [{"topics": [], "subscribed_topic_regex": regex} for regex in ("a.*", "b.*", ".*1")]
    ),
)


some_name = st.sampled_from(NAMES)
mostly = st.sampled_from([True, True, True, False])


class Client:
    """A consumer that does as KIP-848 says: it stops what it is not to have, says so, and then
    begins what is new."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lives = 0
        self.epoch = 0
        self.is_in = False
        self.held: Held = {}
        self.wanted: Held | None = None
        """What it was told to have, until it has exactly that."""
        self.subscription: dict[str, Any] = {}
        self.instance_id: str | None = None
        self.must_say_all = False

    @property
    def member_id(self) -> str:
        return f"{self.name}-{self.lives}"

    @property
    def owned(self) -> set[tuple[str, int]]:
        """All that it may be working on. What is new is its own as soon as it hears of it."""
        told = self.wanted or {}
        return {(t, p) for held in (self.held, told) for t, ps in held.items() for p in ps}

    def stop_what_it_should_not_have(self) -> None:
        if self.wanted is not None:
            kept = {t: ps & self.wanted.get(t, set()) for t, ps in self.held.items()}
            self.held = {t: ps for t, ps in kept.items() if ps}

    def begin_what_is_new(self) -> None:
        if self.wanted is not None and _is_within(self.held, self.wanted):
            self.held, self.wanted = self.wanted, None

    def drop_all(self) -> None:
        self.is_in, self.epoch, self.held, self.wanted = False, 0, {}, None

    def hear(self, answer: Answer) -> None:
        if answer.error in OUT:
            self.drop_all()
        elif answer.error != ErrorCode.NONE:
            self.must_say_all = True
        else:
            assert answer.epoch >= self.epoch, "a member's epoch went back"
            self.is_in, self.epoch, self.must_say_all = True, answer.epoch, False
            if answer.held is not None:
                self.wanted = answer.held


def _is_within(some: Held, other: Held) -> bool:
    return all(partitions <= other.get(topic, set()) for topic, partitions in some.items())


def _expression(client: Client) -> dict[str, Any]:
    return {k: v for k, v in client.subscription.items() if k != "topics"}


class History(RuleBasedStateMachine):
    inline_max = INLINE_MAX

    @initialize(
        assignors=st.permutations(["uniform", "range"]),
        subscribed=st.lists(subscriptions, min_size=len(NAMES), max_size=len(NAMES)),
    )
    def begin(self, assignors: list[str], subscribed: list[dict[str, Any]]) -> None:
        self.it = Coordinator(
            {"a1": 3, "b1": 2},
            inline_max=self.inline_max,
            group_consumer_assignors=tuple(assignors),
            # Else a group that nobody is in goes after a while.
            offsets_retention_check_interval_ms=10**9,
        )
        self.clients = {name: Client(name) for name in NAMES}
        self.epoch = 0
        for name, subscription in zip(NAMES, subscribed, strict=True):
            self.join(name, subscription, is_static=name in NAMES[:2], heard=True)

    @rule(name=some_name, subscription=subscriptions, is_static=st.booleans(), heard=mostly)
    def join(self, name: str, subscription: dict[str, Any], is_static: bool, heard: bool) -> None:
        client = self.clients[name]
        if client.is_in:
            return
        client.subscription = subscription
        client.lives += 1
        if client.instance_id is None and is_static:
            client.instance_id = f"i-{name}"
        answer = self.it.join(
            client.member_id,
            *client.subscription["topics"],
            **_expression(client),
            instance_id=client.instance_id,
        )
        if answer.error != ErrorCode.UNRELEASED_INSTANCE_ID and heard:
            client.hear(answer)

    @rule(name=some_name, says=mostly, heard=mostly, stops=mostly, begins=mostly)
    def beat(self, name: str, says: bool, heard: bool, stops: bool, begins: bool) -> None:
        client = self.clients[name]
        if not client.is_in:
            return
        if stops:
            client.stop_what_it_should_not_have()
        if begins:
            client.begin_what_is_new()
        answer = self._beat(client, says)
        if heard:
            client.hear(answer)
        else:
            client.must_say_all = True

    @rule(says=mostly, seconds=st.sampled_from([0, 0.5, 1, 1, 1]))
    def beat_all(self, says: bool, seconds: float) -> None:
        self.it.pass_time(seconds)
        for name in NAMES:
            self.beat(name, says, heard=True, stops=True, begins=True)

    def _beat(self, client: Client, says: bool = True) -> Answer:
        fields: dict[str, Any] = {}
        if client.must_say_all:
            fields = {"rebalance_timeout_ms": 60_000, "topics": client.subscription["topics"]}
            fields |= _expression(client)
        held = client.held if says or client.must_say_all else None
        return self.it.beat(
            client.member_id, client.epoch, held, instance_id=client.instance_id, **fields
        )

    @rule(name=some_name, subscription=subscriptions)
    def resubscribe(self, name: str, subscription: dict[str, Any]) -> None:
        client = self.clients[name]
        if client.is_in:
            client.subscription = {"subscribed_topic_regex": "", **subscription}
            client.must_say_all = True
            client.hear(self._beat(client))

    @rule(name=some_name, how=st.sampled_from(["leave", "leave for a while", "crash"]))
    def go(self, name: str, how: str) -> None:
        client = self.clients[name]
        if not client.is_in:
            return
        if how == "leave":
            self.it.leave(client.member_id, instance_id=client.instance_id)
            client.instance_id = None
        elif how == "leave for a while" and client.instance_id is not None:
            self.it.beat(client.member_id, -2, instance_id=client.instance_id)
        client.drop_all()

    @rule(seconds=st.sampled_from([0.1, 1, 5, 30, 61]))
    def nobody_is_heard(self, seconds: float) -> None:
        self.it.pass_time(seconds)

    @rule(topic=st.sampled_from(TOPICS), count=st.integers(1, 6))
    def create(self, topic: str, count: int) -> None:
        before = self.it.image.topics.get(topic)
        if before is None or len(before.partitions) < count:
            self.it.create(**{topic: count})

    @rule(topic=st.sampled_from(TOPICS))
    def delete(self, topic: str) -> None:
        self.it.delete(topic)
        for client in self.clients.values():
            client.held.pop(topic, None)
            if client.wanted is not None:
                client.wanted.pop(topic, None)

    @rule(seconds=st.sampled_from([0, 1, 46]))
    def the_log_refuses_all(self, seconds: float) -> None:
        self.it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
        self.beat_all(says=True, seconds=seconds)
        self.it.log_refuses = None

    @rule()
    def restart(self) -> None:
        before = self.it.described()
        self.it.restart()
        assert self.it.described() == before

    def _members(self) -> list[Client]:
        """Those that are members as the coordinator sees it."""
        members = self.it.group.members
        return [each for each in self.clients.values() if each.is_in and each.member_id in members]

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owners: dict[tuple[str, int], str] = {}
        for client in self._members():
            for partition in client.owned:
                other = owners.setdefault(partition, client.name)
                assert other == client.name, f"{client.name} and {other} both have {partition}"

    @invariant()
    def what_members_have_is_noted_once(self) -> None:
        noted = [
            (topic_id, partition)
            for member in self.it.group.members.values()
            for held in (member.assigned, member.pending_revocation)
            for topic_id, epochs in held.items()
            for partition in epochs
        ]
        assert len(noted) == len(set(noted))
        assert all(self.it.group.is_owned(*each) for each in noted)

    @invariant()
    def epochs_only_grow(self) -> None:
        assert self.it.group.epoch >= self.epoch
        assert self.it.group.target_epoch <= self.it.group.epoch
        self.epoch = self.it.group.epoch

    @rule()
    def jobs_wait(self) -> None:
        """What is done elsewhere takes a while."""
        self.it.jobs_wait = True

    @rule()
    def jobs_are_done(self) -> None:
        self.it.jobs_wait = False
        self.it.do_jobs()

    def teardown(self) -> None:
        """Let everything come to rest."""
        if hasattr(self, "it"):
            self.jobs_are_done()
            for _ in range(80):
                self.beat_all(says=True, seconds=1)
            self._is_at_rest()

    def _is_at_rest(self) -> None:
        group, topics = self.it.group, self.it.image.topics
        living = {client.member_id for client in self.clients.values() if client.is_in}
        assert group.members.keys() == living
        assert group.state == ("Stable" if living else "Empty")
        assert all(m.state is MemberState.STABLE for m in group.members.values())
        given = {each for client in self._members() for each in client.owned}
        wanted = {name for member in group.members.values() for name in group.topics_of(member)}
        assert given == {
            (name, number)
            for name in wanted & topics.keys()
            for number in range(len(topics[name].partitions))
        }


class HistoryOfLargeGroups(History):
    """Targets are made elsewhere."""

    inline_max = 0


@pytest.mark.hypothesis
@pytest.mark.parametrize("history", [History, HistoryOfLargeGroups])
def test_any_history_is_safe_and_comes_to_rest(history: type[History]) -> None:
    run_state_machine_as_test(
        history,
        # What fails is not made shorter: each of the many histories that that takes is long.
        settings=settings(
            max_examples=100, stateful_step_count=30, deadline=None, phases=[Phase.generate]
        ),
    )
