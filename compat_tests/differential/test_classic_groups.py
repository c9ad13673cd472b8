"""Members of classic groups in every version: what they hear, and what is written about them."""

from __future__ import annotations

import pytest

from compat_tests.differential.comparison import Comparison, comparing
from compat_tests.differential.members import JOIN, SYNC, Cast, subscribed

VERSIONS = range(10)
"""Of JoinGroup. The other APIs have fewer."""
STATIC = range(5, 10)
"""Those in which a member may have an instance id."""
BOTH = {"range": subscribed("a", "b"), "sticky": subscribed("c")}
BOBS, CYDS = subscribed("bob's"), subscribed("cyd's")


@comparing("classic groups, one by one")
@pytest.mark.parametrize("version", VERSIONS)
def test_one_member_hears_the_same(compare: Comparison, version: int) -> None:
    with Cast.of(compare, f"one-{version}", version) as cast:
        cast.beats("ann", "no group", 0)
        cast.syncs("ann", "no group", 0)
        cast.leave("no group", "ann")
        cast.joins("ann", "no group", as_="ghost")
        cast.describe("no group")
        cast.joins("ann", "no protocols", protocols={})
        cast.wait_for("Empty")
        cast.describe("after that")
        cast.joins("ann", "no type", protocol_type="")
        cast.joins("ann", "a session too short", session_timeout_ms=5999)
        cast.joins("ann", "a session too long", session_timeout_ms=1_800_001)
        cast.joins("ann", "an unknown id", as_="ghost")
        cast.comes_in("ann", "first")
        cast.hears("ann", JOIN, "first")
        cast.describe("completing")
        cast.beats("ann", "completing", 1)
        cast.beats("ann", "another generation", 2)
        cast.beats("ghost", "somebody else", 1)
        cast.commits("ann", "completing", 1)
        cast.commits("", "completing", -1)
        cast.joins("ann", "the answer was lost")
        cast.syncs("ann", "another generation", 0)
        cast.syncs("ann", "somebody else", 1, as_="ghost")
        cast.syncs("ann", "another type", 1, protocol_type="connect")
        cast.syncs("ann", "another protocol", 1, protocol_name="sticky")
        cast.syncs("ann", "no protocol", 1, protocol_type=None, protocol_name=None)
        cast.syncs("ann", "assigning", 1, assignments={"ann": b"all", "ghost": b"some"})
        cast.describe("stable")
        cast.syncs("ann", "again", 1, assignments={"ann": b"nothing"})
        cast.beats("ann", "stable", 1)
        cast.commits("ann", "stable", 1)
        cast.commits("ann", "of a generation that was", 0)
        cast.commits("ann", "of no generation", -1)
        cast.commits("ghost", "stable", 1)
        cast.commits("", "stable", -1)
        cast.joins("ann", "a leader again")
        cast.syncs("ann", "forgetting itself", 2)
        cast.joins("ann", "with something new", protocols=BOTH)
        cast.syncs("ann", "once more", 3, assignments={"ann": b"all"})
        cast.joins("ann", "with the other first", protocols=dict(reversed(BOTH.items())))
        cast.leave("somebody else", "ghost")
        cast.describe("nobody has left")
        cast.leave("itself", "ann")
        cast.describe("empty")
        cast.beats("ann", "gone", 4)
        cast.syncs("ann", "gone", 4)
        cast.joins("ann", "gone")
        cast.leave("gone", "ann")
        cast.commits("ann", "gone", 4)
        cast.commits("", "gone", -1)
        cast.joins("bob", "another type", protocol_type="connect", protocols=BOTH)
        cast.describe("in the end")
        cast.compare_records("in the end")


@comparing("classic groups without names")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_has_a_name(compare: Comparison, version: int) -> None:
    with Cast.of(compare, f"nameless-{version}", version) as cast:
        cast.joins("ann", "no name", as_="ghost", group_id="")
        cast.joins("ann", "no name and no session", as_="ghost", group_id="", session_timeout_ms=0)
        cast.syncs("ann", "no name", 0, group_id="")
        cast.beats("ann", "no name", 0, group_id="")
        cast.leave("no name", "ann", group_id="")


