"""The offsets that groups have committed, in one shard.

    group -> topic -> partition -> what was committed last

A record of the log is the state itself. Who may commit is for the group to say. What is committed
in a transaction is pending until that ends. Then the later of two commits counts, by their places
in the log and not by when their transactions ended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from pyk.coordinator.group import Group
from pyk.coordinator.machine import Record
from pyk.declared import NamedTuple
from pyk.errors import ErrorCode
from pyk.metadata.image import ClusterImage
from pyk.types import TopicPartition
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
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
from pyk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from pyk.wire.payloads.offset_records import OffsetCommitKey, OffsetCommitValue

NONE: Final = -1
VALUE_VERSION: Final = 4
VALUE_VERSION_WITH_EXPIRY: Final = 1
"""The only one that can say when an offset expires, which clients ask for up to OffsetCommit v4."""

_MINUTE_MS: Final = 60_000


class _Pending(NamedTuple):
    order: int
    """Its place among all commits."""
    value: OffsetCommitValue | None
    """None if there was a later commit: it will not count."""


class Offsets:
    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, OffsetCommitValue]]] = {}
        self._pending: dict[str, dict[TopicPartition, dict[int, _Pending]]] = {}
        """By group, by partition, and by producer."""
        self._written: dict[int, set[tuple[str, TopicPartition]]] = {}
        """What is pending, by producer."""
        self._last_order = 0

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def of(self, group_id: str) -> Mapping[str, Mapping[int, OffsetCommitValue]]:
        return self._groups.get(group_id, {})

    def pending(self, group_id: str) -> Collection[TopicPartition]:
        """What of the group waits for the end of a transaction."""
        return self._pending.get(group_id, {}).keys()

    def apply_pending(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int
    ) -> None:
        """It counts once the producer's transaction is committed."""
        self._last_order += 1
        partition = TopicPartition(key.topic, key.partition)
        of_group = self._pending.setdefault(key.group, {})
        pending = _Pending(self._last_order, value)
        of_group.setdefault(partition, {})[producer_id] = pending
        self._written.setdefault(producer_id, set()).add((key.group, partition))

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        for group_id, partition in self._written.pop(producer_id, ()):
            of_group = self._pending[group_id]
            pending = of_group[partition].pop(producer_id)
            if is_commit and pending.value is not None:
                self._supersede(group_id, partition, pending.order)
                self._put(group_id, partition, pending.value)
            if not of_group[partition]:
                del of_group[partition]
            if not of_group:
                del self._pending[group_id]

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        self._last_order += 1
        partition = TopicPartition(key.topic, key.partition)
        if key.group in self._pending:
            if value is None:
                self._forget_pending(key.group, partition)
            else:
                self._supersede(key.group, partition, self._last_order)
        self._put(key.group, partition, value)

    def _supersede(self, group_id: str, partition: TopicPartition, order: int) -> None:
        pending = self._pending[group_id].get(partition, {})
        for producer_id, each in pending.items():
            if each.order < order:
                pending[producer_id] = each._replace(value=None)

    def _forget_pending(self, group_id: str, partition: TopicPartition) -> None:
        of_group = self._pending[group_id]
        for producer_id in of_group.pop(partition, {}):
            self._written[producer_id].discard((group_id, partition))
        if not of_group:
            del self._pending[group_id]

    def _put(
        self, group_id: str, partition: TopicPartition, value: OffsetCommitValue | None
    ) -> None:
        topic, number = partition
        if value is not None:
            topics = self._groups.setdefault(group_id, {})
            topics.setdefault(topic, {})[number] = value
            return
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(number, None)
        if not partitions:
            topics.pop(topic, None)
            if not topics:
                self._groups.pop(group_id, None)


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


def commit_in_transaction(
    request: TxnOffsetCommitRequest, *, metadata_bytes_max: int, now_ms: int
) -> tuple[list[Record], TxnOffsetCommitResponse]:
    """The same for one that counts when a transaction is committed."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic.name,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    committed_metadata=each.committed_metadata,
                )
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    records, response = commit(
        OffsetCommitRequest(group_id=request.group_id, topics=topics),
        metadata_bytes_max=metadata_bytes_max,
        now_ms=now_ms,
    )
    answers = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(
                    partition_index=each.partition_index, error_code=each.error_code
                )
                for each in topic.partitions
            ],
        )
        for topic in response.topics
    ]
    return records, TxnOffsetCommitResponse(topics=answers)


def fetched(
    committed: Mapping[str, Mapping[int, OffsetCommitValue]],
    topics: list[OffsetFetchRequestTopics] | None,
    unstable: Collection[TopicPartition] = (),
) -> list[OffsetFetchResponseTopics]:
    """What a group has committed of some partitions, or of all. What it has not is -1. Those who
    ask are to ask again for what is unstable."""

    def answer(
        topic: str, number: int, value: OffsetCommitValue | None
    ) -> OffsetFetchResponsePartitions:
        if TopicPartition(topic, number) in unstable:
            return OffsetFetchResponsePartitions(
                partition_index=number,
                committed_offset=NONE,
                committed_leader_epoch=NONE,
                metadata="",
                error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
            )
        return _fetched(number, value)

    if topics is None:
        return [
            OffsetFetchResponseTopics(
                name=name,
                partitions=[answer(name, number, value) for number, value in partitions.items()],
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
                    answer(topic.name, number, partitions.get(number))
                    for number in topic.partition_indexes
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
    pending: Collection[TopicPartition] = (),
) -> tuple[list[Record], OffsetDeleteResponse]:
    """What deletes some of a group's offsets. Those of topics that it reads stay."""
    records, topics = [], []
    for topic in request.topics:
        is_read = group.is_subscribed_to(topic.name)
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
        present = committed.get(topic.name, {})
        if not is_read:
            numbers = {partition.partition_index for partition in topic.partitions}
            waiting = {each.partition for each in pending if each.topic == topic.name}
            deleted = sorted(numbers & (present.keys() | waiting))
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


def tombstones_of(group_id: str, offsets: Offsets) -> Iterator[Record]:
    """What deletes all offsets of a group, those that are pending too."""
    for topic, number in _known_of(group_id, offsets):
        yield tombstone(group_id, topic, number)


def _known_of(group_id: str, offsets: Offsets) -> list[TopicPartition]:
    known = dict.fromkeys(
        TopicPartition(topic, number)
        for topic, partitions in offsets.of(group_id).items()
        for number in partitions
    )
    return list(known | dict.fromkeys(offsets.pending(group_id)))


def expired(
    group: Group,
    committed: Mapping[str, Mapping[int, OffsetCommitValue]],
    *,
    now_ms: int,
    retention_minutes: int,
    pending: Collection[TopicPartition] = (),
) -> Iterator[Record]:
    """What deletes the offsets that are too old, as KIP-211 has it."""
    retention_ms = retention_minutes * _MINUTE_MS
    for topic, partitions in committed.items():
        if group.is_subscribed_to(topic):
            continue
        for partition, value in partitions.items():
            aged_from = group.offsets_age_from(value.commit_timestamp)
            if aged_from is None or TopicPartition(topic, partition) in pending:
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
        for topic, number in _known_of(group_id, offsets):
            if topic in gone:
                yield tombstone(group_id, topic, number)


def _length(text: str) -> int:
    """As Java counts: characters outside the basic plane are two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
