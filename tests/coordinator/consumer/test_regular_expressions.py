"""Subscriptions by regular expression."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from pyk.coordinator.consumer.regular_expressions import (
    EFFORT_MAX,
    LENGTH_MAX,
    Matches,
    Search,
    check,
    matching,
)
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.payloads.consumer_group_records import ConsumerGroupRegularExpressionKey
from tests.coordinator.consumer.coordinator import GROUP, Coordinator


def matched(**topics: int) -> Coordinator:
    """Ann subscribes to what begins with an a."""
    it = Coordinator(topics)
    joined = it.join("ann", subscribed_topic_regex="a.*")
    assert (joined.epoch, joined.held) == (1, {})
    it.settle()
    return it


def test_expressions_are_matched_after_the_member_was_answered() -> None:
    it = matched(a1=1, a2=1, b1=1)
    assert it.group.epoch == 2
    assert it.group.matches["a.*"].topics == {"a1", "a2"}
    assert it.group.is_subscribed_to("a1")
    assert not it.group.is_subscribed_to("b1")
    assert it.beat("ann", 1).held == {"a1": {0}, "a2": {0}}


def test_names_and_an_expression_are_one_subscription() -> None:
    it = Coordinator({"a1": 1, "b1": 1})
    it.join("ann", "b1", subscribed_topic_regex="a.*")
    it.settle()
    it.pass_time()
    assert it.beat("ann", 2).held == {"a1": {0}, "b1": {0}}


def test_who_brings_a_known_expression_knows_its_topics_at_once() -> None:
    it = matched(a1=2)
    it.beat("ann", 1)
    it.pass_time()
    assert it.join("bob", subscribed_topic_regex="a.*").epoch == 3
    assert it.target("bob") == {"a1": {1}}


def test_new_topics_are_found_but_not_every_moment() -> None:
    it = matched(a1=1)
    it.beat("ann", 1)
    it.create(a2=1)
    it.pass_time(9)
    it.beat("ann", 2)
    it.settle()
    assert it.group.matches["a.*"].topics == {"a1"}
    it.pass_time(1)
    it.beat("ann", 2)
    it.settle()
    assert it.beat("ann", 2).held == {"a1": {0}, "a2": {0}}


def test_without_new_topics_expressions_are_matched_every_ten_minutes() -> None:
    it = matched(a1=1)
    it.beat("ann", 1)
    it.beat("ann", 2)
    before = len(it.log)
    for _ in range(60):
        it.pass_time(10)
        it.beat("ann", 2)
    it.settle()
    assert len(it.log) == before
    it.pass_time(1)
    it.beat("ann", 2)
    it.settle()
    assert [type(r.key) for r in it.records(before)] == [ConsumerGroupRegularExpressionKey]


def test_a_topic_that_is_gone_is_not_subscribed_to_when_there_is_a_new_one() -> None:
    it = matched(a1=1, a2=1)
    it.beat("ann", 1)
    it.delete("a2")
    it.pass_time()
    assert it.beat("ann", 2, {"a1": {0}}).held == {"a1": {0}}


def test_an_expression_goes_with_its_last_member() -> None:
    it = matched(a1=1)
    it.join("bob", subscribed_topic_regex="a.*")
    it.leave("ann")
    assert it.group.matches.keys() == {"a.*"}
    it.leave("bob")
    assert it.group.matches == {}
    last = it.records()[-2]
    assert last.key == ConsumerGroupRegularExpressionKey(group_id=GROUP, regular_expression="a.*")
    assert last.value is None


def test_a_member_may_change_its_expression() -> None:
    it = matched(a1=1, b1=1)
    it.beat("ann", 1)
    it.pass_time(10)
    assert it.beat("ann", 2, subscribed_topic_regex="b.*").held == {}
    it.settle()
    assert it.group.matches.keys() == {"b.*"}
    assert it.beat("ann", 2, {}).held == {"b1": {0}}


def test_a_member_may_give_its_expression_up() -> None:
    it = matched(a1=1)
    it.beat("ann", 1)
    it.pass_time()
    assert it.beat("ann", 2, {"a1": {0}}, subscribed_topic_regex="").held == {}
    assert it.group.matches == {}
    assert it.beat("ann", 2, {}).epoch == 3


def test_an_expression_that_matches_nothing_moves_nothing() -> None:
    it = Coordinator({"b1": 1})
    it.join("ann", subscribed_topic_regex="a.*")
    it.settle()
    assert it.group.epoch == 1
    assert it.group.matches["a.*"].topics == frozenset()


@pytest.mark.parametrize("regex", ["c(", "(?=x)", "a{2000}", "*", "[", "\\1"])
def test_what_is_no_expression_of_re2_is_refused(regex: str) -> None:
    it = Coordinator({"a1": 1})
    answer = it.join("ann", subscribed_topic_regex=regex)
    assert answer.error == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.message is not None
    assert answer.message.startswith(f"SubscribedTopicRegex `{regex}` is not a valid regular")
    assert it.log == []


@pytest.mark.parametrize("regex", ["(a+)+$", "(a|a)*b", "(.*)*x"])
def test_no_expression_takes_time_beyond_measure(regex: str) -> None:
    check(regex)
    assert matching(regex, ["a" * 249 + "!"]) == frozenset()


def test_an_expression_that_needs_too_much_memory_is_refused() -> None:
    with pytest.raises(KafkaError) as refusal:
        check("(" + "|".join(f"\\pL{{{n}}}" for n in range(500, 1000)) + ")")
    assert refusal.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_an_expression_that_is_too_long_is_refused_unread() -> None:
    with pytest.raises(KafkaError) as refusal:
        check("a" * (LENGTH_MAX + 1))
    assert refusal.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


SLOW = "(.?){1000}" * 5 + "z"
"""RE2 needs milliseconds for each name that this does not match."""


def search(it: Coordinator, known: Mapping[str, Matches | None]) -> Search:
    return Search(GROUP, known, it.image)


def steps(search: Search) -> int:
    """How many there are, which is about how many names are tried."""
    return sum(1 for _ in search.work(lambda: 0.0))


def test_only_topics_that_are_new_are_tried_again() -> None:
    it = Coordinator({f"a{number}": 1 for number in range(100)})
    first = search(it, {"a.*": None, "b.*": None})
    assert steps(first) >= 200
    matches = {
        regex: Matches(topics, first.revision, 0) for regex, topics in first.take_found().items()
    }
    it.create(a100=1)
    it.delete("a0")
    second = search(it, {**matches, "c.*": None})
    assert 101 <= steps(second) < 250
    found = second.take_found()
    assert found["a.*"] == {f"a{number}" for number in range(1, 101)}
    assert found["b.*"] == found["c.*"] == frozenset()


def test_what_was_matched_before_a_restart_is_matched_again() -> None:
    it = matched(a1=1)
    topics = {**it.image.topics, "a2": it.image.topics["a1"]}
    it.image = replace(it.image, revision=it.image.revision + 1, topics=topics)
    it.restart()
    it.pass_time(10)
    it.beat("ann", 1)
    it.settle()
    assert it.group.matches["a.*"].topics == {"a1", "a2"}


def test_an_expression_that_takes_too_long_is_given_up() -> None:
    it = Coordinator({f"a{number}": 1 for number in range(100)})
    elapsed = iter(range(10**6))
    slow = search(it, {SLOW: None})
    tried = sum(1 for _ in slow.work(lambda: float(next(elapsed))))
    assert slow.given_up == [SLOW]
    assert tried < EFFORT_MAX + 5
    assert slow.take_found() == {SLOW: frozenset()}


def test_what_matches_many_long_names_is_written_in_parts() -> None:
    it = Coordinator({f"a{number}-" + "x" * 200: 1 for number in range(1000)})
    wide = search(it, {f"a.*{number}?.*": None for number in range(10)})
    steps(wide)
    parts = []
    while wide.has_found:
        parts.append(len(wide.take_found()))
    assert sum(parts) == 10
    assert max(parts) == 1


def test_a_group_is_not_searched_twice_at_a_time() -> None:
    it = Coordinator({"a1": 1})
    it.join("ann", subscribed_topic_regex="a.*")
    timer = it.surroundings.timers.take_due(it.now)
    assert timer is not None
    it.groups.consumer.expire(timer, it.now)
    (under_way,) = it.groups.consumer.take_jobs()
    it.join("bob", subscribed_topic_regex=".*1")
    assert it.surroundings.timers.deadline() != it.now
    it.groups.consumer.end_job(under_way)
    it.beat("ann", 1)
    assert it.surroundings.timers.deadline() == it.now


def test_a_member_whose_new_expression_matches_nothing_has_nothing() -> None:
    it = matched(a1=1)
    it.join("bob", "a1")
    it.pass_time(10)
    for _ in range(2):
        for name, member in list(it.group.members.items()):
            it.beat(name, member.epoch, {})
        it.pass_time()
    epoch = it.member("ann").epoch
    it.beat("ann", epoch, subscribed_topic_regex="x.*")
    it.settle()
    it.pass_time()
    for _ in range(3):
        for name, member in list(it.group.members.items()):
            it.beat(name, member.epoch, {})
        it.pass_time()
    assert it.target("ann") == {}
    assert it.target("bob") == {"a1": {0}}


def test_the_whole_name_has_to_match() -> None:
    assert matching("a", ["a", "ab", "ba"]) == {"a"}


def test_an_expression_that_another_broker_took_matches_nothing() -> None:
    assert matching("(", ["a"]) == frozenset()
