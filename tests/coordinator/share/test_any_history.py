"""Whatever happens, in whatever order: epochs grow, nobody has what it did not ask for, and when
nothing happens any more every partition has somebody, and everybody as much as others.

Clients lose answers, are silent, leave, and come back; topics come and go; states of partitions
begin late or not at all; the log refuses records; the coordinator dies and reads its log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from contextlib import suppress

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

from pyk.coordinator.machine import Ticket
from pyk.errors import ErrorCode, KafkaError
from tests.coordinator.consumer.coordinator import DELETED
from tests.coordinator.share.coordinator import GROUP, Answer, Coordinator, Held

TOPICS = ["a", "b", "c"]
NAMES = [f"c{n}" for n in range(5)]
OUT = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)

some_name = st.sampled_from(NAMES)
some_topics = st.lists(st.sampled_from(TOPICS), unique=True, min_size=1)
mostly = st.sampled_from([True, True, True, False])


class Client:
    """A share consumer: it has what it was last told to have."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.epoch = 0
        self.is_in = False
        self.held: Held = {}
        self.topics: list[str] = []
        self.must_say_all = False
        self.asked: Ticket | None = None
        """What it waits to be answered."""

    def drop_all(self) -> None:
        self.is_in, self.epoch, self.held = False, 0, {}

    def hear(self, answer: Answer) -> None:
        if answer.error in OUT:
            self.drop_all()
        elif answer.error != ErrorCode.NONE:
            self.must_say_all = True
        else:
            assert answer.epoch >= self.epoch, "a member's epoch went back"
            self.is_in, self.epoch, self.must_say_all = True, answer.epoch, False
            if answer.held is not None:
                self.held = answer.held


class History(RuleBasedStateMachine):
    @initialize(subscribed=st.lists(some_topics, min_size=len(NAMES), max_size=len(NAMES)))
    def begin(self, subscribed: list[list[str]]) -> None:
        self.it = Coordinator({"a": 3, "b": 2})
        self.clients = {name: Client(name) for name in NAMES}
        self.epoch = 0
        for name, topics in zip(NAMES, subscribed, strict=True):
            self.join(name, topics)

    @rule(name=some_name, topics=some_topics)
    def join(self, name: str, topics: list[str]) -> None:
        client = self.clients[name]
        if not client.is_in and client.asked is None:
            client.topics = topics
            self._say(client, 0, topics)

    @rule(name=some_name, topics=some_topics)
    def resubscribe(self, name: str, topics: list[str]) -> None:
        client = self.clients[name]
        if client.is_in and client.asked is None:
            client.topics = topics
            self._say(client, client.epoch, topics)

    @rule(name=some_name)
    def beat(self, name: str) -> None:
        client = self.clients[name]
        if client.is_in and client.asked is None:
            self._say(client, client.epoch, client.topics if client.must_say_all else None)

    def _say(self, client: Client, epoch: int, topics: list[str] | None) -> None:
        try:
            client.asked = self.it.says(client.name, epoch, topics)
        except KafkaError as refusal:
            client.hear(Answer(None, 0, None, refusal.code, refusal.message))
        self._listen()

    def _listen(self) -> None:
        for client in self.clients.values():
            if client.asked is not None:
                answer = self.it.hears(client.asked)
                if answer is not None:
                    client.asked = None
                    client.hear(answer)

    @rule(name=some_name)
    def lose_an_answer(self, name: str) -> None:
        client = self.clients[name]
        if client.is_in and client.asked is None:
            with suppress(KafkaError):
                self.it.says(client.name, client.epoch, client.topics)
            client.must_say_all = True
        self._listen()

    @rule(name=some_name, says=mostly)
    def go(self, name: str, says: bool) -> None:
        client = self.clients[name]
        if client.is_in and client.asked is None:
            if says:
                self.it.goes(client.name)
            client.drop_all()

    @rule(seconds=st.sampled_from([0, 0.5, 1, 1, 5]))
    def beat_all(self, seconds: float) -> None:
        self.it.pass_time(seconds)
        self._listen()
        for name in NAMES:
            self.beat(name)

    @rule(seconds=st.sampled_from([1, 5, 31, 61]))
    def nobody_is_heard(self, seconds: float) -> None:
        self.it.pass_time(seconds)
        self._listen()

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

    @rule(refuse=st.booleans(), wait=st.booleans())
    def states(self, refuse: bool, wait: bool) -> None:
        self.it.states_refuse, self.it.states_wait = refuse, wait
        if not wait:
            self.it.states_answer()
        self._listen()

    @rule(seconds=st.sampled_from([0, 1, 46]))
    def the_log_refuses_all(self, seconds: float) -> None:
        self.it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
        self.beat_all(seconds)
        self.it.log_refuses = None

    @rule()
    def restart(self) -> None:
        if GROUP not in self.it.surroundings.groups:
            return
        before = self.it.shown()
        self.it.restart()
        assert self.it.shown() == before
        for client in self.clients.values():
            client.asked, client.must_say_all = None, True

    @invariant()
    def epochs_only_grow(self) -> None:
        if GROUP in self.it.surroundings.groups:
            assert self.it.shared.epoch >= self.epoch
            assert self.it.shared.target_epoch <= self.it.shared.epoch
            self.epoch = self.it.shared.epoch

    @invariant()
    def nobody_has_what_it_did_not_ask_for(self) -> None:
        for client in self.clients.values():
            if client.asked is None and not client.must_say_all:
                held = {name for name in client.held if not name.startswith(DELETED)}
                assert held <= set(client.topics)

    @invariant()
    def what_is_read_has_begun(self) -> None:
        for client in self.clients.values():
            for name, numbers in client.held.items():
                if name in self.it.image.topics:
                    topic_id = self.it.topic_id(name)
                    assert all((topic_id, number) in self.it.states for number in numbers)

    def teardown(self) -> None:
        """Let everything come to rest."""
        if hasattr(self, "it"):
            self.states(refuse=False, wait=False)
            for _ in range(80):
                self.beat_all(1)
            if GROUP in self.it.surroundings.groups:
                self._is_at_rest()

    def _is_at_rest(self) -> None:
        group, topics = self.it.shared, self.it.image.topics
        living = {client.name: client for client in self.clients.values() if client.is_in}
        assert group.members.keys() == living.keys()
        assert all(client.asked is None for client in self.clients.values())
        assert not self.it.groups.share.is_waited_for(GROUP)
        alike = len({frozenset(topics.keys() & client.topics) for client in living.values()}) == 1
        for name in topics.keys() & {t for client in living.values() for t in client.topics}:
            everywhere = [c.held.get(name, set()) for c in living.values() if name in c.topics]
            assert set().union(*everywhere) == set(range(len(topics[name].partitions)))
            assert alike or _are_balanced(everywhere)
        loads = [[p for held in client.held.values() for p in held] for client in living.values()]
        assert not alike or _are_balanced(loads)


def _are_balanced(shares: Iterable[Sized]) -> bool:
    sizes = [len(share) for share in shares]
    return max(sizes) - min(sizes) <= 1


@pytest.mark.hypothesis
def test_any_history_is_safe_and_comes_to_rest() -> None:
    run_state_machine_as_test(
        History,
        # What fails is not made shorter: each of the many histories that that takes is long.
        settings=settings(
            max_examples=100, stateful_step_count=30, deadline=None, phases=[Phase.generate]
        ),
    )
