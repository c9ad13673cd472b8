"""Which partitions a share group may read: those whose state was begun elsewhere.

    wanted -> initializing -> initialized -> deleting -> gone

A topic that is deleted goes out of all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pyk.coordinator.assigned import Partitions
from pyk.metadata.image import ClusterImage
from pyk.types import Uuid


class Known(NamedTuple):
    """Some partitions of a topic."""

    name: str
    partitions: frozenset[int]


ByTopic: TypeAlias = Mapping[Uuid, Known]


class SharePartitions(Struct, frozen=True):
    initializing: ByTopic = {}
    initialized: ByTopic = {}
    deleting: Mapping[Uuid, str] = {}
    """Topics, by their ids."""

    @property
    def assignable(self) -> Partitions:
        return {topic_id: known.partitions for topic_id, known in self.initialized.items()}

    def missing(self, topics: Collection[str], image: ClusterImage) -> dict[Uuid, Known]:
        """What these topics have that is not initialized."""
        found = {}
        for name in sorted(topics):
            topic = image.topics.get(name)
            if topic is not None:
                known = self.initialized.get(topic.topic_id)
                there = frozenset(range(len(topic.partitions)))
                left = there if known is None else there - known.partitions
                if left:
                    found[topic.topic_id] = Known(name, left)
        return found

    def begun(self, wanted: ByTopic) -> SharePartitions:
        initializing = _with(self.initializing, wanted)
        return SharePartitions(
            initializing,
            self.initialized,
            {t: name for t, name in self.deleting.items() if t not in initializing},
        )

    def done(self, initialized: ByTopic) -> SharePartitions:
        return SharePartitions(
            without(self.initializing, initialized),
            _with(self.initialized, initialized),
            self.deleting,
        )

    def given_up(self, failed: ByTopic) -> SharePartitions:
        return replace(self, initializing=without(self.initializing, failed))

    def without_topics(self, gone: Collection[Uuid]) -> SharePartitions:
        """Those topics are deleted."""
        return SharePartitions(
            {t: known for t, known in self.initializing.items() if t not in gone},
            {t: known for t, known in self.initialized.items() if t not in gone},
            {t: name for t, name in self.deleting.items() if t not in gone},
        )

    def topics(self) -> set[Uuid]:
        return {*self.initializing, *self.initialized, *self.deleting}


def _with(these: ByTopic, others: ByTopic) -> dict[Uuid, Known]:
    together = dict(these)
    for topic_id, (name, partitions) in others.items():
        known = together.get(topic_id)
        together[topic_id] = Known(name, partitions | (known.partitions if known else frozenset()))
    return together


def without(these: ByTopic, others: ByTopic) -> dict[Uuid, Known]:
    left = {}
    for topic_id, (name, partitions) in these.items():
        gone = others.get(topic_id)
        rest = partitions if gone is None else partitions - gone.partitions
        if rest:
            left[topic_id] = Known(name, rest)
    return left


def shared(these: ByTopic, others: ByTopic) -> dict[Uuid, Known]:
    """What is in both."""
    return without(these, without(these, others))
