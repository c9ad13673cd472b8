"""Offsets by time: where partitions begin and end, and what they had at a moment."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from pyk.client.cluster import Cluster
from pyk.client.connection import Connection
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from pyk.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LATEST: Final = -1
EARLIEST: Final = -2


class Isolation(IntEnum):
    """Whether readers see what transactions have not committed."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, int | KafkaError]:
    """The first offset of each partition at or after a timestamp in milliseconds, or at LATEST or
    EARLIEST. -1 where nothing is as late as that."""

    def ask(
        leader: Connection, asked: dict[TopicPartition, int]
    ) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[ListOffsetsPartition(partition_index=number, timestamp=timestamp)],
            )
            for (topic, number), timestamp in asked.items()
        ]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics)
        answer = leader.ask(request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, found.partition_index): found
            for topic in answer.topics
            for found in topic.partitions
        }

    results = cluster.ask_leaders(timestamps, ask, _error)
    return {
        partition: found if isinstance(found, KafkaError) else found.offset
        for partition, found in results.items()
    }


def find_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> dict[TopicPartition, int]:
    """As `list_offsets`, where a partition without an answer is an error. Raise KafkaError."""
    found = {}
    for partition, offset in list_offsets(cluster, timestamps, isolation).items():
        if isinstance(offset, KafkaError):
            raise offset
        found[partition] = offset
    return found


def _error(found: ListOffsetsPartitionResponse) -> KafkaError | None:
    return KafkaError(ErrorCode(found.error_code)) if found.error_code else None
