"""Members that come back as the same instance."""

from __future__ import annotations

from pyk.errors import ErrorCode
from tests.coordinator.consumer.coordinator import SESSION, Coordinator


def one_instance() -> Coordinator:
    it = Coordinator({"a": 2, "b": 1})
    it.join("ann", "a", instance_id="i1")
    return it


def away() -> Coordinator:
    it = one_instance()
    left = it.beat("ann", -2, instance_id="i1")
    assert (left.member_id, left.epoch, left.interval_ms) == ("ann", -2, 0)
    return it


def test_an_instance_has_one_member() -> None:
    it = one_instance()
    assert it.join("bob", "a", instance_id="i1").error == ErrorCode.UNRELEASED_INSTANCE_ID
    assert it.join("ann", "a", instance_id="i1").error == ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_member_that_is_away_for_a_while_keeps_what_it_has() -> None:
    it = away()
    assert it.member("ann").assigned == {it.topic_id("a"): {0: 0, 1: 0}}
    assert it.group.epoch == 2
    assert it.beat("ann", 2, instance_id="i1").error == ErrorCode.FENCED_MEMBER_EPOCH


def test_who_comes_back_under_another_id_has_what_it_had() -> None:
    it = away()
    back = it.join("new", "a", instance_id="i1")
    assert (back.epoch, back.held) == (2, {"a": {0, 1}})
    assert it.group.members.keys() == {"new"}
    assert it.group.targets.keys() == {"new"}
    assert it.group.epoch == 2
    it.restart()
    assert it.beat("new", 2).error == ErrorCode.NONE


def test_who_comes_back_under_its_own_id_has_what_it_had() -> None:
    it = away()
    assert it.join("ann", "a", instance_id="i1").held == {"a": {0, 1}}
    it.pass_time(SESSION - 1)
    assert "ann" in it.group.members


def test_who_comes_back_with_another_subscription_gets_another_target() -> None:
    it = away()
    it.pass_time()
    back = it.join("new", "a", "b", instance_id="i1")
    assert (back.epoch, back.held) == (3, {"a": {0, 1}, "b": {0}})


def test_who_does_not_come_back_in_time_is_out() -> None:
    it = away()
    it.pass_time(SESSION)
    assert it.group.state == "Empty"
    assert it.group.static_members == {}


def test_who_was_replaced_is_fenced() -> None:
    it = away()
    it.join("new", "a", instance_id="i1")
    assert it.beat("ann", 2, instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID
    assert it.beat("ann", -1, instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID
    assert it.beat("ann", -2, instance_id="i1").error == ErrorCode.FENCED_INSTANCE_ID
    it.pass_time(SESSION - 1)
    it.beat("new", 2)
    it.pass_time(1)
    assert it.group.members.keys() == {"new"}


def test_an_instance_that_nobody_is_is_unknown() -> None:
    it = one_instance()
    assert it.beat("ann", 2, instance_id="i2").error == ErrorCode.UNKNOWN_MEMBER_ID
    assert it.beat("ann", -2, instance_id="i2").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_may_leave_for_good() -> None:
    it = one_instance()
    assert it.leave("ann", instance_id="i1").epoch == -1
    assert it.group.state == "Empty"
    assert it.join("bob", "a", instance_id="i1").error == ErrorCode.NONE


def test_an_instance_is_not_lost_with_the_tombstone_of_who_had_it() -> None:
    it = away()
    it.join("new", "a", instance_id="i1")
    it.restart()
    assert it.group.static_members == {"i1": "new"}
