"""What classic consumers say to each other, which a broker reads and writes for those among them
that are in a consumer group: two bytes for the version, then the message."""

from __future__ import annotations

from typing import Final

from pyk.coordinator.assigned import NO_PARTITIONS, Partitions
from pyk.errors import ProtocolError
from pyk.metadata.image import ClusterImage
from pyk.types import FileSlice, Uuid
from pyk.wire.codec import decode, encode
from pyk.wire.messages.consumer_group_heartbeat import TopicPartitions
from pyk.wire.payloads.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

VERSION_BYTES: Final = 2
VERSION_MIN: Final = 0
VERSION_MAX: Final = 3
"""Later ones begin as this one does."""


def version_of(data: bytes) -> int:
    """Raise ProtocolError."""
    if len(data) < VERSION_BYTES:
        raise ProtocolError(f"{len(data)} bytes are too few to say their version")
    version = int.from_bytes(data[:VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"there is no version {version}")
    return min(version, VERSION_MAX)


def version_to_answer(metadata: bytes) -> int:
    """The version in which a member is told its assignment. The broker takes metadata without
    reading it, so that of a protocol which is chosen only later may be anything."""
    try:
        return version_of(metadata)
    except ProtocolError:
        return VERSION_MIN


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """Raise ProtocolError."""
    return decode(ConsumerProtocolSubscription, version_of(data), data[VERSION_BYTES:])


def owned_in(
    subscription: ConsumerProtocolSubscription, image: ClusterImage
) -> list[TopicPartitions]:
    """What a member says that it holds. Topics that are gone are held by nobody."""
    return [
        TopicPartitions(
            topic_id=image.topics[owned.topic].topic_id, partitions=list(owned.partitions)
        )
        for owned in subscription.owned_partitions
        if owned.topic in image.topics
    ]


def decode_assignment(data: bytes, image: ClusterImage) -> Partitions | None:
    """What a member was given, or None if it was told more than that. Raise ProtocolError."""
    if not data:
        return NO_PARTITIONS
    found = decode(ConsumerProtocolAssignment, version_of(data), data[VERSION_BYTES:])
    if found.user_data:
        return None
    partitions: dict[Uuid, frozenset[int]] = {}
    for given in found.assigned_partitions:
        if given.topic in image.topics and given.partitions:
            topic_id = image.topics[given.topic].topic_id
            partitions[topic_id] = partitions.get(topic_id, frozenset()) | {*given.partitions}
    return partitions


def encode_assignment(partitions: Partitions, version: int, image: ClusterImage) -> bytes:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            AssignedPartitions(topic=image.names[topic_id], partitions=sorted(numbers))
            for topic_id, numbers in partitions.items()
            if topic_id in image.names
        ],
        user_data=None,
    )
    chunks = encode(assignment, version)
    body = b"".join(bytes(chunk) for chunk in chunks if not isinstance(chunk, FileSlice))
    return version.to_bytes(VERSION_BYTES, "big") + body
