"""How partitions are shared out: all of them, evenly, and with few moves."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyk.coordinator.assigned import Targets
from pyk.coordinator.consumer import range as by_range
from pyk.coordinator.consumer import uniform
from pyk.coordinator.consumer.assignors import Assignor, Subscriber
from pyk.types import Uuid

A, B, C = (Uuid(letter * 16) for letter in (b"a", b"b", b"c"))
NAMES = [f"m{n}" for n in range(8)]
TOPICS = [Uuid(bytes([n]) * 16) for n in range(1, 6)]


def group(**topics: set[Uuid]) -> dict[str, Subscriber]:
    return {member_id: Subscriber(frozenset(wanted)) for member_id, wanted in topics.items()}


def after(targets: Targets, **topics: set[Uuid]) -> dict[str, Subscriber]:
    """Members who had those targets, as far as they were there."""
    return {
        member_id: Subscriber(frozenset(wanted), targets.get(member_id, {}))
        for member_id, wanted in topics.items()
    }


def moved(before: Targets, now: Targets) -> int:
    had = {(t, p): m for m, topics in before.items() for t, ps in topics.items() for p in ps}
    has = {(t, p): m for m, topics in now.items() for t, ps in topics.items() for p in ps}
    return sum(had[each] != has[each] for each in had.keys() & has.keys())


def sizes(targets: Targets) -> list[int]:
    return sorted(sum(map(len, topics.values())) for topics in targets.values())


def test_range_gives_each_member_a_run_of_each_topic() -> None:
    targets = by_range.assign(group(ann={A, B}, bob={A, B}), {A: 3, B: 2})
    assert targets == {
        "ann": {A: frozenset({0, 1}), B: frozenset({0})},
        "bob": {A: frozenset({2}), B: frozenset({1})},
    }


def test_range_counts_only_who_subscribes_to_a_topic() -> None:
    targets = by_range.assign(group(ann={A}, bob={A, B}), {A: 2, B: 2})
    assert targets == {
        "ann": {A: frozenset({0})},
        "bob": {A: frozenset({1}), B: frozenset({0, 1})},
    }


def test_range_puts_static_members_first_and_by_their_instances() -> None:
    members = {
        "ann": Subscriber(frozenset({A})),
        "bob": Subscriber(frozenset({A}), instance_id="i2"),
        "cat": Subscriber(frozenset({A}), instance_id="i1"),
    }
    targets = by_range.assign(members, {A: 3})
    assert {m: min(targets[m][A]) for m in targets} == {"cat": 0, "bob": 1, "ann": 2}


@pytest.mark.parametrize("assign", [by_range.assign, uniform.assign])
def test_more_members_than_partitions_leave_some_with_nothing(assign: Assignor) -> None:
    targets = assign(group(ann={A}, bob={A}, cat={A}), {A: 2})
    assert sizes(targets) == [0, 1, 1]


@pytest.mark.parametrize("assign", [by_range.assign, uniform.assign])
def test_nobody_gets_nothing(assign: Assignor) -> None:
    assert assign({}, {}) == {}
    assert assign(group(ann=set()), {}) == {"ann": {}}


def test_uniform_moves_no_more_than_it_must_when_one_joins() -> None:
    before = uniform.assign(group(ann={A}, bob={A}), {A: 6})
    now = uniform.assign(after(before, ann={A}, bob={A}, cat={A}), {A: 6})
    assert sizes(now) == [2, 2, 2]
    assert moved(before, now) == 2


def test_uniform_leaves_the_odd_partitions_with_who_has_them() -> None:
    before: Targets = {
        "ann": {A: frozenset({0})},
        "bob": {A: frozenset({1})},
        "cat": {A: frozenset({2, 3})},
    }
    now = uniform.assign(after(before, ann={A}, bob={A}, cat={A}), {A: 4})
    assert now == before


def test_uniform_forgets_topics_that_are_gone() -> None:
    before: Targets = {"ann": {A: frozenset({0, 1})}, "bob": {B: frozenset({0, 1})}}
    now = uniform.assign(after(before, ann={B}, bob={B}), {B: 2})
    assert sizes(now) == [1, 1]
    assert now["bob"][B] < frozenset({0, 1})


def test_uniform_gives_who_can_choose_what_the_others_cannot_have() -> None:
    now = uniform.assign(group(ann={A}, bob={A, B}), {A: 4, B: 4})
    assert now == {"ann": {A: frozenset(range(4))}, "bob": {B: frozenset(range(4))}}


def test_a_partition_that_two_were_to_have_goes_to_one() -> None:
    both = frozenset({0, 1})
    for bob in ({A}, {A, B}):
        members = {
            "ann": Subscriber(frozenset({A}), {A: both}),
            "bob": Subscriber(frozenset(bob), {A: both}),
        }
        now = uniform.assign(members, {A: 2, **({B: 1} if B in bob else {})})
        assert Counter(p for m in now.values() for p in m.get(A, ())) == {0: 1, 1: 1}


counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1)
names = st.sampled_from(NAMES)


@st.composite
def groups(draw: st.DrawFn) -> tuple[dict[str, Subscriber], dict[Uuid, int]]:
    """Members with what an earlier group had given them."""
    partitions = draw(counts)
    some = st.sets(st.sampled_from(sorted(partitions)))
    same = draw(some)
    subscriptions = draw(st.dictionaries(names, st.one_of(st.just(same), some), min_size=1))
    had: dict[str, dict[Uuid, set[int]]] = {}
    rng = Random(draw(st.integers(0, 2**32)))
    for topic_id, count in partitions.items():
        for number in range(count):
            owner = rng.choice(["nobody", *NAMES])
            had.setdefault(owner, {}).setdefault(topic_id, set()).add(number)
    members = {
        member_id: Subscriber(
            frozenset(topics), {t: frozenset(p) for t, p in had.get(member_id, {}).items()}
        )
        for member_id, topics in subscriptions.items()
    }
    wanted = set().union(*subscriptions.values())
    return members, {t: count for t, count in partitions.items() if t in wanted}


@pytest.mark.parametrize("assign", [by_range.assign, uniform.assign])
@given(given_group=groups())
def test_each_partition_goes_to_one_subscriber_of_its_topic(
    assign: Assignor, given_group: tuple[dict[str, Subscriber], dict[Uuid, int]]
) -> None:
    members, partitions = given_group
    targets = assign(members, partitions)
    assert targets.keys() == members.keys()
    given_out = Counter((t, p) for m in targets.values() for t, ps in m.items() for p in ps)
    assert given_out == {(t, p): 1 for t, count in partitions.items() for p in range(count)}
    for member_id, topics in targets.items():
        assert topics.keys() <= members[member_id].topics
        assert all(topics.values())


@given(given_group=groups())
def test_uniform_cannot_be_made_more_even_by_a_move(
    given_group: tuple[dict[str, Subscriber], dict[Uuid, int]],
) -> None:
    members, partitions = given_group
    targets = uniform.assign(members, partitions)
    loads = {m: sum(map(len, topics.values())) for m, topics in targets.items()}
    for one, other in combinations(members, 2):
        for giver, taker in ((one, other), (other, one)):
            if targets[giver].keys() & members[taker].topics:
                assert loads[giver] - loads[taker] <= 1


@given(given_group=groups())
def test_uniform_is_content_with_what_it_has_made(
    given_group: tuple[dict[str, Subscriber], dict[Uuid, int]],
) -> None:
    members, partitions = given_group
    targets = uniform.assign(members, partitions)
    again = {m: Subscriber(members[m].topics, targets[m]) for m in members}
    assert uniform.assign(again, partitions) == targets
