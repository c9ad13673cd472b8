"""A new target for a group: what each of its members should have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pyk.coordinator.consumer import range, uniform
from pyk.coordinator.consumer.assignors import RANGE, UNIFORM, Assignor, Subscriber, Targets
from pyk.coordinator.consumer.group import NEVER, ConsumerGroup
from pyk.coordinator.consumer.member import Member
from pyk.metadata.image import ClusterImage
from pyk.types import Uuid

ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: uniform.assign, RANGE: range.assign}


def may_be_made(group: ConsumerGroup, interval_ms: int, now_ms: int) -> bool:
    """Whether the last one is old enough: who joins in the meantime is assigned with the others.

    A time that is still to come means that somebody has set the clock back.
    """
    if group.target_timestamp == NEVER:
        return True
    return not 0 <= now_ms - group.target_timestamp < interval_ms


def new_targets(group: ConsumerGroup, after: Member, assignor: str, image: ClusterImage) -> Targets:
    """By the ids of all members, of which one is now as it is `after` its heartbeat.

    It may be new, or the same instance as a member that it takes the place of.
    """
    replaced = predecessor(group, after)
    members = {each.member_id: each for each in group.members.values()}
    members.pop(replaced, None)
    members[after.member_id] = after
    topics = _TopicIds(image)
    subscribers = {
        member_id: Subscriber(
            topics.of(group.topics_of(member)),
            group.targets.get(replaced if member is after else member_id, {}),
            member.instance_id,
        )
        for member_id, member in members.items()
    }
    counts = {
        topic_id: len(image.topics[image.names[topic_id]].partitions)
        for topic_id in sorted(set().union(*(each.topics for each in subscribers.values())))
    }
    return ASSIGNORS[assignor](subscribers, counts)


def predecessor(group: ConsumerGroup, member: Member) -> str:
    """The id of the member whose target a member inherits: mostly its own."""
    if member.instance_id is None:
        return member.member_id
    return group.static_members.get(member.instance_id, member.member_id)


class _TopicIds:
    """Those of subscriptions, of which a group has few that differ."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._known: dict[frozenset[str], frozenset[Uuid]] = {}

    def of(self, names: frozenset[str]) -> frozenset[Uuid]:
        known = self._known.get(names)
        if known is None:
            known = self._known[names] = topic_ids(names, self._image)
        return known


def topic_ids(names: Iterable[str], image: ClusterImage) -> frozenset[Uuid]:
    """Of those that there are."""
    return frozenset(image.topics[name].topic_id for name in names if name in image.topics)
