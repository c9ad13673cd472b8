"""What a ShareGroupHeartbeat says: whether it may be said, and what of a member it changes."""

from __future__ import annotations

from msgspec.structs import replace

from pyk.coordinator.assigned import JOINING, LEAVING, Partitions, check_not_blank
from pyk.coordinator.group import Caller
from pyk.coordinator.share.member import Member
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    TopicPartitions,
)


def check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Raise KafkaError."""
    check_not_blank(request.member_id, "MemberId")
    check_not_blank(request.group_id, "GroupId")
    check_not_blank(request.rack_id, "RackId")
    if request.member_epoch == JOINING and not request.subscribed_topic_names:
        raise _invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVING:
        raise _invalid("MemberEpoch is invalid.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def check_epoch(member: Member, epoch: int) -> None:
    """Raise KafkaError if a member lives in another epoch than it is in.

    The one before is forgiven: it may not have heard the answer that told it of the next.
    """
    if epoch in (JOINING, member.epoch, member.previous_epoch):
        return
    if epoch > member.epoch:
        known = f"the group coordinator ({member.epoch})."
        compared = "greater"
    else:
        known = (
            f"the group coordinator ({member.epoch}), and it does not match the previous member "
            f"epoch ({member.previous_epoch})."
        )
        compared = "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The share group member has a {compared} member epoch ({epoch}) than the one known by "
        f"{known} The member must abandon all its partitions and rejoin.",
    )


def is_full(request: ShareGroupHeartbeatRequest) -> bool:
    """Whether a member says all of itself, and wants to hear all."""
    return request.member_epoch == JOINING or request.subscribed_topic_names is not None


def updated(member: Member, request: ShareGroupHeartbeatRequest, caller: Caller) -> Member:
    """The member as it describes itself now. What it does not mention stays."""
    names = request.subscribed_topic_names
    is_the_same = (member.client_id, member.client_host) == (caller.client_id, caller.host)
    if is_the_same and names is None and request.rack_id is None:
        return member
    after = replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=caller.client_id,
        client_host=caller.host,
        subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
    )
    return member if after == member else after


def assignment(assigned: Partitions) -> Assignment:
    """What a member is told to have."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in assigned.items()
        ]
    )
