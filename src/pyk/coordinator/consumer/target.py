"""A new target for a group: what each of its members should have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyk.coordinator.assigned import Targets, TopicIds
from pyk.coordinator.consumer import range, uniform
from pyk.coordinator.consumer.assignors import RANGE, UNIFORM, Assignor, Subscriber
from pyk.coordinator.consumer.group import ConsumerGroup
from pyk.coordinator.consumer.member import Member
from pyk.metadata.image import ClusterImage

ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: uniform.assign, RANGE: range.assign}


def new_targets(group: ConsumerGroup, after: Member, assignor: str, image: ClusterImage) -> Targets:
    """By the ids of all members, of which one is now as it is `after` its heartbeat.

    It may be new, or the same instance as a member that it takes the place of.
    """
    replaced = predecessor(group, after)
    members = {each.member_id: each for each in group.members.values()}
    members.pop(replaced, None)
    members[after.member_id] = after
    topics = TopicIds(image)
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
