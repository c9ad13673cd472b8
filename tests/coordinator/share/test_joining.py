"""Members of share groups: they come, stay, and go."""

from __future__ import annotations

import pytest

from pyk.config.group import GroupConfig
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.payloads.share_group_records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from tests.coordinator.share.coordinator import GROUP, INTERVAL, SESSION, Answer, Coordinator

ALL = {"a": {0, 1, 2}}


def test_the_first_member_gets_all_with_its_first_heartbeat() -> None:
    it = Coordinator({"a": 3})
    assert it.comes("m", "a") == Answer("m", 2, ALL, interval_ms=5000)
    assert it.shared.state == "Stable"


def test_a_heartbeat_that_says_nothing_hears_nothing_new() -> None:
    it = Coordinator({"a": 3})
    it.comes("m", "a")
    written = len(it.log)
    assert it.heartbeat("m", 2) == Answer("m", 2, None, interval_ms=5000)
    assert len(it.log) == written


def test_what_is_written_is_in_an_order_that_can_be_applied() -> None:
    it = Coordinator({"a": 3})
    it.comes("m", "a")
    assert [type(record.key) for record in it.records()] == [
        ShareGroupMemberMetadataKey,
        ShareGroupMetadataKey,
        ShareGroupStatePartitionMetadataKey,
        ShareGroupStatePartitionMetadataKey,
        ShareGroupTargetAssignmentMemberKey,
        ShareGroupTargetAssignmentMetadataKey,
        ShareGroupCurrentMemberAssignmentKey,
    ]


def test_members_share_partitions_out() -> None:
    it = Coordinator({"a": 2})
    it.comes("m1", "a")
    assert it.comes("m2", "a") == Answer("m2", 2, {}, interval_ms=5000)
    it.pass_time(INTERVAL)
    answer = it.heartbeat("m2", 2)
    assert answer.epoch == 3
    assert answer.held is not None
    first = it.heartbeat("m1", 2)
    assert first.held is not None
    assert {frozenset(answer.held["a"]), frozenset(first.held["a"])} == {
        frozenset({0}),
        frozenset({1}),
    }


def test_more_members_than_partitions_read_the_same() -> None:
    it = Coordinator({"a": 1})
    it.group_config = GroupConfig(share_assignment_interval_ms=0)
    for name in ("m1", "m2", "m3"):
        assert it.comes(name, "a").held == {"a": {0}}


@pytest.mark.parametrize("epoch", [0, 2, 3])
def test_an_answer_may_be_lost(epoch: int) -> None:
    it = Coordinator({"a": 1})
    it.group_config = GroupConfig(share_assignment_interval_ms=0)
    it.comes("m1", "a")
    it.comes("m2", "a")
    assert it.heartbeat("m1", 2).epoch == 3
    assert it.heartbeat("m1", epoch, "a").epoch == 3


def test_who_lives_in_another_epoch_is_out() -> None:
    it = Coordinator({"a": 1})
    it.comes("m", "a")
    later, earlier = it.heartbeat("m", 9), it.heartbeat("m", 1)
    assert later.error == earlier.error == ErrorCode.FENCED_MEMBER_EPOCH
    assert later.message is not None
    assert "greater member epoch (9)" in later.message
    assert earlier.message is not None
    assert "does not match the previous member epoch (0)" in earlier.message


