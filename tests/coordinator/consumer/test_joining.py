"""How members join a consumer group, stay in it and leave it."""

from __future__ import annotations

import pytest

from pyk.config.group import GroupConfig
from pyk.errors import ErrorCode
from pyk.wire.payloads.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tests.coordinator.consumer.coordinator import INTERVAL, MIDNIGHT_MS, SESSION, Coordinator


def test_the_first_member_gets_all_at_once() -> None:
    it = Coordinator({"a": 3})
    joined = it.join("ann", "a")
    assert (joined.member_id, joined.epoch, joined.held) == ("ann", 2, {"a": {0, 1, 2}})
    assert it.group.state == "Stable"


def test_a_join_leaves_kafkas_records_in_kafkas_order() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    member, epoch, target, target_epoch, place = (r.value for r in it.records())
    assert isinstance(member, ConsumerGroupMemberMetadataValue)
    assert member.client_host == "/10.0.0.1"
    assert member.subscribed_topic_names == ["a"]
    assert isinstance(epoch, ConsumerGroupMetadataValue)
    assert epoch.epoch == 2
    assert epoch.metadata_hash != 0
    assert isinstance(target, ConsumerGroupTargetAssignmentMemberValue)
    assert target.topic_partitions[0].partitions == [0, 1]
    assert isinstance(target_epoch, ConsumerGroupTargetAssignmentMetadataValue)
    assert target_epoch.assignment_epoch == 2
    assert target_epoch.assignment_timestamp == MIDNIGHT_MS + 1_000_000
    assert isinstance(place, ConsumerGroupCurrentMemberAssignmentValue)
    assert (place.member_epoch, place.previous_member_epoch, place.state) == (2, 0, 0)
    assert place.assigned_partitions[0].assignment_epochs == [2, 2]


def test_before_v1_a_member_that_joins_is_given_its_id() -> None:
    it = Coordinator({"a": 1})
    joined = it.join("", "a", version=0)
    assert joined.member_id is not None
    assert len(joined.member_id) == 22
    assert it.beat(joined.member_id, joined.epoch, version=0).epoch == joined.epoch


def test_since_v1_a_member_brings_its_id() -> None:
    assert Coordinator({"a": 1}).join("", "a").error == ErrorCode.INVALID_REQUEST


def test_a_heartbeat_that_changes_nothing_writes_nothing_and_says_little() -> None:
    it = Coordinator({"a": 1})
    it.join("ann", "a")
    it.beat("ann", 2)
    before = len(it.log)
    answer = it.beat("ann", 2)
    assert (answer.epoch, answer.held, answer.interval_ms) == (2, None, 5000)
    assert len(it.log) == before


def test_a_member_that_says_all_is_told_all() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    full = it.beat("ann", 2, {"a": {0, 1}}, topics=["a"], rebalance_timeout_ms=60_000)
    assert full.held == {"a": {0, 1}}


def test_a_member_that_begins_anew_gets_back_what_it_had() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    again = it.join("ann", "a")
    assert (again.epoch, again.held) == (2, {"a": {0, 1}})
    assert len(it.group.members) == 1


def test_a_group_may_have_its_own_heartbeat_interval() -> None:
    it = Coordinator({"a": 1})
    it.group_config = GroupConfig(consumer_heartbeat_interval_ms=7000)
    assert it.join("ann", "a").interval_ms == 7000


def test_who_joins_soon_after_another_waits_for_the_next_target() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    soon = it.join("bob", "a")
    assert (soon.epoch, soon.held) == (2, {})
    assert it.group.state == "Assigning"
    it.pass_time(INTERVAL / 2)
    assert it.beat("bob", 2).epoch == 2
    it.pass_time(INTERVAL / 2)
    assert it.beat("bob", 2).epoch == 3
    assert it.target("ann") == {"a": {0}}
    assert it.target("bob") == {"a": {1}}


def test_a_target_from_the_future_is_no_reason_to_wait() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    it.now -= 500
    assert it.join("bob", "a").epoch == 3


def test_without_an_interval_each_join_makes_a_target() -> None:
    it = Coordinator({"a": 2})
    it.group_config = GroupConfig(consumer_assignment_interval_ms=0)
    it.join("ann", "a")
    assert it.join("bob", "a").epoch == 3


def test_a_member_that_leaves_is_gone_and_others_get_what_it_had() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    it.pass_time()
    it.join("bob", "a")
    left = it.leave("ann")
    assert (left.member_id, left.epoch, left.held, left.interval_ms) == ("ann", -1, None, 0)
    it.pass_time()
    it.beat("bob", 3)
    assert it.member("bob").assigned == {it.topic_id("a"): {0: 4, 1: 4}}


def test_the_last_member_leaves_an_empty_group_behind() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    it.leave("ann")
    assert it.group.state == "Empty"
    assert (it.group.epoch, it.group.metadata_hash) == (3, 0)
    assert it.join("bob", "a").epoch == 2
    it.pass_time()
    assert it.beat("bob", 2).held == {"a": {0, 1}}


