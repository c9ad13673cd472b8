from __future__ import annotations

import re

import pytest

from pyk.coordinator.classic.group import State
from pyk.errors import ErrorCode
from pyk.wire.messages.join_group import JoinGroupResponse
from tests.coordinator.classic.coordinator import GROUP, RANGE, Coordinator

E = ErrorCode


def test_a_newcomer_is_told_its_id_and_has_to_come_back_with_it() -> None:
    it = Coordinator()
    told = it.answer(it.join(client_id="app"))
    assert told == JoinGroupResponse(
        error_code=E.MEMBER_ID_REQUIRED,
        generation_id=-1,
        protocol_type=None,
        protocol_name=None,
        leader="",
        member_id=told.member_id,
        members=[],
    )
    assert re.fullmatch(r"app-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-.*", told.member_id)
    assert len(told.member_id) == len("app-") + 36
    assert it.state == State.EMPTY
    assert not it.group.members


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_a_newcomer_is_in_at_once(version: int) -> None:
    it = Coordinator()
    joined = it.join(version=version)
    it.settle()
    assert it.answer(joined).error_code == E.NONE
    assert it.answer(joined).leader == it.answer(joined).member_id


def test_the_first_member_leads_and_is_told_of_the_others() -> None:
    it = Coordinator(group_initial_rebalance_delay_ms=3000)
    ann, first = it.newcomer(protocols={"range": b"ann", "sticky": b"a"})
    bob, second = it.newcomer(protocols={"range": b"bob"})
    it.pass_time(6)
    told = it.answer(first)
    assert (told.generation_id, told.leader, told.member_id) == (1, ann, ann)
    assert (told.protocol_type, told.protocol_name) == ("consumer", "range")
    assert [(m.member_id, m.metadata) for m in told.members] == [(ann, b"ann"), (bob, b"bob")]
    told = it.answer(second)
    assert (told.generation_id, told.leader, told.member_id) == (1, ann, bob)
    assert told.members == []
    assert it.state == State.COMPLETING


def test_an_unknown_member_is_refused_whether_the_group_is_there_or_not() -> None:
    it = Coordinator()
    assert it.answer(it.join("nobody")).member_id == "nobody"
    it.stable(1)
    told = it.answer(it.join("nobody"))
    assert (told.error_code, told.member_id) == (E.UNKNOWN_MEMBER_ID, "nobody")
    assert told.protocol_name is None


def test_who_asks_to_join_makes_the_group_known() -> None:
    it = Coordinator()
    it.join()
    record = it.last_record
    assert record is not None
    assert (record.protocol_type, record.generation, record.members) == ("", 0, [])
    it.restart()
    assert it.state == State.EMPTY
    assert it.group.protocol_type == ""


def test_a_group_that_cannot_be_stored_is_not_there() -> None:
    it = Coordinator()
    it.log_refuses = E.NOT_COORDINATOR
    for version in (3, 9):
        told = it.answer(it.join(version=version))
        assert (told.error_code, told.member_id) == (E.NOT_COORDINATOR, "")
        assert GROUP not in it.surroundings.groups
        assert len(it.surroundings.timers) == 0


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", RANGE), ("consumer", {}), ("", {})])
def test_an_empty_group_takes_anything_but_nothing(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    it = Coordinator()
    told = it.answer(it.join(protocol_type=protocol_type, protocols=protocols))
    assert (told.error_code, told.member_id) == (E.INCONSISTENT_GROUP_PROTOCOL, "")


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", RANGE), ("consumer", {"sticky": b""}), ("consumer", {}), ("", RANGE)],
)
def test_members_must_have_a_protocol_in_common(
    protocol_type: str, protocols: dict[str, bytes]
) -> None:
    it = Coordinator()
    ann, bob = it.stable(2, protocols={"range": b"", "roundrobin": b""})
    for member_id in ("", ann, bob):
        told = it.answer(it.join(member_id, protocol_type=protocol_type, protocols=protocols))
        assert (told.error_code, told.member_id) == (E.INCONSISTENT_GROUP_PROTOCOL, member_id)
    assert it.state == State.STABLE


def test_any_type_of_protocol_is_welcome() -> None:
    it = Coordinator()
    it.stable(2, protocol_type="connect", protocols={"sessioned": b"\xff"})
    assert it.group.protocol_type == "connect"
    assert it.state == State.STABLE


def test_the_protocol_is_what_most_like_best_of_what_all_can() -> None:
    it = Coordinator(group_initial_rebalance_delay_ms=3000)
    it.newcomer(protocols={"own": b"", "range": b"", "sticky": b""})
    it.newcomer(protocols={"sticky": b"", "range": b""})
    it.newcomer(protocols={"sticky": b"", "range": b"", "other": b""})
    it.pass_time(6)
    assert it.group.protocol == "sticky"


def test_a_protocol_that_nobody_has_any_more_is_no_candidate() -> None:
    it = Coordinator()
    both = {"range": b"", "sticky": b""}
    ann, _ = it.stable(2, protocols=both)
    it.join(ann, protocols={"range": b""})
    assert it.error(it.join(protocols={"sticky": b""})) == E.INCONSISTENT_GROUP_PROTOCOL


