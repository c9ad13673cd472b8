from __future__ import annotations

from pyk.coordinator.classic.group import State
from pyk.errors import ErrorCode
from tests.coordinator.classic.coordinator import Coordinator

E = ErrorCode


def test_those_who_stay_share_out_the_work_again() -> None:
    it = Coordinator()
    ann, bob, cyd = it.stable(3)
    generation = it.group.generation
    assert it.leave(ann) == [E.NONE]
    assert it.heartbeat(bob, generation) == E.REBALANCE_IN_PROGRESS
    first, second = it.join(cyd), it.join(bob)
    assert it.answer(first).leader == it.answer(second).leader == bob
    assert it.answer(first).generation_id == generation + 1


def test_many_may_leave_at_once_and_each_hears_how_it_went() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    assert it.leave(ann, "nobody", bob, ann) == [
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
    ]
    assert it.state == State.EMPTY


def test_when_nobody_could_leave_nothing_happens() -> None:
    it = Coordinator()
    assert it.leave("ann") == [E.UNKNOWN_MEMBER_ID]
    it.stable(1)
    assert it.leave("nobody", "", ("", "one"), ("", None)) == [E.UNKNOWN_MEMBER_ID] * 4
    assert it.leave() == []
    assert it.state == State.STABLE


def test_a_static_member_is_sent_away_by_its_instance_id() -> None:
    it = Coordinator()
    waiting = it.join(instance_id="one")
    it.settle()
    assert it.leave(("", "one")) == [E.NONE]
    assert it.error(waiting) == E.NONE
    assert it.state == State.EMPTY


def test_who_goes_by_an_old_id_of_a_static_member_sends_nobody_away() -> None:
    it = Coordinator()
    it.join(instance_id="one")
    it.settle()
    [member_id] = it.group.members
    assert it.leave(("someone", "one")) == [E.FENCED_INSTANCE_ID]
    assert it.leave((member_id, "two")) == [E.UNKNOWN_MEMBER_ID]
    assert it.leave((member_id, "one")) == [E.NONE]


def test_a_pending_member_may_leave() -> None:
    it = Coordinator()
    pending = it.answer(it.join()).member_id
    assert it.leave(pending) == [E.NONE]
    assert it.error(it.join(pending)) == E.UNKNOWN_MEMBER_ID
    assert len(it.surroundings.timers) == 0


def test_a_rebalance_goes_on_without_who_leaves() -> None:
    it = Coordinator()
    ann, bob = it.stable(2)
    waiting = it.join(ann)
    assert it.leave(bob) == [E.NONE]
    assert it.error(waiting) == E.NONE


def test_who_is_sent_away_while_it_waits_for_a_generation_is_told() -> None:
    it = Coordinator()
    ann, _ = it.stable(2)
    waiting = it.join(ann)
    it.leave(ann)
    assert (it.error(waiting), it.answer(waiting).member_id) == (E.UNKNOWN_MEMBER_ID, "")


def test_who_is_sent_away_while_it_waits_for_its_assignment_is_told() -> None:
    it = Coordinator()
    _, bob = it.completing(2)
    waiting = it.sync(bob, 1)
    it.leave(bob)
    assert it.error(waiting) == E.UNKNOWN_MEMBER_ID


def test_who_leaves_a_group_that_gathers_does_not_end_the_wait_of_others() -> None:
    it = Coordinator(group_initial_rebalance_delay_ms=3000)
    ann, _ = it.newcomer()
    bob, waiting = it.newcomer()
    it.leave(ann)
    assert it.is_waiting(waiting)
    it.pass_time(6)
    assert it.answer(waiting).leader == bob


def test_a_group_that_all_left_while_it_gathered_is_empty_when_its_time_is_over() -> None:
    it = Coordinator(group_initial_rebalance_delay_ms=3000)
    ann, _ = it.newcomer()
    it.leave(ann)
    assert it.state == State.PREPARING
    it.pass_time(3)
    assert it.state == State.EMPTY
