from __future__ import annotations

import pytest

from pyk.coordinator.classic.group import State
from pyk.errors import ErrorCode
from tests.coordinator.classic.coordinator import GROUP, MIDNIGHT_MS, Coordinator

E = ErrorCode


def test_members_wait_for_the_leader_and_each_gets_its_own() -> None:
    it = Coordinator()
    ann, bob, cyd = it.completing(3)
    generation = it.group.generation
    waiting = it.sync(bob, generation)
    assert it.is_waiting(waiting)
    handed_out = {ann: b"for ann", bob: b"for bob", cyd: b"for cyd"}
    leading = it.sync(ann, generation, handed_out)
    for ticket, assignment in ((leading, b"for ann"), (waiting, b"for bob")):
        told = it.answer(ticket)
        assert (told.error_code, told.assignment) == (E.NONE, assignment)
        assert (told.protocol_type, told.protocol_name) == ("consumer", "range")
    assert it.state == State.STABLE
    assert it.answer(it.sync(cyd, generation)).assignment == b"for cyd"


def test_what_the_leader_has_shared_out_is_written_as_kafka_writes_it() -> None:
    it = Coordinator()
    [ann] = it.completing(1, session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    it.sync(ann, 1, {ann: b"all"})
    key, value = it.log[-1]
    assert key == b"\0\2" + b"\0\6orders"
    assert value is not None
    assert value[:2] == b"\0\3", "the highest version that is not flexible"
    record = it.last_record
    assert record is not None
    assert (record.protocol_type, record.protocol) == ("consumer", "range")
    assert (record.generation, record.leader) == (1, ann)
    assert record.current_state_timestamp == MIDNIGHT_MS + 1_000_000
    [member] = record.members
    assert (member.member_id, member.group_instance_id) == (ann, None)
    assert (member.client_id, member.client_host) == ("app", "/127.0.0.1")
    assert (member.rebalance_timeout, member.session_timeout) == (60_000, 10_000)
    assert (member.subscription, member.assignment) == (b"any topic", b"all")


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    it = Coordinator()
    ann, bob = it.completing(2)
    waiting = it.sync(bob, 1)
    it.sync(ann, 1, {ann: b"all", "nobody": b"much"})
    told = it.answer(waiting)
    assert (told.error_code, told.assignment) == (E.NONE, b"")


def test_what_a_follower_shares_out_is_ignored() -> None:
    it = Coordinator()
    ann, bob = it.completing(2)
    assert it.is_waiting(it.sync(bob, 1, {ann: b"no", bob: b"all"}))
    assert it.answer(it.sync(ann, 1, {ann: b"all"})).assignment == b"all"


def test_there_must_be_such_a_group_with_such_a_member_in_such_a_generation() -> None:
    it = Coordinator()
    assert it.error(it.sync("ann", 1)) == E.UNKNOWN_MEMBER_ID
    it.machine.simple(GROUP)
    assert it.error(it.sync("ann", 0)) == E.UNKNOWN_MEMBER_ID
    [ann] = it.stable(1)
    generation = it.group.generation
    assert it.error(it.sync("bob", generation)) == E.UNKNOWN_MEMBER_ID
    assert it.error(it.sync(ann, generation, instance_id="one")) == E.UNKNOWN_MEMBER_ID
    assert it.error(it.sync(ann, generation - 1)) == E.ILLEGAL_GENERATION
    assert it.error(it.sync(ann, generation + 1)) == E.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "error"),
    [
        ("consumer", "range", E.NONE),
        (None, None, E.NONE),
        ("connect", "range", E.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", E.INCONSISTENT_GROUP_PROTOCOL),
        (None, "sticky", E.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_a_member_must_be_of_the_groups_protocol(
    protocol_type: str | None, protocol_name: str | None, error: ErrorCode
) -> None:
    it = Coordinator()
    [ann] = it.completing(1)
    said = it.sync(ann, 1, protocol_type=protocol_type, protocol_name=protocol_name)
    assert it.error(said) == error


def test_while_members_rejoin_there_is_nothing_to_sync() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    it.join(ann)
    assert it.error(it.sync(bob, it.group.generation)) == E.REBALANCE_IN_PROGRESS


def test_who_asks_twice_is_answered_once_with_its_assignment() -> None:
    it = Coordinator()
    ann, bob = it.completing(2)
    first, second = it.sync(bob, 1), it.sync(bob, 1)
    assert it.error(first) == E.REBALANCE_IN_PROGRESS
    it.sync(ann, 1, {bob: b"all"})
    assert it.answer(second).assignment == b"all"


def test_who_waits_for_its_assignment_needs_no_heartbeats_and_then_has_a_session() -> None:
    it = Coordinator()
    ann, bob = it.completing(2, session_timeout_ms=10_000)
    waiting = it.sync(bob, 1)
    for _ in range(5):
        it.pass_time(8)
        assert it.heartbeat(ann, 1) == E.NONE
    it.sync(ann, 1, {bob: b"all"})
    assert it.answer(waiting).assignment == b"all"
    it.pass_time(9)
    assert bob in it.group.members
    it.pass_time(2)
    assert bob not in it.group.members


def test_an_assignment_that_cannot_be_stored_is_nobodys() -> None:
    it = Coordinator()
    ann, bob = it.completing(2)
    waiting = it.sync(bob, 1)
    it.log_refuses = E.UNKNOWN_SERVER_ERROR
    leading = it.sync(ann, 1, {ann: b"one", bob: b"other"})
    assert it.error(waiting) == it.error(leading) == E.UNKNOWN_SERVER_ERROR
    assert it.state == State.PREPARING
    assert not any(member.assignment for member in it.group.members.values())
    it.log_refuses = None
    it.join(ann)
    it.join(bob)
    it.hand_out()
    assert it.group.generation == 2


def test_heartbeats_are_answered_by_state() -> None:
    it = Coordinator()
    assert it.heartbeat("ann", 0) == E.UNKNOWN_MEMBER_ID
    pending = it.answer(it.join()).member_id
    assert it.heartbeat(pending, 0) == E.UNKNOWN_MEMBER_ID
    it.leave(pending)
    ann, bob = it.completing(2)
    assert it.heartbeat(ann, 1) == E.NONE
    it.hand_out()
    assert it.heartbeat(ann, 1) == E.NONE
    assert it.heartbeat(ann, 0) == E.ILLEGAL_GENERATION
    assert it.heartbeat(ann, 2) == E.ILLEGAL_GENERATION
    it.join(ann)
    assert it.heartbeat(bob, 1) == E.REBALANCE_IN_PROGRESS
    it.leave(ann, bob)
    assert it.heartbeat(bob, it.group.generation) == E.UNKNOWN_MEMBER_ID
