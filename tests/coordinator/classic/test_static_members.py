from __future__ import annotations

import pytest

from pyk.coordinator.classic.group import State
from pyk.errors import ErrorCode
from tests.coordinator.classic.coordinator import Coordinator

E = ErrorCode


def stable_statics(it: Coordinator, *instance_ids: str) -> list[str]:
    tickets = [it.join(instance_id=each) for each in instance_ids]
    it.settle()
    it.hand_out()
    return [it.answer(ticket).member_id for ticket in tickets]


def test_a_static_member_is_in_at_once_and_named_after_its_instance() -> None:
    it = Coordinator()
    joined = it.join(instance_id="one", client_id="app")
    it.settle()
    told = it.answer(joined)
    assert told.member_id.startswith("one-")
    assert [m.group_instance_id for m in told.members] == ["one"]


def test_one_that_comes_back_to_a_stable_group_goes_on_without_a_rebalance() -> None:
    it = Coordinator()
    one, two = stable_statics(it, "one", "two")
    generation = it.group.generation
    told = it.answer(it.join(instance_id="two"))
    assert (told.error_code, told.generation_id, told.leader) == (E.NONE, generation, one)
    assert told.member_id not in (one, two)
    assert told.members == []
    assert not told.skip_assignment
    assert it.state == State.STABLE
    synced = it.answer(it.sync(told.member_id, generation, instance_id="two"))
    assert synced.assignment == two.encode()


@pytest.mark.parametrize("version", [5, 8])
def test_a_leader_that_comes_back_is_not_told_that_it_leads(version: int) -> None:
    it = Coordinator()
    one, _ = stable_statics(it, "one", "two")
    told = it.answer(it.join(instance_id="one", version=version))
    assert (told.leader, told.members, told.skip_assignment) == (one, [], False)
    assert it.group.leader == told.member_id


def test_since_version_9_it_is_told_that_it_leads_and_has_nothing_to_share_out() -> None:
    it = Coordinator()
    _, two = stable_statics(it, "one", "two")
    told = it.answer(it.join(instance_id="one"))
    assert told.leader == told.member_id
    assert {m.member_id for m in told.members} == {two, told.member_id}
    assert told.skip_assignment


def test_the_new_id_is_written_and_outlives_a_restart() -> None:
    it = Coordinator()
    one, two = stable_statics(it, "one", "two")
    new = it.answer(it.join(instance_id="two", session_timeout_ms=9000)).member_id
    record = it.last_record
    assert record is not None
    found = {m.member_id: (m.assignment, m.session_timeout) for m in record.members}
    assert found == {one: (one.encode(), 10_000), new: (two.encode(), 9000)}
    it.restart()
    assert it.heartbeat(new, it.group.generation, "two") == E.NONE
    assert it.heartbeat(two, it.group.generation, "two") == E.FENCED_INSTANCE_ID


def test_a_new_id_that_cannot_be_stored_is_not_given() -> None:
    it = Coordinator()
    one, two = stable_statics(it, "one", "two")
    generation = it.group.generation
    it.log_refuses = E.NOT_COORDINATOR
    told = it.answer(it.join(instance_id="one"))
    assert (told.error_code, told.member_id, told.leader) == (E.NOT_COORDINATOR, "", one)
    assert told.generation_id == generation
    assert it.heartbeat(one, generation, "one") == E.NONE
    assert it.group.leader == one
    it.pass_time(9)
    it.heartbeat(one, generation, "one")
    it.heartbeat(two, generation, "two")
    it.pass_time(2)
    assert set(it.group.members) == {one, two}


def test_who_goes_by_the_old_id_is_fenced_from_everything() -> None:
    it = Coordinator()
    [old] = stable_statics(it, "one")
    it.join(instance_id="one")
    generation = it.group.generation
    assert it.heartbeat(old, generation, "one") == E.FENCED_INSTANCE_ID
    assert it.error(it.sync(old, generation, instance_id="one")) == E.FENCED_INSTANCE_ID
    told = it.answer(it.join(old, instance_id="one"))
    assert (told.error_code, told.member_id) == (E.FENCED_INSTANCE_ID, old)
    assert it.leave((old, "one")) == [E.FENCED_INSTANCE_ID]
    assert it.heartbeat(old, generation) == E.UNKNOWN_MEMBER_ID