def test_a_member_that_is_not_heard_of_is_out() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    it.pass_time(SESSION - 1)
    it.beat("ann", 2)
    it.pass_time(SESSION - 1)
    assert "ann" in it.group.members
    it.pass_time(1)
    assert it.group.state == "Empty"
    assert it.beat("ann", 2).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_gives_members_their_whole_time_again() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    it.pass_time(SESSION - 1)
    it.restart()
    it.pass_time(SESSION - 1)
    assert it.beat("ann", 2).epoch == 2
    it.restart()
    it.pass_time(SESSION)
    assert it.group.state == "Empty"


def test_a_member_is_put_out_again_later_if_the_log_did_not_take_it() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
    it.pass_time(SESSION)
    assert "ann" in it.group.members
    it.log_refuses = None
    it.pass_time(1)
    assert it.group.state == "Empty"


def test_what_the_log_did_not_take_is_decided_anew() -> None:
    it = Coordinator({"a": 1})
    it.join("ann", "a")
    it.create(a=2)
    it.pass_time()
    it.log_refuses = ErrorCode.KAFKA_STORAGE_ERROR
    assert it.beat("ann", 2).error == ErrorCode.KAFKA_STORAGE_ERROR
    it.log_refuses = None
    assert it.beat("ann", 2).held == {"a": {0, 1}}


def test_nobody_but_who_joins_makes_a_group() -> None:
    it = Coordinator({"a": 1})
    assert it.beat("ann", 3).error == ErrorCode.GROUP_ID_NOT_FOUND
    assert it.leave("ann").error == ErrorCode.GROUP_ID_NOT_FOUND
    assert it.surroundings.groups == {}


def test_who_is_no_member_is_told_so() -> None:
    it = Coordinator({"a": 1})
    it.join("ann", "a")
    assert it.beat("bob", 3).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert it.leave("bob").error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_has_only_so_many_members() -> None:
    it = Coordinator({"a": 1}, group_consumer_max_size=1)
    it.join("ann", "a")
    assert it.join("bob", "a").error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert it.join("ann", "a").error == ErrorCode.NONE


@pytest.mark.parametrize("epoch", [1, 3])
def test_another_epoch_is_fenced(epoch: int) -> None:
    it = Coordinator({"a": 1})
    it.join("ann", "a")
    assert it.beat("ann", epoch, {}).error == ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_forgiven_to_who_holds_only_what_it_has() -> None:
    it = Coordinator({"a": 2, "b": 1})
    it.join("ann", "a")
    it.create(a=3)
    it.pass_time()
    assert it.beat("ann", 2).epoch == 3
    assert it.beat("ann", 2).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert it.beat("ann", 2, {"b": {0}}).error == ErrorCode.FENCED_MEMBER_EPOCH
    assert it.beat("ann", 2, {"a": {0, 1}}).epoch == 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"group_id": " "}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ],
)
def test_a_join_has_to_be_complete(fields: dict[str, object], message: str) -> None:
    answer = Coordinator({"a": 1}).join("ann", "a", **fields)
    assert (answer.error, answer.message) == (ErrorCode.INVALID_REQUEST, message)


def test_a_join_says_that_nothing_is_held() -> None:
    it = Coordinator({"a": 1})
    for held in (None, {"a": {0}}):
        answer = it.beat("ann", 0, held, topics=["a"], rebalance_timeout_ms=1)
        assert answer.message == "TopicPartitions must be empty when (re-)joining."


def test_a_join_says_what_it_subscribes_to() -> None:
    answer = Coordinator({"a": 1}).beat("ann", 0, {}, rebalance_timeout_ms=1)
    assert answer.error == ErrorCode.INVALID_REQUEST


def test_there_are_no_epochs_below_those_of_leaving() -> None:
    it = Coordinator({"a": 1})
    assert it.beat("ann", -3).message == "MemberEpoch is invalid."
    assert it.beat("ann", -2).message == "InstanceId can't be null."


def test_an_assignor_that_the_broker_does_not_have_is_refused() -> None:
    answer = Coordinator({"a": 1}).join("ann", "a", server_assignor="sticky")
    assert answer.error == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.message is not None
    assert answer.message.endswith("Supported assignors: uniform, range.")


def test_most_members_choose_the_assignor() -> None:
    it = Coordinator({"a": 2, "b": 2})
    it.join("ann", "a", "b", server_assignor="range")
    assert it.described().assignor_name == "range"
    it.join("bob", "a", "b")
    it.join("cat", "a", "b", server_assignor="uniform")
    assert it.described().assignor_name == "uniform"
    it.pass_time()
    it.beat("bob", 2, server_assignor="range")
    assert it.described().assignor_name == "range"


def test_a_change_of_client_or_rack_is_noted_and_moves_nothing() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    assert it.beat("ann", 2, rack_id="r1", client_id="new").epoch == 2
    assert (it.member("ann").rack_id, it.member("ann").client_id) == ("r1", "new")
    assert it.group.epoch == 2