def test_who_is_not_known_is_told_so() -> None:
    it = Coordinator({"a": 1})
    assert it.refused("m", 5) == ErrorCode.GROUP_ID_NOT_FOUND
    assert it.refused("m", -1) == ErrorCode.GROUP_ID_NOT_FOUND
    it.comes("m", "a")
    assert it.refused("nobody", 5) == ErrorCode.UNKNOWN_MEMBER_ID
    assert it.refused("nobody", -1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_request_has_to_make_sense() -> None:
    it = Coordinator({"a": 1})
    assert it.comes("m").message == "SubscribedTopicNames must be set in first request."
    assert it.heartbeat("m", -2).message == "MemberEpoch is invalid."
    assert it.comes(" ", "a").message == "MemberId can't be empty."
    assert it.comes("m", "a", rack_id="").message == "RackId can't be empty."
    assert it.comes("m", "a", group_id="").message == "GroupId can't be empty."


def test_a_group_may_be_full() -> None:
    it = Coordinator({"a": 1}, group_share_max_size=1)
    it.comes("m1", "a")
    refusal = it.comes("m2", "a")
    assert refusal.error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refusal.message == "The share group has reached its maximum capacity of 1 members."
    assert it.heartbeat("m1", 2).error == ErrorCode.NONE


def test_who_leaves_is_gone_at_once() -> None:
    it = Coordinator({"a": 1})
    it.comes("m", "a")
    assert it.goes("m") == Answer("m", -1, None)
    assert it.shared.state == "Empty"
    assert it.shared.epoch == 3
    assert it.refused("m", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_is_silent_for_too_long_is_out() -> None:
    it = Coordinator({"a": 1})
    it.comes("m1", "a")
    it.comes("m2", "a")
    it.pass_time(SESSION - 1)
    it.heartbeat("m2", 2)
    it.pass_time(1)
    assert it.shared.members.keys() == {"m2"}
    assert it.heartbeat("m2", 3).epoch == 4


def test_a_session_is_as_long_as_the_group_says() -> None:
    it = Coordinator({"a": 1})
    it.group_config = GroupConfig(share_session_timeout_ms=60_000, share_heartbeat_interval_ms=7000)
    assert it.comes("m", "a").interval_ms == 7000
    it.pass_time(59)
    assert it.shared.members
    it.pass_time(1)
    assert not it.shared.members


def test_who_the_log_does_not_let_go_is_let_go_later() -> None:
    it = Coordinator({"a": 1})
    it.comes("m", "a")
    it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
    it.pass_time(SESSION)
    assert it.shared.members
    it.log_refuses = None
    it.pass_time(1)
    assert not it.shared.members


def test_a_member_may_subscribe_to_something_else() -> None:
    it = Coordinator({"a": 1, "b": 2})
    it.group_config = GroupConfig(share_assignment_interval_ms=0)
    it.comes("m", "a")
    assert it.heartbeat("m", 2, "b") == Answer("m", 3, {"b": {0, 1}}, interval_ms=5000)
    assert it.heartbeat("m", 3, "a", "b").held == {"a": {0}, "b": {0, 1}}


def test_what_a_member_says_of_itself_is_kept() -> None:
    it = Coordinator({"a": 1})
    it.comes("m", "a", rack_id="r1", client_id="first")
    it.heartbeat("m", 2, client_id="second")
    [member] = it.shown().members
    assert (member.rack_id, member.client_id, member.client_host) == ("r1", "second", "/10.0.0.1")
    assert it.heartbeat("m", 2).epoch == 2


def test_a_restart_changes_nothing() -> None:
    it = Coordinator({"a": 3, "b": 1})
    it.comes("m1", "a", "b")
    it.comes("m2", "a")
    it.pass_time(INTERVAL)
    it.heartbeat("m2", 2)
    before = it.shown()
    it.restart()
    assert it.shown() == before
    assert it.heartbeat("m2", 3).held is None
    it.pass_time(SESSION)
    assert it.shared.members.keys() == set()


def test_a_group_of_another_type_is_no_share_group() -> None:
    it = Coordinator({"a": 1})
    it.join("m", "a")
    refusal = it.comes("s", "a")
    assert refusal.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal.message == f"Group {GROUP} is not a share group."
    assert it.refused("s", 3) == it.refused("s", -1) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_share_group_is_of_no_other_type() -> None:
    it = Coordinator({"a": 1})
    it.comes("m", "a")
    it.goes("m")
    refusal = it.join("c", "a")
    assert refusal.error == ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal.message == f"Group {GROUP} is not a consumer group."
    with pytest.raises(KafkaError, match="is not a consumer group"):
        it.shared.check_commit("", None, -1, version=9, is_transactional=False)
    it.shared.check_fetch(None, -1)
    with pytest.raises(KafkaError, match="is not a consumer group"):
        it.shared.check_offset_delete()


def test_a_share_group_stays_until_it_is_deleted() -> None:
    it = Coordinator({"a": 1})
    it.comes("m", "a")
    it.goes("m")
    it.pass_time(14 * 86_400)
    assert it.shown().group_state == "Empty"
    it.ask(lambda groups, ticket, now: groups.delete(GROUP, ticket, now))
    assert GROUP not in it.surroundings.groups
    it.restart()
    assert GROUP not in it.surroundings.groups
