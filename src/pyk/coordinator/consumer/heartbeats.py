"""What a ConsumerGroupHeartbeat says: whether it may be said at all, and what of a member it
changes."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from pyk.coordinator.assigned import JOINING, LEAVING, check_not_blank
from pyk.coordinator.consumer.member import (
    LEAVING_FOR_A_WHILE,
    Assigned,
    Member,
    holds_only,
)
from pyk.coordinator.group import Caller
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)

MEMBERS_NAME_THEMSELVES_SINCE = 1
"""The first version in which a member that joins brings the id that it made for itself."""


def check_request(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Iterable[str]
) -> None:
    """Raise KafkaError."""
    epoch = request.member_epoch
    if version >= MEMBERS_NAME_THEMSELVES_SINCE or epoch > 0 or epoch == LEAVING:
        check_not_blank(request.member_id, "MemberId")
    check_not_blank(request.group_id, "GroupId")
    check_not_blank(request.instance_id, "InstanceId")
    check_not_blank(request.rack_id, "RackId")
    if epoch == JOINING:
        _check_join(request)
    elif epoch == LEAVING_FOR_A_WHILE and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < LEAVING_FOR_A_WHILE:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise _invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def check_epoch(member: Member, epoch: int, held: list[TopicPartitions] | None) -> None:
    """Raise KafkaError if a member lives in another epoch than it is in.

    The one before is forgiven to a member that holds nothing but what it has: it may not have heard
    the answer that told it of the next.
    """
    if epoch in (JOINING, member.epoch):
        return
    is_late = epoch == member.previous_epoch and epoch < member.epoch
    if is_late and held is not None and holds_only(held, member.assigned):
        return
    compared = "greater" if epoch > member.epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {compared} member epoch ({epoch}) than the one known by "
        f"the group coordinator ({member.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )


def check_instance_is_free(owner: Member, member_id: str, instance_id: str) -> None:
    """Raise KafkaError unless the member that has the instance has left it for a while."""
    if owner.epoch != LEAVING_FOR_A_WHILE:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {owner.member_id} member.",
        )


def check_instance_is_own(owner: Member | None, member_id: str, instance_id: str) -> Member:
    """The member that has the instance. Raise KafkaError if it is another one, or nobody."""
    if owner is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if owner.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{owner.member_id}.",
        )
    return owner


def is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a member says all of itself, and wants to hear all."""
    return request.member_epoch == JOINING or (
        request.rebalance_timeout_ms != -1
        and (
            request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        )
        and request.topic_partitions is not None
    )


def updated(member: Member, request: ConsumerGroupHeartbeatRequest, caller: Caller) -> Member:
    """The member as it describes itself now. What it does not mention stays."""
    is_the_same = (member.client_id, member.client_host) == (caller.client_id, caller.host)
    if is_the_same and member.classic is None and _says_nothing(request):
        return member
    names = request.subscribed_topic_names
    after = replace(
        member,
        instance_id=_said(request.instance_id, member.instance_id),
        rack_id=_said(request.rack_id, member.rack_id),
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms
        ),
        server_assignor=_said(request.server_assignor, member.server_assignor),
        subscribed_topic_names=member.subscribed_topic_names if names is None else frozenset(names),
        subscribed_topic_regex=(
            member.subscribed_topic_regex
            if request.subscribed_topic_regex is None
            else request.subscribed_topic_regex
        ),
        client_id=caller.client_id,
        client_host=caller.host,
        classic=None,
    )
    return member if after == member else after


def _says_nothing(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Which is what most heartbeats say."""
    return (
        request.instance_id is None
        and request.rack_id is None
        and request.rebalance_timeout_ms == -1
        and request.server_assignor is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
    )


def _said(now: str | None, before: str | None) -> str | None:
    return before if now is None else now


def assignment(assigned: Assigned) -> Assignment:
    """What a member is told to have."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(epochs))
            for topic_id, epochs in assigned.items()
        ]
    )