@comparing("classic groups of three")
@pytest.mark.parametrize("version", VERSIONS)
def test_members_of_a_group_hear_the_same(compare: Comparison, version: int) -> None:
    with Cast.of(compare, f"three-{version}", version) as cast:
        cast.comes_in("ann", "first", protocols=BOTH)
        cast.hears("ann", JOIN, "first")
        cast.comes_in("bob", "second", protocols={"range": BOBS, "own": b""})
        cast.wait_for("PreparingRebalance", 2 if version < 4 else None)
        cast.beats("ann", "preparing", 1)
        cast.syncs("ann", "preparing", 1)
        cast.commits("ann", "preparing", 1)
        cast.joins("cyd", "with nothing in common", protocols={"own": b""})
        cast.joins("cyd", "of another type", protocol_type="connect")
        cast.describe("preparing")
        cast.begins_to_join("ann", protocols=BOTH)
        cast.hears("bob", JOIN, "second")
        cast.hears("ann", JOIN, "second")
        cast.begins_to_sync("bob", 2, assignments={"bob": b"not the leader"})
        cast.syncs("ann", "forgetting bob", 2, assignments={"ann": b"all"})
        cast.hears("bob", SYNC, "forgotten")
        cast.joins("bob", "nothing new", protocols={"range": BOBS, "own": b""})
        cast.describe("stable")
        cast.comes_in("cyd", "third", protocols={"range": CYDS})
        cast.wait_for("PreparingRebalance")
        cast.begins_to_join("bob", protocols={"range": BOBS})
        cast.begins_to_join("ann", protocols=BOTH)
        for name in ("cyd", "bob", "ann"):
            cast.hears(name, JOIN, "third")
        cast.describe("completing with assignments of before")
        cast.joins("ann", "the answer was lost", protocols=BOTH)
        cast.joins("bob", "the answer was lost", protocols={"range": BOBS})
        cast.begins_to_sync("bob", 3)
        cast.begins_to_join("cyd", protocols={"range": subscribed("new")})
        cast.hears("bob", SYNC, "called off")
        cast.describe("called off")
        cast.leave("while it joins", "cyd")
        cast.hears("cyd", JOIN, "gone while it joined")
        cast.begins_to_join("bob", protocols={"range": BOBS})
        cast.begins_to_join("ann", protocols=BOTH)
        cast.hears("ann", JOIN, "fourth")
        cast.hears("bob", JOIN, "fourth")
        cast.begins_to_sync("bob", 4)
        cast.syncs("ann", "for both", 4, assignments={"ann": b"1", "bob": b"2"})
        cast.hears("bob", SYNC, "for both")
        cast.leave("the leader", "ann")
        cast.wait_for("PreparingRebalance", 1)
        cast.joins("bob", "alone", protocols={"range": BOBS})
        cast.syncs("bob", "alone", 5, assignments={"bob": b"all"})
        cast.leave("the last", "bob", "ghost", "bob")
        cast.describe("in the end")
        cast.compare_records("in the end")


@comparing("pending members")
@pytest.mark.parametrize("version", range(4, 10))
def test_pending_members_hear_the_same(compare: Comparison, version: int) -> None:
    with Cast.of(compare, f"pending-{version}", version) as cast:
        cast.joins("ann", "first")
        cast.wait_for("Empty")  # Kafka answers before the new group is committed, and can be seen.
        cast.describe("pending")
        cast.beats("ann", "pending", 0)
        cast.syncs("ann", "pending", 0)
        cast.commits("ann", "pending", 0)
        cast.joins("bob", "first")
        cast.leave("pending", "bob")
        cast.joins("bob", "after it left")
        cast.joins("ann", "back")
        cast.syncs("ann", "alone", 1, assignments={"ann": b"all"})
        cast.joins("cyd", "first")
        cast.describe("stable with somebody pending")
        cast.leave("pending of a stable group", "cyd")
        cast.describe("after that")
        if version >= 5:
            cast.joins("dan", "first")
            cast.joins("dan", "back as an instance", instance_id="one")


