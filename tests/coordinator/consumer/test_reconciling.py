"""How partitions go from one member to another: never to two at once."""

from __future__ import annotations

from msgspec.structs import replace

from pyk.coordinator.consumer import records
from pyk.coordinator.consumer.member import MemberState
from pyk.errors import ErrorCode
from tests.coordinator.consumer.coordinator import GROUP, SESSION, Coordinator


def two_members() -> Coordinator:
    """Ann has both partitions, and one of them is to be Bob's."""
    it = Coordinator({"a": 2, "b": 2})
    it.join("ann", "a")
    it.pass_time()
    it.join("bob", "a")
    return it


def test_what_somebody_has_is_not_given_to_another() -> None:
    it = two_members()
    assert it.member("bob").state is MemberState.UNRELEASED_PARTITIONS
    assert it.beat("bob", 3).held is None
    assert it.member("bob").assigned == {}
    assert it.group.state == "Reconciling"


def test_a_member_is_told_to_give_back_and_stays_in_its_epoch() -> None:
    it = two_members()
    told = it.beat("ann", 2, {"a": {0, 1}})
    assert (told.epoch, told.held) == (2, {"a": {0}})
    assert it.member("ann").state is MemberState.UNREVOKED_PARTITIONS
    assert it.beat("bob", 3).held is None


def test_what_was_given_back_goes_to_who_waits() -> None:
    it = two_members()
    it.beat("ann", 2, {"a": {0, 1}})
    assert it.beat("ann", 2, {"a": {0}}).epoch == 3
    assert it.beat("bob", 3).held == {"a": {1}}
    assert it.group.state == "Stable"


def test_a_member_that_does_not_say_what_it_holds_has_given_nothing_back() -> None:
    it = two_members()
    it.beat("ann", 2, {"a": {0, 1}})
    assert it.beat("ann", 2).epoch == 2
    assert it.beat("bob", 3).held is None


def test_a_member_that_holds_nothing_of_it_need_not_be_told_first() -> None:
    it = two_members()
    told = it.beat("ann", 2, {"a": {0}})
    assert (told.epoch, told.held) == (3, {"a": {0}})


def test_who_does_not_give_back_in_its_time_is_out() -> None:
    it = two_members()
    it.beat("ann", 2, {"a": {0, 1}})
    for _ in range(60):
        it.pass_time(1)
        it.beat("ann", 2, {"a": {0, 1}})
        it.beat("bob", 3)
    assert "ann" not in it.group.members
    assert it.member("bob").assigned[it.topic_id("a")].keys() == {0, 1}


def test_the_time_to_give_back_begins_anew_after_a_restart() -> None:
    it = two_members()
    it.beat("ann", 2, {"a": {0, 1}}, rebalance_timeout_ms=10_000)
    it.pass_time(9)
    it.restart()
    it.pass_time(9)
    assert "ann" in it.group.members
    it.pass_time(1)
    assert "ann" not in it.group.members


def test_who_has_given_back_in_time_stays() -> None:
    it = two_members()
    it.beat("ann", 2, {"a": {0, 1}}, rebalance_timeout_ms=10_000)
    it.beat("ann", 2, {"a": {0}})
    it.pass_time(SESSION / 2)
    assert "ann" in it.group.members


def test_who_leaves_gives_all_back() -> None:
    it = two_members()
    it.leave("ann")
    assert it.beat("bob", 3).held == {"a": {1}}
    it.pass_time()
    assert it.beat("bob", 3).held == {"a": {0, 1}}


def test_a_partition_that_was_to_be_given_back_may_be_kept_after_all() -> None:
    it = two_members()
    it.beat("ann", 2, {"a": {0, 1}})
    it.leave("bob")
    it.pass_time()
    assert it.beat("ann", 2, {"a": {0, 1}}).held is None
    assert it.beat("ann", 2, {"a": {0}}).held == {"a": {0, 1}}
    assert it.member("ann").assigned == {it.topic_id("a"): {0: 2, 1: 4}}


def test_what_a_member_does_not_subscribe_to_any_more_it_gives_back_at_once() -> None:
    it = Coordinator({"a": 2, "b": 2})
    it.join("ann", "a")
    told = it.beat("ann", 2, topics=["b"])
    assert (told.epoch, told.held) == (2, {})
    assert it.member("ann").state is MemberState.UNREVOKED_PARTITIONS
    it.pass_time()
    assert it.beat("ann", 2).held is None
    given = it.beat("ann", 2, {})
    assert (given.epoch, given.held) == (3, {"b": {0, 1}})


def test_a_member_that_is_giving_back_may_give_back_more() -> None:
    it = two_members()
    it.beat("ann", 2, {"a": {0, 1}})
    it.beat("ann", 2, {"a": {0, 1}}, topics=["b"])
    assert it.member("ann").pending_revocation == {it.topic_id("a"): {0: 2, 1: 2}}
    it.pass_time()
    it.beat("ann", 2, {})
    assert it.member("ann").assigned.keys() == {it.topic_id("b")}


def test_partitions_that_are_added_are_shared_out() -> None:
    it = Coordinator({"a": 1})
    it.join("ann", "a")
    it.pass_time()
    it.create(a=3)
    assert it.beat("ann", 2).held == {"a": {0, 1, 2}}


def test_a_topic_may_come_after_who_subscribes_to_it() -> None:
    it = Coordinator({"b": 1})
    assert it.join("ann", "a").held == {}
    it.pass_time()
    it.create(a=1)
    assert it.beat("ann", 2).held == {"a": {0}}


def test_a_topic_that_is_made_anew_is_another() -> None:
    it = Coordinator({"a": 1})
    it.join("ann", "a")
    it.pass_time()
    it.delete("a")
    it.beat("ann", 2, {})
    assert it.member("ann").assigned == {}
    it.pass_time()
    it.create(a=1)
    it.beat("ann", 3, {})
    assert it.member("ann").assigned == {it.topic_id("a"): {0: 4}}


def test_a_topic_that_nobody_subscribes_to_moves_nothing() -> None:
    it = Coordinator({"a": 1})
    it.join("ann", "a")
    it.pass_time()
    it.create(z=1)
    it.beat("ann", 2)
    assert it.group.epoch == 2


def test_a_state_that_a_later_broker_left_is_begun_anew() -> None:
    it = two_members()
    member = it.member("bob")
    it.groups.apply(records.place(GROUP, replace(member, state=MemberState.UNKNOWN)))
    assert it.member("bob").state is MemberState.UNKNOWN
    assert it.beat("bob", 3).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert it.join("bob", "a").error == ErrorCode.NONE
    assert it.member("bob").state is MemberState.UNRELEASED_PARTITIONS
