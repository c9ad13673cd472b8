"""The hashes of topics that the groups of a shard have asked for."""

from __future__ import annotations

from collections.abc import Iterator

from pyk.coordinator.metadata_hash import TopicHashes
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.records import PartitionState
from pyk.types import Uuid


class Names(frozenset[str]):
    """Counts how many of them are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[str]:
        Names.looks += len(self)
        return super().__iter__()


def test_topics_that_no_group_has_asked_for_are_not_looked_at() -> None:
    """There is a shard for each of fifty partitions, and each hears of all that change."""
    state = PartitionState((1,), (1,), 1, 0, 0)
    topic = Topic("orders", Uuid(bytes(16)), (state,), revision=1)
    image = ClusterImage(topics={"orders": topic})
    hashes = TopicHashes()
    number = hashes.of_all({"orders"}, image)
    others = [f"topic-{number}" for number in range(1_000)]
    hashes.forget(Names(others))
    assert "orders" in hashes._known
    hashes.forget(Names([*others, "orders"]))
    assert not hashes._known
    assert Names.looks == 0
    assert hashes.of_all({"orders"}, image) == number


def test_a_topic_that_goes_between_the_turns_is_not_learnt() -> None:
    state = PartitionState((1,), (1,), 1, 0, 0)
    topics = {
        name: Topic(name, Uuid(name.encode().ljust(16)), (state,), revision=1)
        for name in ("events", "orders")
    }
    images = [ClusterImage(topics=topics)]
    hashes = TopicHashes()
    learning = hashes.learn_in_turns(["events", "orders"], lambda: images[-1])
    next(learning)
    images.append(ClusterImage(topics={"events": topics["events"]}))
    hashes.forget({"orders"})
    assert list(learning) == []
    assert hashes._known.keys() == {"events"}
