"""Targets that take long are made elsewhere, while members come and go."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from pyk.config.group import GroupConfig
from pyk.coordinator.assigned import RETRY_AFTER, RETRY_MAX
from pyk.coordinator.consumer.group import ConsumerGroup
from pyk.coordinator.consumer.member import Member
from pyk.errors import ErrorCode
from pyk.types import Uuid
from tests.coordinator.consumer.coordinator import GROUP, Coordinator


def large(**topics: int) -> Coordinator:
    """All groups are large, and a target is made when it is time for that."""
    it = Coordinator(topics, inline_max=0)
    it.jobs_wait = True
    return it


def test_a_member_is_answered_before_there_is_a_target() -> None:
    it = large(a=2)
    joined = it.join("ann", "a")
    assert (joined.epoch, joined.held) == (1, {})
    assert it.described().group_state == "Assigning"
    it.do_jobs()
    assert it.target("ann") == {"a": {0, 1}}
    assert it.beat("ann", 1).held == {"a": {0, 1}}
    assert it.described().group_state == "Stable"


def test_one_target_is_made_at_a_time() -> None:
    it = large(a=2)
    it.join("ann", "a")
    it.join("bob", "a")
    it.do_jobs()
    assert (it.group.target_epoch, it.group.epoch) == (2, 3)
    it.pass_time()
    it.beat("ann", 1, {})
    it.do_jobs()
    assert it.group.target_epoch == 3
    assert it.target("ann") == {"a": {0}}
    assert it.target("bob") == {"a": {1}}


def test_who_has_left_meanwhile_gets_nothing() -> None:
    it = large(a=2)
    it.join("ann", "a")
    it.leave("ann")
    it.do_jobs()
    assert it.group.targets == {}
    it.restart()
    assert it.group.targets == {}


def test_a_static_member_that_came_back_under_another_id_gets_what_was_its_own() -> None:
    it = large(a=2)
    it.join("ann", "a", instance_id="i1")
    it.beat("ann", -2, instance_id="i1")
    it.join("ann again", "a", instance_id="i1")
    it.do_jobs()
    assert it.target("ann again") == {"a": {0, 1}}
    assert it.group.targets.keys() == {"ann again"}


def test_a_group_that_was_not_written_down_gets_no_target() -> None:
    it = large(a=2)
    it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
    it.join("ann", "a")
    it.log_refuses = None
    it.do_jobs()
    assert it.log == []
    it.join("ann", "a")
    it.do_jobs()
    assert it.target("ann") == {"a": {0, 1}}


def settled_with(it: Coordinator, *member_ids: str) -> set[int]:
    """The partitions that somebody has after a while."""
    for _ in range(10):
        it.pass_time(5)
        for member_id in member_ids:
            target = it.target(member_id) if member_id in it.group.targets else {}
            it.beat(member_id, it.member(member_id).epoch, target)
            it.do_jobs()
    assert it.described().group_state == "Stable"
    assert it.group.targets.keys() == set(member_ids)
    return set().union(*(it.target(member_id).get("a", set()) for member_id in member_ids))


def test_what_the_log_refused_is_not_taken_for_who_came_after_it() -> None:
    it = large(a=4)
    it.join("ann", "a")
    it.do_jobs()
    settled_with(it, "ann")
    it.pass_time()
    it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
    it.join("bob", "a")
    it.log_refuses = None
    it.join("cid", "a")
    it.do_jobs()
    assert settled_with(it, "ann", "cid") == {0, 1, 2, 3}


def test_a_subscription_that_the_log_refused_is_not_taken_for_another_of_the_same_epoch() -> None:
    it = large(a=4, b=2)
    it.join("ann", "a")
    it.join("bob", "a")
    it.do_jobs()
    settled_with(it, "ann", "bob")
    it.pass_time()
    it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
    it.beat("ann", it.member("ann").epoch, it.target("ann"), topics=["b"])
    it.log_refuses = None
    it.beat("bob", it.member("bob").epoch, it.target("bob"), topics=["a", "b"])
    it.do_jobs()
    assert settled_with(it, "ann", "bob") == {0, 1, 2, 3}
    assert it.target("bob")["b"] == {0, 1}


def test_a_group_made_anew_takes_nothing_of_the_one_before() -> None:
    it = large(a=2)
    it.join("ann", "a")
    it.leave("ann")
    it.ask(lambda groups, ticket, now: groups.delete(GROUP, ticket, now))
    it.join("bob", "a")
    it.do_jobs()
    assert settled_with(it, "bob") == {0, 1}


def refuse_targets(it: Coordinator) -> None:
    """They are too large for the log, and nothing else is."""
    it.log_refuses = ErrorCode.UNKNOWN_SERVER_ERROR
    it.do_jobs()
    it.log_refuses = None


def test_members_hear_that_the_log_refuses_their_target_and_it_is_made_seldom() -> None:
    it = large(a=2)
    it.join("ann", "a")
    refuse_targets(it)
    errors = Counter[ErrorCode]()
    made = 0
    for _ in range(600):
        it.pass_time(1)
        errors[it.beat("ann", 1, {}).error] += 1
        made += it.has_jobs
        refuse_targets(it)
    assert it.group.members.keys() == {"ann"}
    assert errors == {ErrorCode.UNKNOWN_SERVER_ERROR: 600 - made, ErrorCode.NONE: made}
    assert 10 <= made <= 16
    it.group_config = GroupConfig(consumer_session_timeout_ms=600_000)
    it.beat("ann", 1, {})
    it.pass_time(RETRY_MAX)
    assert it.beat("ann", 1, {}).error is ErrorCode.NONE
    it.do_jobs()
    assert settled_with(it, "ann") == {0, 1}


def test_a_group_whose_target_was_refused_gets_another_as_soon_as_it_has_changed() -> None:
    it = large(a=2, b=1)
    it.group_config = GroupConfig(consumer_session_timeout_ms=600_000)
    it.join("ann", "a", "b")
    for _ in range(8):
        refuse_targets(it)
        it.pass_time(RETRY_MAX)
        assert it.beat("ann", 1, {}).error is ErrorCode.NONE
    refuse_targets(it)
    it.pass_time(RETRY_AFTER)
    assert it.beat("ann", 1, {}).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert it.beat("ann", 1, {}, topics=["a"]).error is ErrorCode.NONE
    it.do_jobs()
    assert settled_with(it, "ann") == {0, 1}


def test_small_groups_do_not_wait() -> None:
    it = Coordinator({"a": 4000})
    it.jobs_wait = True
    assert it.join("ann", "a").held == {"a": set(range(4000))}
    it = Coordinator({"a": 6000})
    it.jobs_wait = True
    assert it.join("ann", "a").held == {}


class Written(Counter[str]):
    """Counts how often it is written to."""

    def __init__(self, counts: Counter[str]) -> None:
        self.times = 0
        super().__init__(counts)

    def __setitem__(self, key: str, value: int) -> None:
        self.times += 1
        super().__setitem__(key, value)


def test_the_subscription_of_a_member_is_not_counted_again_when_its_place_changes() -> None:
    group, topic_id = ConsumerGroup("readers"), Uuid(bytes(16))
    names = frozenset(f"topic-{number}" for number in range(100))
    member = Member(member_id="ann", subscribed_topic_names=names, server_assignor="range")
    group.update_member(member)
    written = group.topic_counts = Written(group.topic_counts)
    written.times = 0
    for assigned in ({topic_id: {0: 1, 1: 1}}, {topic_id: {1: 1}}):
        member = replace(member, assigned=assigned, epoch=1)
        group.update_member(member)
        assert [group.is_owned(topic_id, number) for number in range(2)] == [
            number in assigned[topic_id] for number in range(2)
        ]
    assert group.members == {"ann": member}
    assert group.topics_with([member], [replace(member, epoch=2)]) == names
    assert written.times == 0
    group.update_member(replace(member, subscribed_topic_names=frozenset({"topic-7"})))
    assert dict(group.topic_counts) == {"topic-7": 1}
    group.remove_member("ann")
    assert not group.topic_counts
    assert not group.is_owned(topic_id, 1)
