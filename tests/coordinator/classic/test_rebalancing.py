from __future__ import annotations

from pyk.coordinator.classic.group import State
from pyk.errors import ErrorCode
from tests.coordinator.classic.coordinator import Coordinator

E = ErrorCode


def test_an_empty_group_waits_for_more_members() -> None:
    it = Coordinator(group_initial_rebalance_delay_ms=3000)
    _, waiting = it.newcomer()
    it.pass_time(2.9)
    assert it.is_waiting(waiting)
    it.pass_time(0.2)
    assert it.error(waiting) == E.NONE


def test_it_waits_on_while_members_come_and_not_longer_than_a_rebalance_may_take() -> None:
    it = Coordinator(group_initial_rebalance_delay_ms=3000)
    _, waiting = it.newcomer(rebalance_timeout_ms=10_000)
    for _ in range(4):
        it.pass_time(2.4)
        assert it.is_waiting(waiting)
        it.newcomer()
    it.pass_time(0.5)
    assert it.error(waiting) == E.NONE
    assert len(it.group.members) == 5


def test_it_waits_no_longer_when_nobody_has_come_since() -> None:
    it = Coordinator(group_initial_rebalance_delay_ms=3000)
    _, waiting = it.newcomer()
    it.pass_time(1)
    it.newcomer()
    it.pass_time(4.9)
    assert it.is_waiting(waiting)
    it.pass_time(0.2)
    assert it.error(waiting) == E.NONE


def test_the_delay_is_for_empty_groups_only() -> None:
    it = Coordinator()
    [ann] = it.stable(1)
    it.config = Coordinator(group_initial_rebalance_delay_ms=3000).config
    _, waiting = it.newcomer()
    it.join(ann)
    assert it.error(waiting) == E.NONE


def test_a_newcomer_waits_until_all_members_have_rejoined() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    generation = it.group.generation
    _, waiting = it.newcomer()
    assert it.heartbeat(ann, generation) == E.REBALANCE_IN_PROGRESS
    it.join(ann)
    assert it.is_waiting(waiting)
    it.join(bob)
    told = it.answer(waiting)
    assert (told.generation_id, told.leader) == (generation + 1, ann)


def test_who_has_not_rejoined_in_time_is_out() -> None:
    it = Coordinator()
    ann, bob = it.stable(2, rebalance_timeout_ms=20_000)
    waiting = it.join(ann, rebalance_timeout_ms=20_000)
    generation = it.group.generation
    for _ in range(4):
        it.pass_time(4.9)
        assert it.heartbeat(bob, generation) == E.REBALANCE_IN_PROGRESS
    assert it.is_waiting(waiting)
    it.pass_time(0.5)
    assert it.error(waiting) == E.NONE
    assert list(it.group.members) == [ann]
    assert it.heartbeat(bob, generation) == E.UNKNOWN_MEMBER_ID


def test_members_keep_their_assignments_until_a_rebalance_that_completes_is_called_off() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    it.join(ann)
    it.join(bob)
    assert it.state == State.COMPLETING
    assert it.group.members[ann].assignment == ann.encode()
    it.join(bob, protocols={"range": b"new"})
    assert it.group.members[ann].assignment == b""


def test_the_slowest_member_says_how_long_a_rebalance_may_take() -> None:
    it = Coordinator(group_initial_rebalance_delay_ms=3000)
    it.newcomer(rebalance_timeout_ms=5000)
    it.newcomer(rebalance_timeout_ms=50_000)
    assert it.group.rebalance_timeout == 50


def test_a_leader_who_has_not_rejoined_is_replaced() -> None:
    it = Coordinator()
    ann, bob = it.stable(2, session_timeout_ms=100_000)
    waiting = it.join(bob, protocols={"range": b"new"})
    it.pass_time(60)
    told = it.answer(waiting)
    assert told.leader == bob
    assert [m.member_id for m in told.members] == [bob]
    assert ann not in it.group.members


def test_a_group_that_all_have_left_is_empty_and_says_so_in_the_log() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    generation = it.group.generation
    assert it.leave(ann) == [E.NONE]
    assert it.leave(bob) == [E.NONE]
    assert it.state == State.EMPTY
    assert it.group.generation > generation
    record = it.last_record
    assert record is not None
    assert (record.protocol_type, record.protocol, record.leader) == ("consumer", None, None)
    assert (record.generation, record.members) == (it.group.generation, [])
    it.restart()
    assert it.state == State.EMPTY
    assert it.group.generation > generation


def test_if_the_log_refuses_that_nobody_is_left_it_is_asked_again() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    it.log_refuses = E.COORDINATOR_NOT_AVAILABLE
    assert it.leave(ann, bob) == [E.COORDINATOR_NOT_AVAILABLE] * 2
    assert not it.group.members
    for _ in range(3):
        assert it.state == State.PREPARING, "what the log does not know is not so"
        it.pass_time(10)
    it.log_refuses = None
    it.pass_time(1)
    assert (it.state, it.group.generation) == (State.EMPTY, 2)
    assert it.last_record is not None
    assert (it.last_record.generation, it.last_record.members) == (2, [])
    assert len(it.surroundings.timers) == 0