def test_a_follower_with_nothing_new_is_told_the_generation_again() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    generation = it.group.generation
    told = it.answer(it.join(bob))
    assert (told.error_code, told.generation_id, told.leader) == (E.NONE, generation, ann)
    assert (told.protocol_type, told.protocol_name, told.members) == ("consumer", "range", [])
    assert it.state == State.STABLE


def test_a_follower_with_something_new_calls_for_a_rebalance() -> None:
    it = Coordinator()
    _, bob = it.stable(2)
    assert it.is_waiting(it.join(bob, protocols={"range": b"another topic"}))
    assert it.state == State.PREPARING


def test_the_order_of_protocols_is_something_new() -> None:
    it = Coordinator()
    _, bob = it.stable(2, protocols={"range": b"", "sticky": b""})
    assert it.is_waiting(it.join(bob, protocols={"sticky": b"", "range": b""}))


def test_a_leader_who_rejoins_a_stable_group_calls_for_a_rebalance() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    generation = it.group.generation
    first = it.join(ann)
    assert it.state == State.PREPARING
    it.join(bob)
    assert it.answer(first).generation_id == generation + 1


def test_in_a_rebalance_that_completes_a_lost_answer_is_given_again() -> None:
    it = Coordinator()
    ann, bob = it.completing(2)
    generation = it.group.generation
    told = it.answer(it.join(ann))
    assert (told.generation_id, [m.member_id for m in told.members]) == (generation, [ann, bob])
    assert it.answer(it.join(bob)).members == []
    assert it.state == State.COMPLETING


def test_in_a_rebalance_that_completes_something_new_begins_another() -> None:
    it = Coordinator()
    ann, bob = it.completing(2)
    waiting = it.sync(bob, it.group.generation)
    it.join(ann, protocols={"range": b"new"})
    assert it.error(waiting) == E.REBALANCE_IN_PROGRESS
    assert it.state == State.PREPARING


def test_who_asks_twice_is_answered_once_for_the_generation() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    first = it.join(ann)
    second = it.join(ann)
    assert it.error(first) == E.REBALANCE_IN_PROGRESS
    it.join(bob)
    assert it.error(second) == E.NONE


def test_a_pending_member_that_does_not_come_back_is_forgotten() -> None:
    it = Coordinator()
    member_id = it.answer(it.join(session_timeout_ms=6000)).member_id
    it.pass_time(5.9)
    assert member_id in it.group.pending
    it.pass_time(0.2)
    assert it.error(it.join(member_id)) == E.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_pending_members_until_they_are_forgotten() -> None:
    it = Coordinator()
    [ann] = it.stable(1)
    it.join(session_timeout_ms=6000)
    waiting = it.join(ann)
    assert it.is_waiting(waiting)
    it.pass_time(6)
    assert it.error(waiting) == E.NONE


def test_a_pending_member_has_no_instance_id() -> None:
    it = Coordinator()
    member_id = it.answer(it.join()).member_id
    assert it.error(it.join(member_id, instance_id="one")) == E.UNKNOWN_SERVER_ERROR


def test_a_full_group_takes_nobody_else() -> None:
    it = Coordinator(group_max_size=2)
    ann, bob = it.stable(2)
    told = it.answer(it.join())
    assert (told.error_code, told.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    assert it.state == State.STABLE
    first, second = it.join(ann), it.join(bob)
    assert it.error(first) == it.error(second) == E.NONE


def test_in_a_rebalance_those_who_come_first_have_the_room() -> None:
    it = Coordinator()
    ann, bob, cyd = it.stable(3)
    it.config = Coordinator(group_max_size=2).config
    it.restart()
    assert it.state == State.PREPARING
    first, second, third = it.join(cyd), it.join(ann), it.join(bob)
    assert it.error(third) == E.GROUP_MAX_SIZE_REACHED
    assert it.error(first) == it.error(second) == E.NONE
    assert set(it.group.members) == {ann, cyd}


def test_version_0_has_its_session_timeout_for_rebalances() -> None:
    it = Coordinator()
    it.join(version=0, session_timeout_ms=7000, rebalance_timeout_ms=-1)
    assert it.group.rebalance_timeout == 7


def test_a_member_that_brings_more_metadata_than_could_be_kept_is_refused() -> None:
    it = Coordinator(message_max_bytes=1000)
    large = {"range": bytes(2000), "sticky": bytes(2000)}
    assert it.answer(it.join(protocols=large)).error_code == E.MEMBER_ID_REQUIRED
    larger = {**large, "uniform": b"x"}
    member_id, ticket = it.newcomer(protocols=large)
    assert it.answer(it.join(protocols=larger)).error_code == E.MESSAGE_TOO_LARGE
    assert it.answer(it.join(member_id, protocols=larger)).error_code == E.MESSAGE_TOO_LARGE
    it.settle()
    assert it.answer(ticket).error_code == E.NONE
