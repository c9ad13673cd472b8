"""How a share group is described."""

from __future__ import annotations

from pyk.coordinator.assigned import Partitions
from pyk.coordinator.share.assignor import SIMPLE
from pyk.coordinator.share.group import ShareGroup
from pyk.coordinator.share.member import Member
from pyk.metadata.image import ClusterImage
from pyk.wire.messages import share_group_describe as wire


def described(
    group: ShareGroup, image: ClusterImage, authorized_operations: int
) -> wire.DescribedGroup:
    return wire.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=SIMPLE,
        members=[_member(member, image) for member in group.members.values()],
        authorized_operations=authorized_operations,
    )


def _member(member: Member, image: ClusterImage) -> wire.Member:
    return wire.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        assignment=_assignment(member.assigned, image),
    )


def _assignment(partitions: Partitions, image: ClusterImage) -> wire.Assignment:
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
