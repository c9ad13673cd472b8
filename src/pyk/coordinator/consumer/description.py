"""How a consumer group is described."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyk.coordinator.assigned import Partitions
from pyk.coordinator.consumer.group import ConsumerGroup
from pyk.coordinator.consumer.member import Member
from pyk.metadata.image import ClusterImage
from pyk.types import Uuid
from pyk.wire.messages import consumer_group_describe as wire

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def described(
    group: ConsumerGroup, assignor: str, image: ClusterImage, authorized_operations: int
) -> wire.DescribedGroup:
    return wire.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=assignor,
        members=[
            _member(member, group.targets.get(member.member_id, {}), image)
            for member in group.members.values()
        ],
        authorized_operations=authorized_operations,
    )


def _member(member: Member, target: Partitions, image: ClusterImage) -> wire.Member:
    held: dict[Uuid, set[int]] = {}
    for part in (member.assigned, member.pending_revocation):
        for topic_id, epochs in part.items():
            held.setdefault(topic_id, set()).update(epochs)
    return wire.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(held, image),
        target_assignment=_assignment(target, image),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[Uuid, Iterable[int]], image: ClusterImage) -> wire.Assignment:
    """A topic that is gone has no name to be shown by."""
    return wire.Assignment(
        topic_partitions=[
            wire.TopicPartitions(
                topic_id=topic_id, topic_name=image.names[topic_id], partitions=sorted(numbers)
            )
            for topic_id, numbers in partitions.items()
            if topic_id in image.names
        ]
    )