def test_who_joins_a_group_that_the_log_does_not_know_to_be_empty_goes_on() -> None:
    it = Coordinator()
    it.stable(1)
    it.log_refuses = E.COORDINATOR_NOT_AVAILABLE
    it.pass_time(10)
    assert (it.state, len(it.group.members)) == (State.PREPARING, 0)
    member_id, joined = it.newcomer()
    it.log_refuses = None
    told = it.answer(joined)
    assert (told.generation_id, told.leader) == (2, member_id)
    it.hand_out()
    assert it.state == State.STABLE
    assert it.durable == it.durable_beside()


def test_what_changes_in_a_rebalance_is_not_so_for_the_log_until_it_is_over() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    durable = it.durable
    it.leave(bob)
    it.join(ann, protocols={"range": b"new"}, session_timeout_ms=20_000)
    cyd, _ = it.newcomer()
    it.join(ann, protocols={"range": b"newer"})
    assert it.state == State.COMPLETING
    assert it.durable == it.durable_beside() == durable
    it.log_refuses = E.COORDINATOR_NOT_AVAILABLE
    refused = it.sync(ann, it.group.generation, {ann: b"one", cyd: b"other"})
    assert it.error(refused) == E.COORDINATOR_NOT_AVAILABLE
    assert it.durable == it.durable_beside() == durable
    it.restart()
    assert it.heartbeat(bob, 1) == E.NONE


def test_a_member_that_is_silent_for_its_session_is_out() -> None:
    it = Coordinator()
    ann, _ = it.stable(2, session_timeout_ms=10_000)
    generation = it.group.generation
    it.pass_time(6)
    assert it.heartbeat(ann, generation) == E.NONE
    it.pass_time(6)
    assert list(it.group.members) == [ann]
    assert it.heartbeat(ann, generation) == E.REBALANCE_IN_PROGRESS


def test_when_the_last_member_dies_the_group_is_empty() -> None:
    it = Coordinator()
    it.stable(1)
    it.pass_time(11)
    assert it.state == State.EMPTY
    assert it.last_record is not None
    assert it.last_record.members == []
    assert len(it.surroundings.timers) == 0


def test_who_waits_for_a_generation_needs_no_heartbeats() -> None:
    it = Coordinator()
    ann, bob = it.stable(2, session_timeout_ms=10_000, rebalance_timeout_ms=300_000)
    waiting = it.join(ann)
    for _ in range(30):
        it.pass_time(5)
        it.heartbeat(bob, it.group.generation)
    assert it.is_waiting(waiting)
    it.join(bob)
    assert it.error(waiting) == E.NONE
    it.pass_time(9)
    assert ann in it.group.members
    it.pass_time(2)
    assert ann not in it.group.members


def test_a_newcomer_waits_five_minutes_at_most() -> None:
    it = Coordinator()
    [ann] = it.stable(1, session_timeout_ms=1_000_000, rebalance_timeout_ms=1_000_000)
    _, waiting = it.newcomer()
    it.pass_time(299)
    assert it.is_waiting(waiting)
    it.pass_time(2)
    told = it.answer(waiting)
    assert (told.error_code, told.member_id) == (E.UNKNOWN_MEMBER_ID, "")
    assert list(it.group.members) == [ann]


def test_who_never_asks_for_its_assignment_is_out() -> None:
    it = Coordinator()
    _, bob = it.completing(2, session_timeout_ms=1_000_000, rebalance_timeout_ms=20_000)
    generation = it.group.generation
    waiting = it.sync(bob, generation)
    it.pass_time(19)
    assert it.is_waiting(waiting)
    it.pass_time(2)
    assert it.error(waiting) == E.REBALANCE_IN_PROGRESS
    assert list(it.group.members) == [bob]
    assert it.answer(it.join(bob)).leader == bob


def test_who_never_asks_for_its_assignment_is_out_of_a_stable_group_too() -> None:
    it = Coordinator()
    ann, _ = it.completing(2, session_timeout_ms=1_000_000, rebalance_timeout_ms=20_000)
    it.sync(ann, it.group.generation)
    assert it.state == State.STABLE
    it.pass_time(21)
    assert list(it.group.members) == [ann]
    assert it.state == State.PREPARING


def test_a_group_whose_members_all_die_in_a_rebalance_is_empty() -> None:
    it = Coordinator()
    _, bob = it.stable(2, session_timeout_ms=10_000)
    it.join(bob, protocols={"range": b"new"})
    it.pass_time(1000)
    assert it.state == State.EMPTY
    assert not it.group.members


def test_after_a_restart_members_go_on_as_if_nothing_had_happened() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    generation = it.group.generation
    it.restart()
    assert it.state == State.STABLE
    assert it.heartbeat(ann, generation) == E.NONE
    assert it.answer(it.sync(bob, generation)).assignment == bob.encode()
    assert it.group.leader == ann
    it.pass_time(11)
    assert not it.group.members


def test_after_a_restart_in_a_rebalance_the_last_generation_is_back() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    generation = it.group.generation
    cyd, _ = it.newcomer()
    it.restart()
    assert it.group.generation == generation
    assert list(it.group.members) == [ann, bob]
    assert it.error(it.join(cyd)) == E.UNKNOWN_MEMBER_ID


def test_a_group_that_is_deleted_leaves_nothing_behind() -> None:
    it = Coordinator()
    [ann] = it.stable(1)
    it.leave(ann)
    it.join()
    it.group.check_delete()
    for record in it.group.tombstones():
        it.machine.apply(record)
    assert not it.surroundings.groups
    assert len(it.surroundings.timers) == 0
