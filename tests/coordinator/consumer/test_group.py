"""What offsets, listings and deletions ask of a consumer group, and how it is described."""

from __future__ import annotations

import pytest

from pyk.coordinator.group import GroupType
from pyk.errors import ErrorCode, KafkaError
from tests.coordinator.consumer.coordinator import GROUP, Coordinator


def code_of_commit(it: Coordinator, member_id: str, epoch: int, version: int = 9) -> ErrorCode:
    try:
        check = it.group.check_commit(
            member_id, None, epoch, version=version, is_transactional=False
        )
        if check is not None:
            check("a", it.topic_id("a"), 0)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def test_a_member_commits_in_its_epoch() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    assert code_of_commit(it, "ann", 2) == ErrorCode.NONE
    assert code_of_commit(it, "ann", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert code_of_commit(it, "ann", 3) == ErrorCode.STALE_MEMBER_EPOCH
    assert code_of_commit(it, "bob", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of_commit(it, "", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of_commit(it, "ann", 2, version=8) == ErrorCode.UNSUPPORTED_VERSION


def test_anybody_commits_while_there_are_no_members() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    it.leave("ann")
    assert code_of_commit(it, "", -1) == ErrorCode.NONE
    assert code_of_commit(it, "ann", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transaction_need_not_say_whose_it_is() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    it.group.check_commit("", None, -1, version=3, is_transactional=True)


def test_what_a_member_had_in_both_epochs_it_may_commit_in_the_older() -> None:
    it = Coordinator({"a": 1, "b": 1})
    it.join("ann", "a")
    it.pass_time()
    it.beat("ann", 2, topics=["a", "b"])
    assert it.member("ann").epoch == 3
    check = it.group.check_commit("ann", None, 2, version=9, is_transactional=False)
    assert check is not None
    check("a", it.topic_id("a"), 0)
    for topic, partition in (("b", 0), ("a", 1)):
        with pytest.raises(KafkaError) as refusal:
            check(topic, it.topic_id(topic), partition)
        assert refusal.value.code == ErrorCode.STALE_MEMBER_EPOCH


def test_what_a_member_is_giving_back_it_may_commit() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    it.pass_time()
    it.join("bob", "a")
    it.beat("ann", 2, {"a": {0, 1}})
    assert it.group.check_commit("ann", None, 2, version=9, is_transactional=False) is None


def test_offsets_are_fetched_by_members_in_their_epoch_and_by_others() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    it.group.check_fetch(None, -1)
    it.group.check_fetch("ann", 2)
    for member_id, epoch, code in (
        ("ann", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("bob", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(KafkaError) as refusal:
            it.group.check_fetch(member_id, epoch)
        assert refusal.value.code == code


def test_a_group_is_deleted_when_it_has_no_members_and_nothing_is_left() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a", subscribed_topic_regex="b.*")
    it.settle()
    with pytest.raises(KafkaError) as refusal:
        it.group.check_delete()
    assert refusal.value.code == ErrorCode.NON_EMPTY_GROUP
    it.leave("ann")
    it.ask(lambda groups, ticket, now: groups.delete(GROUP, ticket, now))
    assert it.surroundings.groups == {}
    latest = {repr(record.key): record.value for record in it.records()}
    assert set(latest.values()) == {None}
    it.restart()
    assert it.surroundings.groups == {}


def test_tombstones_delete_a_group_with_members_too() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    for record in it.group.tombstones():
        it.groups.apply(record)
    assert it.surroundings.groups == {}


def test_a_group_is_listed_as_what_it_is() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    group = it.group
    assert (group.type, group.protocol_type, group.state) == (
        GroupType.CONSUMER,
        "consumer",
        "Stable",
    )


def test_a_group_is_described_with_what_members_have_and_should_have() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a", rack_id="r1", instance_id="i1")
    it.pass_time()
    it.join("bob", "a")
    it.beat("ann", 2, {"a": {0, 1}})
    group = it.described()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "uniform"
    ann = next(member for member in group.members if member.member_id == "ann")
    assert (ann.instance_id, ann.rack_id, ann.member_epoch) == ("i1", "r1", 2)
    assert (ann.subscribed_topic_names, ann.subscribed_topic_regex) == (["a"], "")
    assert [(t.topic_name, t.partitions) for t in ann.assignment.topic_partitions] == [
        ("a", [0, 1])
    ]
    assert [t.partitions for t in ann.target_assignment.topic_partitions] == [[0]]
    assert ann.member_type == 1


def test_topics_that_are_gone_are_not_described() -> None:
    it = Coordinator({"a": 2})
    it.join("ann", "a")
    it.delete("a")
    assert it.described().members[0].assignment.topic_partitions == []


def test_a_restart_changes_nothing() -> None:
    it = Coordinator({"a": 4, "b": 3})
    it.join("ann", "a", instance_id="i1")
    it.join("bob", subscribed_topic_regex="b.*", server_assignor="range")
    it.settle()
    it.pass_time()
    it.beat("bob", 2)
    it.beat("ann", 2, {"a": {0, 1, 2, 3}})
    before = it.described()
    counted = it.group.topic_counts, it.group.regex_counts, it.group.assignor_counts
    it.restart()
    assert it.described() == before
    assert (it.group.topic_counts, it.group.regex_counts, it.group.assignor_counts) == counted
