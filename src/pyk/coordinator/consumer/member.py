"""A member of a consumer group, as its records describe it.

    STABLE                  it has what its epoch gives it
    UNREVOKED_PARTITIONS    it has to give some back first, and to say so
    UNRELEASED_PARTITIONS   others have to give some back that it will get

Values are frozen: a member changes by being replaced, when a record is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pyk.coordinator.assigned import JOINING, LEAVING
from pyk.types import Uuid
from pyk.wire.messages.consumer_group_heartbeat import TopicPartitions as HeldPartitions
from pyk.wire.payloads.consumer_group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TopicPartitions,
)

LEAVING_FOR_A_WHILE: Final = -2
"""The epoch of a static member that will be back, and keeps its partitions until then."""

Assigned: TypeAlias = Mapping[Uuid, Mapping[int, int]]
"""What a member has, and the epoch in which it got each partition."""


class MemberState(IntEnum):
    """Kafka's numbers for them."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127
    """A later broker wrote something that this one does not know."""

    @classmethod
    def _missing_(cls, value: object) -> MemberState:
        return cls.UNKNOWN


class Member(Struct, frozen=True, kw_only=True):
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None
    """What a member said that speaks the classic protocol, inside a consumer group."""

    epoch: int = JOINING
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assigned = {}
    pending_revocation: Assigned = {}

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch

    def described_by(self, value: ConsumerGroupMemberMetadataValue) -> Member:
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def placed_by(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> Member:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=_by_topic(value.assigned_partitions, value.member_epoch),
            pending_revocation=_by_topic(value.partitions_pending_revocation, value.member_epoch),
        )

    def displaced(self) -> Member:
        """Without a place, as it is between the two tombstones that remove it."""
        return replace(
            self, epoch=LEAVING, previous_epoch=LEAVING, assigned={}, pending_revocation={}
        )


def _by_topic(topics: Iterable[TopicPartitions], member_epoch: int) -> Assigned:
    """Before 4.1 brokers did not write down since when, and the member's epoch is as good."""
    found = {}
    for topic in topics:
        numbers, epochs = topic.partitions, topic.assignment_epochs
        if epochs and len(epochs) == len(numbers):
            found[topic.topic_id] = dict(zip(numbers, epochs))  # noqa: B905
        else:
            found[topic.topic_id] = dict.fromkeys(numbers, member_epoch)
    return found


def holds_any(held: Iterable[HeldPartitions], of: Assigned) -> bool:
    """Whether a member that says what it holds has any of these."""
    return any(
        partition in of[topic.topic_id]
        for topic in held
        if topic.topic_id in of
        for partition in topic.partitions
    )


def holds_only(held: Iterable[HeldPartitions], of: Assigned) -> bool:
    return all(
        topic.topic_id in of
        and all(partition in of[topic.topic_id] for partition in topic.partitions)
        for topic in held
    )
