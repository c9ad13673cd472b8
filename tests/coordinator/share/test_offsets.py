"""What operators do about where a share group reads."""

from __future__ import annotations

from typing import Any

import pytest

from pyk.coordinator.share.offsets import Alteration
from pyk.coordinator.share.partitions import Known
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from tests.coordinator.share.coordinator import GROUP, Coordinator


def alter(it: Coordinator, **topics: dict[int, int]) -> Any:
    wanted = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=n, start_offset=offset)
                for n, offset in offsets.items()
            ],
        )
        for name, offsets in topics.items()
    ]
    ticket = it.ask(lambda groups, ticket, now: groups.share_offsets.alter(GROUP, wanted, ticket))
    return it.answers.pop(ticket)


def delete(it: Coordinator, *topics: str) -> Any:
    ticket = it.ask(lambda groups, ticket, now: groups.share_offsets.delete(GROUP, topics, ticket))
    return it.answers.pop(ticket)


def an_empty_group(**topics: int) -> Coordinator:
    it = Coordinator(topics)
    it.comes("m", *topics)
    it.goes("m")
    return it


def test_partitions_that_there_are_may_begin_elsewhere() -> None:
    it = an_empty_group(a=2)
    found = alter(it, a={0: 7, 5: 1}, gone={0: 1})
    wanted = {it.topic_id("a"): Known("a", frozenset({0}))}
    assert found == Alteration(3, wanted)
    assert it.shared.share_partitions.initializing == wanted
    it.perform(it.groups.share.ended(GROUP, wanted, {}))
    assert it.shared.share_partitions.initializing == {}
    assert it.shared.share_partitions.initialized[it.topic_id("a")].partitions == {0, 1}


def test_a_group_may_begin_before_it_has_members() -> None:
    it = Coordinator({"a": 1})
    found = alter(it, a={0: 7})
    assert found.state_epoch == 1
    it.perform(it.groups.share.ended(GROUP, found.partitions, {}))
    assert it.shared.state == "Empty"
    assert it.comes("m", "a").held == {"a": {0}}
    assert it.states == {}, "what was set is not begun again"


def test_a_group_with_members_is_left_alone() -> None:
    it = Coordinator({"a": 1})
    it.comes("m", "a")
    with pytest.raises(KafkaError) as refusal:
        alter(it, a={0: 7})
    assert refusal.value.code == ErrorCode.NON_EMPTY_GROUP
    with pytest.raises(KafkaError) as refusal:
        delete(it, "a")
    assert refusal.value.code == ErrorCode.NON_EMPTY_GROUP


def test_what_a_group_has_read_of_a_topic_may_be_forgotten() -> None:
    it = an_empty_group(a=2, b=1)
    doomed = delete(it, "a", "gone")
    assert doomed == {it.topic_id("a"): Known("a", frozenset({0, 1}))}
    assert it.shared.share_partitions.deleting == {it.topic_id("a"): "a"}
    assert delete(it, "a") == doomed, "it was not done yet"
    it.ask(
        lambda groups, ticket, now: groups.share_offsets.deleted(GROUP, [it.topic_id("a")], ticket)
    )
    assert it.shared.share_partitions.deleting == {}
    assert delete(it, "a") == {}
    it.restart()
    assert [known.name for known in it.shared.share_partitions.initialized.values()] == ["b"]


def test_what_was_forgotten_begins_anew() -> None:
    it = an_empty_group(a=1)
    delete(it, "a")
    it.states.clear()
    assert it.comes("m", "a").held == {"a": {0}}
    assert len(it.states) == 1
    assert it.shared.share_partitions.deleting == {}


def test_all_of_a_group_is_forgotten_before_it_is_deleted() -> None:
    it = an_empty_group(a=2, b=1)
    delete(it, "b")
    ticket = it.ask(lambda groups, ticket, now: groups.share_offsets.delete_all(GROUP, ticket))
    assert it.answers.pop(ticket) == {
        it.topic_id("a"): Known("a", frozenset({0, 1})),
        it.topic_id("b"): Known("b", frozenset({0})),
    }
    assert it.shared.share_partitions.initialized == {}
    assert it.shared.share_partitions.deleting.keys() == {it.topic_id("a"), it.topic_id("b")}


def test_there_is_nothing_to_forget_of_other_groups() -> None:
    it = Coordinator({"a": 1})
    it.join("m", "a")
    ticket = it.ask(lambda groups, ticket, now: groups.share_offsets.delete_all(GROUP, ticket))
    assert it.answers.pop(ticket) == {}
    with pytest.raises(KafkaError, match="is not a share group"):
        alter(it, a={0: 1})
    with pytest.raises(KafkaError, match="is not a share group"):
        delete(it, "a")
