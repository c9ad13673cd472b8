"""The simple assignor: what each member of a share group should have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyk.coordinator.assigned import Partitions, Targets
from pyk.coordinator.share.assignor import Subscriber, assign
from pyk.types import Uuid

A, B, C = (Uuid(bytes([n]) * 16) for n in range(3))


def topics(**counts: int) -> dict[Uuid, frozenset[int]]:
    ids = {"a": A, "b": B, "c": C}
    return {ids[name]: frozenset(range(count)) for name, count in counts.items()}


def alike(*members: str, of: frozenset[Uuid] = frozenset({A})) -> dict[str, Subscriber]:
    return {member_id: Subscriber(of) for member_id in members}


def loads(targets: Targets) -> dict[str, int]:
    return {member_id: sum(map(len, held.values())) for member_id, held in targets.items()}


def readers(targets: Targets) -> Counter[tuple[Uuid, int]]:
    return Counter(
        (topic_id, number)
        for held in targets.values()
        for topic_id, numbers in held.items()
        for number in numbers
    )


def test_one_member_has_all() -> None:
    assert assign(alike("m"), topics(a=3)) == {"m": {A: frozenset({0, 1, 2})}}


def test_nobody_has_nothing() -> None:
    assert assign({}, topics(a=3)) == {}
    assert assign(alike("m"), {}) == {"m": {}}
    assert assign(alike("m", of=frozenset()), topics(a=3)) == {"m": {}}


def test_few_members_split_many_partitions() -> None:
    targets = assign(alike("m1", "m2"), topics(a=5))
    assert loads(targets) == {"m1": 3, "m2": 2}
    assert set(readers(targets).values()) == {1}


def test_many_members_share_few_partitions() -> None:
    targets = assign(alike("m1", "m2", "m3", "m4", "m5"), topics(a=2))
    assert set(loads(targets).values()) == {1, 2}
    assert readers(targets) == {(A, 0): 3, (A, 1): 3}


def test_who_comes_takes_no_more_than_it_must() -> None:
    members = {
        "m1": Subscriber(frozenset({A}), {A: frozenset({0, 1})}),
        "m2": Subscriber(frozenset({A}), {A: frozenset({2, 3})}),
        "m3": Subscriber(frozenset({A})),
    }
    targets = assign(members, topics(a=4))
    assert loads(targets) == {"m1": 2, "m2": 1, "m3": 1}
    assert targets["m1"] == {A: frozenset({0, 1})}
    assert targets["m2"][A] < frozenset({2, 3})


def test_what_who_has_left_had_goes_to_who_stays() -> None:
    members = {"m1": Subscriber(frozenset({A}), {A: frozenset({0})})}
    assert assign(members, topics(a=2)) == {"m1": {A: frozenset({0, 1})}}


def test_what_is_not_there_any_more_is_given_to_nobody() -> None:
    members = {"m1": Subscriber(frozenset({A, B}), {A: frozenset({0, 7}), C: frozenset({0})})}
    assert assign(members, topics(a=1)) == {"m1": {A: frozenset({0})}}


def test_each_topic_is_for_those_who_subscribe_to_it() -> None:
    members = {
        "m1": Subscriber(frozenset({A})),
        "m2": Subscriber(frozenset({A, B})),
        "m3": Subscriber(frozenset({B})),
    }
    targets = assign(members, topics(a=3, b=1))
    assert loads(targets) == {"m1": 2, "m2": 2, "m3": 1}
    assert readers(targets) == {(A, 0): 1, (A, 1): 1, (A, 2): 1, (B, 0): 2}


some_topics = st.frozensets(st.sampled_from([A, B, C]))
partitions = st.dictionaries(
    st.sampled_from([A, B, C]), st.frozensets(st.integers(0, 6), min_size=1)
)
members = st.dictionaries(
    st.sampled_from([f"m{n}" for n in range(9)]), st.builds(Subscriber, some_topics, partitions)
)


@given(members, partitions)
def test_everything_has_somebody_and_nobody_has_what_it_does_not_want(
    members: dict[str, Subscriber], partitions: Partitions
) -> None:
    targets = assign(members, partitions)
    assert targets.keys() == members.keys()
    for member_id, held in targets.items():
        assert held.keys() <= members[member_id].topics
        assert all(numbers and numbers <= partitions[t] for t, numbers in held.items())
    wanted = frozenset[Uuid]().union(*(member.topics for member in members.values()))
    assert readers(targets).keys() == {
        (t, n) for t in wanted & partitions.keys() for n in partitions[t]
    }


@given(members, partitions)
def test_the_same_group_gets_the_same_again(
    members: dict[str, Subscriber], partitions: Partitions
) -> None:
    targets = assign(members, partitions)
    again = {m: Subscriber(members[m].topics, held) for m, held in targets.items()}
    assert assign(again, partitions) == targets


@given(members, partitions, some_topics)
def test_who_subscribes_alike_has_as_much(
    members: dict[str, Subscriber], partitions: Partitions, subscription: frozenset[Uuid]
) -> None:
    targets = assign(
        {m: Subscriber(subscription, each.target) for m, each in members.items()}, partitions
    )
    found = loads(targets).values()
    assert not found or max(found) - min(found) <= 1
    places = sum(len(partitions.get(t, ())) for t in subscription)
    if places:
        assert max(readers(targets).values(), default=0) <= -(-len(members) // places)
        assert not found or min(found) >= 1 or len(members) == 0


class Target(dict[Uuid, frozenset[int]]):
    """Counts how many of its topics are looked at."""

    looks = 0

    def get(self, topic_id: Uuid, default: Any = None) -> Any:
        Target.looks += 1
        return super().get(topic_id, default)

    def __iter__(self) -> Iterator[Uuid]:
        Target.looks += len(self)
        return super().__iter__()

    def items(self) -> Any:
        Target.looks += len(self)
        return super().items()


def test_members_with_many_topics_that_differ_are_looked_at_topic_by_topic() -> None:
    """Not all that a member had for each of the topics."""
    ids = [Uuid(number.to_bytes(16, "big")) for number in range(60)]
    partitions = {topic_id: frozenset(range(3)) for topic_id in ids}
    members = {f"m{n}": Subscriber(frozenset(ids[: 40 + n])) for n in range(20)}
    targets = assign(members, partitions)
    again = {m: Subscriber(members[m].topics, Target(held)) for m, held in targets.items()}
    Target.looks = 0
    assert assign(again, partitions) == targets
    assert 0 < Target.looks <= sum(len(member.topics) for member in members.values())