@comparing("static members")
@pytest.mark.parametrize("version", STATIC)
def test_static_members_hear_the_same(compare: Comparison, version: int) -> None:
    with Cast.of(compare, f"static-{version}", version) as cast:
        cast.joins("one", "first", protocols=BOTH, instance_id="one")
        cast.begins_to_join("two", protocols=BOTH, instance_id="two")
        cast.wait_for("PreparingRebalance", 2)
        cast.begins_to_join("one", protocols=BOTH, instance_id="one")
        cast.hears("two", JOIN, "second")
        cast.hears("one", JOIN, "second")
        cast.begins_to_sync("two", 2, instance_id="two")
        cast.syncs("one", "second", 2, assignments={"one": b"1", "two": b"2"}, instance_id="one")
        cast.hears("two", SYNC, "second")
        cast.describe("stable")
        cast.joins("two", "back to a stable group", as_="", protocols=BOTH, instance_id="two")
        cast.syncs("two", "back to a stable group", 2, instance_id="two")
        for old in ("two", "two'"):
            cast.beats(old, "by its ids", 2, instance_id="two")
        cast.syncs("two", "by its old id", 2, as_="two''", instance_id="two")
        cast.joins("one", "the leader is back", as_="", protocols=BOTH, instance_id="one")
        cast.syncs("one", "the leader is back", 2, instance_id="one")
        cast.describe("with new ids")
        changed = {**BOTH, "range": subscribed("something new")}
        cast.joins("two", "back with something new", as_="", protocols=changed, instance_id="two")
        cast.describe("with something new")
        cast.commits("ghost", "fenced", 2, "two")
        cast.commits("two", "of an instance", 2, "two")
        cast.commits("two", "of no such instance", 2, "ghost")
        cast.beats("two", "no such instance", 2, instance_id="ghost")
        cast.joins("ghost", "by a wrong id", as_="ghost", protocols=BOTH, instance_id="two")
        cast.begins_to_join("one", protocols=BOTH, instance_id="one")
        cast.wait_for("PreparingRebalance")
        cast.begins_to_join("one again", as_="", protocols=BOTH, instance_id="one")
        cast.hears("one", JOIN, "fenced while it waits")
        cast.begins_to_join("two", protocols=BOTH, instance_id="two")
        cast.hears("one again", JOIN, "third")
        cast.hears("two", JOIN, "third")
        cast.begins_to_sync("two", 3, instance_id="two")
        cast.begins_to_join("one anew", as_="", protocols=BOTH, instance_id="one")
        cast.hears("two", SYNC, "called off by who came back")
        cast.begins_to_join("two", protocols=BOTH, instance_id="two")
        cast.hears("one anew", JOIN, "fourth")
        cast.hears("two", JOIN, "fourth")
        cast.begins_to_sync("two", 4, instance_id="two")
        handed_out = {"one anew": b"1", "two": b"2"}
        cast.syncs("one anew", "fourth", 4, assignments=handed_out, instance_id="one")
        cast.hears("two", SYNC, "fourth")
        cast.leave("by instances", ("ghost", "two"), ("", "ghost"), ("", "two"), ("", None))
        cast.wait_for("PreparingRebalance", 1)
        cast.leave("by both", ("one anew", "one"))
        cast.describe("in the end")
        cast.compare_records("in the end")


@comparing("a static member of another protocol")
@pytest.mark.parametrize("version", STATIC)
def test_a_static_member_that_would_choose_another_protocol(
    compare: Comparison, version: int
) -> None:
    with Cast.of(compare, f"choosy-{version}", version) as cast:
        cast.joins("one", "first", protocols=BOTH, instance_id="one")
        cast.syncs("one", "first", 1, assignments={"one": b"1"}, instance_id="one")
        turned = dict(reversed(BOTH.items()))
        cast.joins("one", "with another choice", as_="", protocols=turned, instance_id="one")
        cast.describe("after that")


@comparing("what a broker cannot read")
@pytest.mark.parametrize("version", [0, 9])
def test_members_may_say_what_no_broker_understands(compare: Comparison, version: int) -> None:
    with Cast.of(compare, f"cryptic-{version}", version) as cast:
        cast.comes_in("ann", "first", protocols={"range": b"?"})
        cast.hears("ann", JOIN, "first")
        cast.syncs("ann", "first", 1, assignments={"ann": b"?"})
        cast.describe("stable")
        cast.leave("then", "ann")
        cast.comes_in("bob", "next", protocol_type="connect", protocols={"?": b""})
        cast.hears("bob", JOIN, "next")


@comparing("sessions")
@pytest.mark.parametrize("version", [0, 3, 9])
def test_silent_members_go_alike(compare: Comparison, version: int) -> None:
    with Cast.of(compare, f"silent-{version}", version) as cast:
        cast.comes_in("ann", "first", session_timeout_ms=6000)
        cast.hears("ann", JOIN, "first")
        cast.syncs("ann", "first", 1, assignments={"ann": b"all"})
        cast.wait_for("Empty", 0)
        cast.beats("ann", "expired", 1)
        cast.joins("ann", "expired")
        cast.describe("in the end")
        cast.compare_records("in the end")
