"""Images that follow a store, share what did not change, and survive what they cannot read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pyk.metadata.image import HISTORY_MAX, NEVER, ClusterImage
from pyk.metadata.records import (
    FeaturesRecord,
    PartitionState,
    TopicRecord,
    encode,
    partition_key,
    printed,
    topic_key,
)
from pyk.metadata.state import State, Transaction
from pyk.metadata.store import Delete, DeletePrefix, Operation, Put, Snapshot
from pyk.types import Uuid

IDS = [Uuid(bytes([n]) * 16) for n in range(1, 4)]
NEW = PartitionState((1, 2), (1, 2), 1)


class Followed:
    def __init__(self) -> None:
        self.state = State()
        self.image = ClusterImage()

    def write(self, *operations: Operation) -> None:
        changes = self.state.apply(Transaction(operations))
        if changes is not None:
            self.image = self.image.apply(changes)

    def loaded(self) -> ClusterImage:
        return ClusterImage.load(Snapshot(self.state.revision, self.state.range("")))


def topic(name: str, topic_id: Uuid, partitions: int = 2) -> Put:
    return Put(topic_key(name), encode(TopicRecord(printed(topic_id), (NEW,) * partitions)))


def changed(topic_id: Uuid, partition: int, epoch: int = 1) -> Put:
    state = PartitionState((1, 2), (2,), 2, leader_epoch=epoch, partition_epoch=epoch)
    return Put(partition_key(topic_id, partition), encode(state))


def test_a_partition_is_what_it_became() -> None:
    it = Followed()
    it.write(topic("a", IDS[0]))
    assert it.image.topics["a"].partitions == (NEW, NEW)
    assert it.image.partition_revision(IDS[0], 1) == NEVER
    it.write(changed(IDS[0], 1))
    assert [p.leader for p in it.image.topics["a"].partitions] == [1, 2]
    assert it.image.partition_revision(IDS[0], 1) == 2
    assert it.image.topics["a"].revision == 1
    it.write(topic("a", IDS[0], partitions=3))
    assert [p.leader for p in it.image.topics["a"].partitions] == [1, 2, 1]
    assert it.image == it.loaded()


def test_a_topic_that_is_made_again_begins_anew() -> None:
    it = Followed()
    it.write(topic("a", IDS[0]), changed(IDS[0], 0))
    it.write(Delete(topic_key("a")), DeletePrefix(f"partitions/{printed(IDS[0])}/"))
    assert it.image == ClusterImage(revision=2)
    it.write(topic("a", IDS[1]))
    assert it.image.topic_by_id(IDS[0]) is None
    assert it.image.topic_by_id(IDS[1]) == it.image.topics["a"]
    assert it.image.topics["a"].partitions == (NEW, NEW)


def test_what_did_not_change_is_shared() -> None:
    it = Followed()
    it.write(topic("a", IDS[0]), topic("b", IDS[1]), Put("configs/broker-defaults", b"{}"))
    before = it.image
    it.write(changed(IDS[0], 0))
    assert before.topics["a"].partitions == (NEW, NEW), "an image has changed"
    assert it.image.topics["b"] is before.topics["b"]
    assert it.image.names is before.names
    assert it.image.configured is before.configured


def test_a_value_of_a_later_version_is_read() -> None:
    it = Followed()
    it.write(
        Put("cluster", b'{"cluster_id":"c","since":5}'),
        Put("brokers/7", b'{"listeners":[{"name":"P","host":"h","port":1,"x":2}],"y":[]}'),
        Put("from-the-future", b"?"),
    )
    assert it.image.cluster_id == "c"
    assert it.image.brokers[7].listeners[0].security_protocol == "PLAINTEXT"
    assert it.image.unreadable == {}


def test_what_cannot_be_read_is_named_and_leaves_what_was_there() -> None:
    it = Followed()
    it.write(topic("a", IDS[0]), topic("b", IDS[1]))
    bad = ("topics/a", "brokers/x", "partitions/", f"partitions/{printed(IDS[1])}/0", "features")
    it.write(*(Put(key, b"\xff") for key in bad))
    assert it.image.unreadable.keys() == set(bad)
    assert it.image.topics.keys() == {"a", "b"}
    it.write(topic("a", IDS[0]), *(Delete(key) for key in bad[1:]))
    assert it.image.unreadable == {}
    assert it.image == it.loaded()


WRITES = st.one_of(
    st.builds(topic, st.sampled_from("ab"), st.sampled_from(IDS), st.integers(1, 3)),
    st.builds(changed, st.sampled_from(IDS), st.integers(0, 3), st.integers(1, 3)),
    st.builds(
        lambda key, value: Put(key, b'{"%b":"1"}' % value),
        st.sampled_from(["configs/topics/a", "configs/brokers/1", "configs/broker-defaults"]),
        st.sampled_from([b"x", b"y"]),
    ),
    st.builds(
        lambda key: Put(key, b'{"listeners":[],"cluster_id":"c","levels":{},"next_producer_id":1}'),
        st.sampled_from(["brokers/1", "brokers/2", "cluster", "features", "producer-ids"]),
    ),
    st.builds(Delete, st.sampled_from(["configs/topics/a", "brokers/1", "features"])),
)


@given(writes=st.lists(WRITES, max_size=20))
def test_an_image_that_follows_is_one_that_is_loaded(writes: list[Operation]) -> None:
    it = Followed()
    owners: dict[Uuid, str] = {}
    for write in writes:
        if isinstance(write, Put) and write.key.startswith("topics/"):
            # An id belongs to one name, and a topic is deleted before its name is used again.
            name = write.key.removeprefix("topics/")
            topic_id = next(i for i in IDS if printed(i).encode() in write.value)
            before = it.image.topics.get(name)
            if owners.setdefault(topic_id, name) != name:
                continue
            if before is not None and before.topic_id != topic_id:
                prefix = f"partitions/{printed(before.topic_id)}/"
                it.write(Delete(write.key), DeletePrefix(prefix))
        it.write(write)
        assert it.image == it.loaded()


@given(
    key=st.sampled_from(["topics/a", "brokers/1", "cluster", "features", "producer-ids", "z"])
    | st.text(min_size=1),
    value=st.binary(max_size=50),
)
def test_any_bytes_can_be_in_the_store(key: str, value: bytes) -> None:
    it = Followed()
    it.write(Put(key, value))
    it.write(Delete(key))
    assert it.image == ClusterImage(revision=2)


# What has changed


def test_an_image_knows_which_partitions_have_changed_since_an_earlier_one() -> None:
    it = Followed()
    it.write(topic("a", IDS[0], partitions=3), topic("b", IDS[1]))
    begin = it.image
    it.write(changed(IDS[0], 2))
    middle = it.image
    it.write(changed(IDS[0], 0), changed(IDS[1], 1))
    it.write(Put("features", encode(FeaturesRecord({}))))
    assert it.image.topics_changed_since(begin) == {"a": {0, 2}, "b": {1}}
    assert it.image.topics_changed_since(middle) == {"a": {0}, "b": {1}}
    assert it.image.topics_changed_since(it.image) == {}
    it.write(topic("a", IDS[0], partitions=4))
    it.write(changed(IDS[0], 3), Delete(topic_key("b")))
    assert it.image.topics_changed_since(begin) == {"a": None, "b": None}


def test_of_what_is_long_ago_an_image_says_that_it_does_not_know() -> None:
    it = Followed()
    it.write(topic("a", IDS[0]))
    images = []
    for epoch in range(HISTORY_MAX + 1):
        images.append(it.image)
        it.write(changed(IDS[0], epoch % 2, epoch + 1))
    assert it.image.topics_changed_since(images[0]) is None
    assert it.image.topics_changed_since(images[1]) == {"a": {0, 1}}
    assert it.image.topics_changed_since(images[-1]) == {"a": {HISTORY_MAX % 2}}
    assert it.loaded().topics_changed_since(images[-1]) is None
    assert images[-1].topics_changed_since(it.image) is None


def test_many_partitions_that_change_together_are_what_they_became() -> None:
    it = Followed()
    it.write(topic("a", IDS[0], partitions=5))
    it.write(changed(IDS[0], 1, epoch=2), changed(IDS[0], 3))
    assert [p.leader_epoch for p in it.image.topics["a"].partitions] == [0, 2, 0, 1, 0]
    it.write(changed(IDS[0], 4, epoch=7), topic("a", IDS[0], partitions=6), changed(IDS[0], 5))
    assert [p.leader_epoch for p in it.image.topics["a"].partitions] == [0, 2, 0, 1, 7, 1]
    assert it.image == it.loaded()


def test_a_leader_an_epoch_or_an_isr_is_no_part_of_a_shape() -> None:
    it = Followed()
    it.write(topic("a", IDS[0]))
    before = it.image
    state = structs.replace(NEW, isr=(), leader=-1, leader_epoch=1)
    it.write(Put(partition_key(IDS[0], 1), encode(state)))
    assert it.image.topics["a"] != before.topics["a"]
    assert it.image.topics["a"].has_shape_of(before.topics["a"])
    assert it.image.has_same(["a", "missing"], before)
    it.write(Put(partition_key(IDS[0], 1), encode(structs.replace(state, replicas=(3,)))))
    assert not it.image.topics["a"].has_shape_of(before.topics["a"])
    assert not it.image.has_same(["a"], before)


def test_an_image_with_other_topics_than_its_history_has_says_that_it_does_not_know() -> None:
    it = Followed()
    it.write(topic("a", IDS[0]))
    before = it.image
    altered = structs.replace(before, topics={})
    assert altered.topics_changed_since(before) is None
    assert before.topics_changed_since(altered) is None
