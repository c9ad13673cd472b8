"""What of a new image concerns coordinators."""

from __future__ import annotations

import pytest
from msgspec import structs

from pyk.coordinator.topic_changes import NO_CHANGES, topic_changes
from pyk.metadata.image import NO_HISTORY, ClusterImage
from pyk.metadata.records import PartitionState, encode, partition_key, topic_key
from pyk.metadata.store import Delete, Operation, Put
from tests.metadata.test_image import IDS, NEW, Followed, topic

HISTORIES = pytest.mark.parametrize("has_history", [True, False])


def state(**changes: object) -> Put:
    after = structs.replace(NEW, leader_epoch=1, partition_epoch=1, **changes)
    return Put(partition_key(IDS[0], 1), encode(after))


def images(*operations: Operation, has_history: bool) -> tuple[ClusterImage, ClusterImage]:
    it = Followed()
    it.write(topic("a", IDS[0]), topic("b", IDS[1]))
    before = it.image
    it.write(*operations)
    history = it.image.history if has_history else NO_HISTORY
    return before, structs.replace(it.image, history=history)


@HISTORIES
@pytest.mark.parametrize("change", [{"isr": (1,)}, {"leader": 2}, {"elr": (2,)}])
def test_an_election_and_another_isr_concern_nobody(
    change: dict[str, object], has_history: bool
) -> None:
    before, after = images(state(**change), has_history=has_history)
    assert after.topics["a"] is not before.topics["a"]
    assert topic_changes(before, after) is NO_CHANGES


@HISTORIES
@pytest.mark.parametrize(
    "operation", [state(replicas=(1, 3)), topic("a", IDS[0], partitions=3)], ids=["moved", "more"]
)
def test_other_replicas_and_more_partitions_are_a_change(operation: Put, has_history: bool) -> None:
    changes = topic_changes(*images(operation, has_history=has_history))
    assert changes == (frozenset("a"), {}, False)


@HISTORIES
def test_topics_come_and_go(has_history: bool) -> None:
    operations = (topic("a", IDS[2]), Delete(topic_key("b")))
    changes = topic_changes(*images(*operations, has_history=has_history))
    assert changes == (frozenset("ab"), {IDS[0]: "a", IDS[1]: "b"}, True)


def test_what_changed_and_went_back_between_two_images_is_none() -> None:
    it = Followed()
    it.write(topic("a", IDS[0]))
    before = it.image
    it.write(topic("b", IDS[1]))
    it.write(Delete(topic_key("b")))
    assert topic_changes(before, it.image) is NO_CHANGES


def test_a_partition_that_is_moved_and_loses_its_isr_at_once_is_a_change() -> None:
    it = Followed()
    it.write(topic("a", IDS[0]))
    before = it.image
    it.write(state(replicas=(1, 3)))
    after = PartitionState((1, 3), (1,), 1, leader_epoch=2, partition_epoch=2)
    it.write(Put(partition_key(IDS[0], 1), encode(after)))
    assert topic_changes(before, it.image).names == {"a"}
