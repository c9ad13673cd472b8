"""The range assignor: each topic is cut into runs of neighbouring partitions, one for each member.

Who has the first run of one topic has that of all, so that partitions of the same number of
topics that are alike meet in one member. Nothing that members had before matters.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyk.coordinator.assigned import Targets
from pyk.coordinator.consumer.assignors import Subscriber
from pyk.types import Uuid


def assign(members: Mapping[str, Subscriber], partition_counts: Mapping[Uuid, int]) -> Targets:
    in_order = sorted(members, key=lambda member_id: _rank(member_id, members[member_id]))
    targets: Targets = {member_id: {} for member_id in members}
    for topic_id, count in partition_counts.items():
        subscribers = [each for each in in_order if topic_id in members[each].topics]
        start = 0
        for position, member_id in enumerate(subscribers):
            size, longer = divmod(count, len(subscribers))
            end = start + size + (position < longer)
            if start < end:
                targets[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return targets


def _rank(member_id: str, member: Subscriber) -> tuple[bool, str]:
    """Static members come first, and by a name that they keep."""
    return member.instance_id is None, member.instance_id or member_id