def test_another_choice_of_protocol_calls_for_a_rebalance() -> None:
    it = Coordinator()
    both = {"range": b"", "sticky": b""}
    it.join(instance_id="one", protocols=both)
    it.settle()
    it.hand_out()
    waiting = it.join(instance_id="one", protocols={"sticky": b"", "range": b""})
    assert it.answer(waiting).generation_id == 2
    assert it.group.protocol == "sticky"


def test_one_that_comes_back_while_others_rejoin_takes_its_own_place() -> None:
    it = Coordinator()
    one, two = stable_statics(it, "one", "two")
    first = it.join(one, instance_id="one")
    second = it.join(two, instance_id="two", protocols={"range": b"x"})
    assert it.answer(first).generation_id == it.answer(second).generation_id == 2
    it.hand_out()
    old = it.join(one, instance_id="one")
    new = it.join(instance_id="one")
    told = it.answer(old)
    assert (told.error_code, told.member_id, told.leader) == (E.FENCED_INSTANCE_ID, one, "")
    it.join(two, instance_id="two", protocols={"range": b"x"})
    assert it.answer(new).generation_id == 3
    assert len(it.group.members) == 2


def test_one_that_comes_back_while_others_sync_begins_another_rebalance() -> None:
    it = Coordinator()
    it.join(instance_id="one")
    it.join(instance_id="two")
    it.settle()
    one, two = it.group.members
    fenced = it.sync(two, 1, instance_id="two")
    waiting = it.join(instance_id="two")
    assert it.error(fenced) == E.FENCED_INSTANCE_ID
    assert it.state == State.PREPARING
    it.join(one, instance_id="one")
    assert it.answer(waiting).generation_id == 2


def test_a_static_member_that_does_not_rejoin_stays_as_long_as_its_session() -> None:
    it = Coordinator()
    one, two = stable_statics(it, "one", "two")
    waiting = it.join(two, instance_id="two", protocols={"range": b"new"})
    for _ in range(12):
        it.pass_time(5)
        if it.is_waiting(waiting):
            assert it.heartbeat(one, 1, "one") == E.REBALANCE_IN_PROGRESS
    assert it.answer(waiting).leader == two
    assert one in it.group.members
    it.pass_time(11)
    assert one not in it.group.members


def test_when_no_static_member_rejoins_the_group_waits_for_sessions_to_end() -> None:
    it = Coordinator()
    one, two = stable_statics(it, "one", "two")
    it.newcomer()
    [ann] = [m for m in it.group.members if m not in (one, two)]
    it.leave(ann)
    generation = it.group.generation
    for _ in range(20):
        it.pass_time(5)
        assert it.heartbeat(one, generation, "one") == E.REBALANCE_IN_PROGRESS
    assert list(it.group.members) == [one]
    assert it.group.generation == generation
    it.pass_time(200)
    assert it.state == State.EMPTY


def test_one_that_comes_back_in_time_keeps_the_place_of_who_never_synced() -> None:
    it = Coordinator()
    it.join(instance_id="one", rebalance_timeout_ms=20_000, session_timeout_ms=100_000)
    it.join(instance_id="two", rebalance_timeout_ms=20_000, session_timeout_ms=100_000)
    it.settle()
    one, two = it.group.members
    it.sync(one, 1, {one: b"1", two: b"2"}, instance_id="one")
    new = it.answer(it.join(instance_id="two", session_timeout_ms=100_000)).member_id
    assert it.answer(it.sync(new, 1, instance_id="two")).assignment == b"2"
    it.pass_time(30)
    assert it.state == State.STABLE


def test_one_that_comes_back_and_never_syncs_is_out_as_who_was_before_it() -> None:
    it = Coordinator()
    for instance_id in ("one", "two"):
        it.join(instance_id=instance_id, rebalance_timeout_ms=20_000, session_timeout_ms=100_000)
    it.settle()
    one, two = it.group.members
    it.sync(one, 1, {one: b"1", two: b"2"}, instance_id="one")
    it.join(instance_id="two", session_timeout_ms=100_000)
    it.pass_time(21)
    assert list(it.group.members) == [one]
