"""How the topics of one image differ from those of an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pyk.metadata.image import ClusterImage
from pyk.types import Uuid


class TopicChanges(NamedTuple):
    names: frozenset[str]
    """Of all topics that were created, deleted or altered, or made anew under the same name."""
    deleted: Mapping[Uuid, str]
    """By the ids that no topic has any more, the names that they had."""
    has_created: bool


NO_CHANGES: Final = TopicChanges(frozenset(), {}, has_created=False)


def topic_changes(before: ClusterImage, after: ClusterImage) -> TopicChanges:
    if after.topics is before.topics:
        return NO_CHANGES
    old, new = before.topics, after.topics
    changed = {name for name, topic in new.items() if old.get(name) is not topic}
    changed.update(name for name in old if name not in new)
    return TopicChanges(
        frozenset(changed),
        {
            topic_id: name
            for topic_id, name in before.names.items()
            if name in changed and topic_id not in after.names
        },
        has_created=any(topic_id not in before.names for topic_id in after.names),
    )
