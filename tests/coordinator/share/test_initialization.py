"""Partitions begin before they are read, and who waits for that is answered when they have."""

from __future__ import annotations

from pyk.errors import ErrorCode
from pyk.wire.payloads.share_group_records import ShareGroupStatePartitionMetadataKey
from tests.coordinator.share.coordinator import GROUP, INTERVAL, Answer, Coordinator


def test_who_joins_is_answered_when_its_partitions_are_there() -> None:
    it = Coordinator({"a": 2})
    it.states_wait = True
    ticket = it.says("m", 0, ["a"])
    assert it.hears(ticket) is None
    it.states_answer()
    assert it.hears(ticket) == Answer("m", 2, {"a": {0, 1}}, interval_ms=5000)
    assert it.states == {(it.topic_id("a"), 0): 2, (it.topic_id("a"), 1): 2}


def test_who_joins_in_the_meantime_waits_too() -> None:
    it = Coordinator({"a": 2, "b": 1})
    it.states_wait = True
    first, second = it.says("m1", 0, ["a"]), it.says("m2", 0, ["a"])
    it.states_answer()
    answers = [it.hears(first), it.hears(second)]
    assert [each and each.epoch for each in answers] == [3, 3]
    assert [each and each.held for each in answers] == [{"a": {0}}, {"a": {1}}]


def test_who_wants_nothing_of_it_does_not_wait() -> None:
    it = Coordinator({"a": 1, "b": 1})
    it.comes("m1", "a")
    it.states_wait = True
    waits = it.says("m2", 0, ["b"])
    assert it.heartbeat("m1", 2).error == ErrorCode.NONE
    it.states_answer()
    assert it.hears(waits) == Answer("m2", 3, {"b": {0}}, interval_ms=5000)


def test_nobody_waits_for_longer_than_until_its_next_heartbeat() -> None:
    it = Coordinator({"a": 1})
    it.states_wait = True
    ticket = it.says("m", 0, ["a"])
    it.pass_time(4.9)
    assert it.hears(ticket) is None
    it.pass_time(0.1)
    assert it.hears(ticket) == Answer("m", 2, {}, interval_ms=5000)
    again = it.says("m", 2)
    it.states_answer()
    assert it.hears(again) == Answer("m", 3, {"a": {0}}, interval_ms=5000)


def test_who_goes_while_it_waits_is_told_so() -> None:
    it = Coordinator({"a": 1})
    it.states_wait = True
    ticket = it.says("m", 0, ["a"])
    it.goes("m")
    it.states_answer()
    answer = it.hears(ticket)
    assert answer is not None
    assert answer.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_waits_for_a_group_that_is_deleted_is_told_so() -> None:
    it = Coordinator({"a": 1})
    it.states_wait = True
    ticket = it.says("m", 0, ["a"])
    it.goes("m")
    it.ask(lambda groups, ticket, now: groups.delete(GROUP, ticket, now))
    it.pass_time(5)
    answer = it.hears(ticket)
    assert answer is not None
    assert answer.error == ErrorCode.GROUP_ID_NOT_FOUND


def test_who_waits_has_all_of_its_time() -> None:
    it = Coordinator({"a": 1, "b": 1})
    it.comes("m1", "a")
    it.pass_time(4.9)
    it.states_wait = True
    ticket = it.says("m2", 0, ["b"])
    it.pass_time(1)
    assert it.hears(ticket) is None
    it.states_answer()
    assert it.hears(ticket) is not None


def test_what_does_not_begin_is_tried_again_with_the_next_heartbeat() -> None:
    it = Coordinator({"a": 1})
    it.states_refuse = True
    assert it.comes("m", "a") == Answer("m", 2, {}, interval_ms=5000)
    assert it.shared.share_partitions.initializing == {}
    it.states_refuse = False
    assert it.heartbeat("m", 2) == Answer("m", 3, {"a": {0}}, interval_ms=5000)


def test_what_a_restart_interrupts_is_begun_again() -> None:
    it = Coordinator({"a": 1})
    it.states_wait = True
    it.says("m", 0, ["a"])
    it.restart()
    it.states_wait = False
    assert it.comes("m", "a") == Answer("m", 2, {"a": {0}}, interval_ms=5000)


def test_what_is_not_heard_of_is_begun_again() -> None:
    it = Coordinator({"a": 1})
    it.states_wait = True
    it.says("m", 0, ["a"])
    it.pass_time(30)
    again = it.says("m", 2)
    assert it.hears(again) is None
    it.states_answer()
    assert it.hears(again) == Answer("m", 3, {"a": {0}}, interval_ms=5000)


def test_a_log_that_refuses_leaves_nothing_under_way() -> None:
    it = Coordinator({"a": 1})
    it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
    assert it.comes("m", "a").error == ErrorCode.KAFKA_STORAGE_ERROR
    assert it.states == {}
    it.log_refuses = None
    assert it.comes("m", "a").held == {"a": {0}}


def test_a_log_that_refuses_what_came_of_it_is_asked_again() -> None:
    it = Coordinator({"a": 1})
    it.states_wait = True
    ticket = it.says("m", 0, ["a"])
    it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
    it.states_answer()
    answer = it.hears(ticket)
    assert answer is not None
    assert answer.error == ErrorCode.KAFKA_STORAGE_ERROR
    it.log_refuses, it.states_wait = None, False
    assert it.comes("m", "a").held == {"a": {0}}


def test_a_topic_may_come_later() -> None:
    it = Coordinator({"a": 1})
    assert it.comes("m", "a", "b").held == {"a": {0}}
    it.create(b=2)
    assert it.heartbeat("m", 2) == Answer("m", 3, {"a": {0}, "b": {0, 1}}, interval_ms=5000)


def test_a_topic_may_grow() -> None:
    it = Coordinator({"a": 1})
    it.comes("m", "a")
    it.create(a=3)
    assert it.heartbeat("m", 2) == Answer("m", 3, {"a": {0, 1, 2}}, interval_ms=5000)


def test_a_topic_that_is_deleted_is_forgotten() -> None:
    it = Coordinator({"a": 1, "b": 1})
    it.comes("m", "a", "b")
    it.pass_time(INTERVAL)
    it.delete("b")
    assert isinstance(it.records()[-1].key, ShareGroupStatePartitionMetadataKey)
    assert [known.name for known in it.shared.share_partitions.initialized.values()] == ["a"]
    assert it.heartbeat("m", 2) == Answer("m", 3, {"a": {0}}, interval_ms=5000)


def test_a_topic_that_comes_again_begins_anew() -> None:
    it = Coordinator({"a": 1})
    it.comes("m", "a")
    it.delete("a")
    it.create(a=1)
    it.pass_time(INTERVAL)
    assert it.heartbeat("m", 2).held == {"a": {0}}
    assert len(it.states) == 2


def test_what_was_begun_is_not_begun_again() -> None:
    it = Coordinator({"a": 1})
    it.comes("m", "a")
    it.goes("m")
    it.pass_time(INTERVAL)
    it.states.clear()
    assert it.comes("m", "a").held == {"a": {0}}
    assert it.states == {}
    assert it.surroundings.groups[GROUP] is it.shared
