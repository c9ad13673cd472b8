"""Targets that take long are made elsewhere, while members come and go."""

from __future__ import annotations

from pyk.errors import ErrorCode
from tests.coordinator.consumer.coordinator import Coordinator


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


def test_small_groups_do_not_wait() -> None:
    it = Coordinator({"a": 4000})
    it.jobs_wait = True
    assert it.join("ann", "a").held == {"a": set(range(4000))}
    it = Coordinator({"a": 6000})
    it.jobs_wait = True
    assert it.join("ann", "a").held == {}
