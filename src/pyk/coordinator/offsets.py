"""The offsets that groups have committed, in one shard.

    group -> topic -> partition -> what was committed last

A record of the log is the state itself. Who may commit is for the group to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pyk.coordinator.group import Group
from pyk.coordinator.machine import Record
from pyk.errors import ErrorCode
from pyk.metadata.image import ClusterImage
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from pyk.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from pyk.wire.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from pyk.wire.payloads.offset_records import OffsetCommitKey, OffsetCommitValue

NONE: Final = -1
VALUE_VERSION: Final = 4
VALUE_VERSION_WITH_EXPIRY: Final = 1
"""The only one that can say when an offset expires, which clients ask for up to OffsetCommit v4."""

_MINUTE_MS: Final = 60_000


class Offsets:
    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, OffsetCommitValue]]] = {}

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def of(self, group_id: str) -> Mapping[str, Mapping[int, OffsetCommitValue]]:
        return self._groups.get(group_id, {})

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        if value is not None:
            topics = self._groups.setdefault(key.group, {})
            topics.setdefault(key.topic, {})[key.partition] = value
            return
        topics = self._groups.get(key.group, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
            if not topics:
                self._groups.pop(key.group, None)


def commit(
    request: OffsetCommitRequest, *, metadata_bytes_max: int, now_ms: int
) -> tuple[list[Record], OffsetCommitResponse]:
    """What a commit of these offsets writes, and how it is answered."""
    records, topics = [], []
    expires = request.retention_time_ms != NONE
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            error = ErrorCode.NONE
            if _length(metadata) > metadata_bytes_max:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                value = OffsetCommitValue(
                    offset=partition.committed_offset,
                    leader_epoch=partition.committed_leader_epoch,
                    metadata=metadata,
                    commit_timestamp=now_ms,
                    expire_timestamp=now_ms + request.retention_time_ms if expires else NONE,
                    topic_id=topic.topic_id,
                )
                key = OffsetCommitKey(
                    group=request.group_id, topic=topic.name, partition=partition.partition_index
                )
                version = VALUE_VERSION_WITH_EXPIRY if expires else VALUE_VERSION
                records.append(Record(key, value, version))
            partitions.append(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=error
                )
            )
        topics.append(
            OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return records, OffsetCommitResponse(topics=topics)


def fetched(
    committed: Mapping[str, Mapping[int, OffsetCommitValue]],
    topics: list[OffsetFetchRequestTopics] | None,
) -> list[OffsetFetchResponseTopics]:
    """What a group has committed of some partitions, or of all. What it has not is -1."""
    if topics is None:
        return [
            OffsetFetchResponseTopics(
                name=name,
                partitions=[_fetched(number, value) for number, value in partitions.items()],
            )
            for name, partitions in committed.items()
        ]
    found = []
    for topic in topics:
        partitions = committed.get(topic.name, {})
        found.append(
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    _fetched(number, partitions.get(number)) for number in topic.partition_indexes
                ],
            )
        )
    return found


def _fetched(number: int, value: OffsetCommitValue | None) -> OffsetFetchResponsePartitions:
    if value is None:
        return OffsetFetchResponsePartitions(
            partition_index=number, committed_offset=NONE, committed_leader_epoch=NONE, metadata=""
        )
    return OffsetFetchResponsePartitions(
        partition_index=number,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )


def delete(
    request: OffsetDeleteRequest,
    group: Group,
    committed: Mapping[str, Mapping[int, OffsetCommitValue]],
) -> tuple[list[Record], OffsetDeleteResponse]:
    """What deletes some of a group's offsets. Those of topics that it reads stay."""
    records, topics = [], []
    for topic in request.topics:
        is_read = group.is_subscribed_to(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        present = committed.get(topic.name, {})
        if not is_read:
            numbers = {partition.partition_index for partition in topic.partitions}
            deleted = sorted(numbers & present.keys())
            records += [tombstone(group.group_id, topic.name, number) for number in deleted]
        topics.append(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index, error_code=error
                    )
                    for partition in topic.partitions
                ],
            )
        )
    return records, OffsetDeleteResponse(topics=topics)


def tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)


def tombstones_of(
    group_id: str, committed: Mapping[str, Mapping[int, OffsetCommitValue]]
) -> Iterator[Record]:
    """What deletes all offsets of a group."""
    for topic, partitions in committed.items():
        for partition in partitions:
            yield tombstone(group_id, topic, partition)


def expired(
    group: Group,
    committed: Mapping[str, Mapping[int, OffsetCommitValue]],
    *,
    now_ms: int,
    retention_minutes: int,
) -> Iterator[Record]:
    """What deletes the offsets that are too old, as KIP-211 has it."""
    retention_ms = retention_minutes * _MINUTE_MS
    for topic, partitions in committed.items():
        if group.is_subscribed_to(topic):
            continue
        for partition, value in partitions.items():
            aged_from = group.offsets_age_from(value.commit_timestamp)
            if aged_from is None:
                continue
            # A client that gave a time of its own, as old ones may, is taken by its word.
            has_own = value.expire_timestamp != NONE
            if now_ms >= (value.expire_timestamp if has_own else aged_from + retention_ms):
                yield tombstone(group.group_id, topic, partition)


def of_deleted_topics(
    offsets: Offsets, before: ClusterImage, after: ClusterImage, group_ids: Iterator[str]
) -> Iterator[Record]:
    """What deletes the offsets of topics that are gone, or were made anew."""
    gone = {
        name
        for name, topic in before.topics.items()
        if name not in after.topics or after.topics[name].topic_id != topic.topic_id
    }
    if not gone:
        return
    for group_id in group_ids:
        for topic, partitions in offsets.of(group_id).items():
            if topic in gone:
                for partition in partitions:
                    yield tombstone(group_id, topic, partition)


def _length(text: str) -> int:
    """As Java counts: characters outside the basic plane are two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
