"""A member of a share group, as its records describe it.

Values are frozen: a member changes by being replaced, when a record is applied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pyk.coordinator.assigned import JOINING, LEAVING, NO_PARTITIONS, Partitions
from pyk.types import Uuid
from pyk.wire.payloads.share_group_records import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    TopicPartitions,
)

STABLE: Final = 0
"""Kafka's number for the state that all members of share groups are in: nothing is given back."""


class Member(Struct, frozen=True, kw_only=True):
    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()

    epoch: int = JOINING
    previous_epoch: int = -1
    assigned: Partitions = NO_PARTITIONS

    def described_by(self, value: ShareGroupMemberMetadataValue) -> Member:
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
        )

    def placed_by(self, value: ShareGroupCurrentMemberAssignmentValue) -> Member:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            assigned=_by_topic(value.assigned_partitions),
        )

    def displaced(self) -> Member:
        """Without a place, as it is between the two tombstones that remove it."""
        return replace(self, epoch=LEAVING, previous_epoch=LEAVING, assigned=NO_PARTITIONS)

    def moved(self, epoch: int, target: Partitions, topics: frozenset[Uuid]) -> Member:
        """In the epoch of a target, with what it may have of it: that of topics which it
        subscribes to."""
        return replace(
            self,
            epoch=epoch,
            previous_epoch=self.epoch if epoch != self.epoch else self.previous_epoch,
            assigned={t: numbers for t, numbers in target.items() if t in topics},
        )


def _by_topic(topics: Iterable[TopicPartitions]) -> Partitions:
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}
