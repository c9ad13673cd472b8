"""How the topics of one image differ from those of an earlier one.

Who leads a partition, its epochs and its ISR make no difference: groups have nothing to do then.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final, NamedTuple

from pyk.metadata.image import ChangedTopics, ClusterImage, Topic
from pyk.types import Uuid


class TopicChanges(NamedTuple):
    names: frozenset[str]
    """Of all topics that were created, deleted or made anew under the same name, or have other
    partitions or replicas."""
    deleted: Mapping[Uuid, str]
    """By the ids that no topic has any more, the names that they had."""
    has_created: bool


NO_CHANGES: Final = TopicChanges(frozenset(), {}, has_created=False)


def topic_changes(before: ClusterImage, after: ClusterImage) -> TopicChanges:
    if after.topics is before.topics:
        return NO_CHANGES
    old, new = before.topics, after.topics
    changed = {
        name: numbers
        for name, numbers in _candidates(before, after).items()
        if not _has_same_shape(new.get(name), old.get(name), numbers)
    }
    if not changed:
        return NO_CHANGES
    gone = {old[name].topic_id: name for name in changed if name in old}
    return TopicChanges(
        frozenset(changed),
        {topic_id: name for topic_id, name in gone.items() if topic_id not in after.names},
        has_created=any(new[name].topic_id not in before.names for name in changed if name in new),
    )


def _candidates(before: ClusterImage, after: ClusterImage) -> ChangedTopics:
    known = after.topics_changed_since(before)
    if known is not None:
        return known
    old, new = before.topics, after.topics
    changed = {name: None for name, topic in new.items() if old.get(name) is not topic}
    return {**changed, **{name: None for name in old if name not in new}}


def _has_same_shape(topic: Topic | None, before: Topic | None, numbers: Set[int] | None) -> bool:
    if topic is None or before is None:
        return topic is before
    return topic.has_shape_of(before, numbers)
