"""What an offset request writes, and how it is answered.

Who may commit is for the group to say. The state of a shard is in `committed`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from pyk.coordinator.committed import Offsets, tombstone
from pyk.coordinator.group import Group
from pyk.coordinator.machine import Payload, Record
from pyk.errors import ErrorCode
from pyk.metadata.image import ClusterImage
from pyk.turns import Work
from pyk.types import ZERO_UUID, TopicPartition, Uuid
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
    OffsetFetchRequestGroup,
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

ANSWERED_AT_ONCE: Final = 256
"""Partitions, before others may have their turn."""

_MINUTE_MS: Final = 60_000
_NEVER_MS: Final = 2**63 - 1
"""There is no later time."""


class Commit(NamedTuple):
    """The records that a commit writes, and its answer."""

    records: list[Record]
    response: Any
    payload: Payload | None = None
    """The records, if they are so many that they were encoded in turns."""
    image: ClusterImage | None = None
    """Of which the topics were taken."""


def commit(request: OffsetCommitRequest, *, metadata_bytes_max: int, now_ms: int) -> Commit:
    """What a commit of these offsets writes, and how it is answered."""
    records, topics = [], []
    expires = request.retention_time_ms != NONE
    expire_timestamp = min(now_ms + request.retention_time_ms, _NEVER_MS) if expires else NONE
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
                    expire_timestamp=expire_timestamp,
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
    return Commit(records, OffsetCommitResponse(topics=topics))


def commit_in_transaction(
    request: TxnOffsetCommitRequest, image: ClusterImage, *, metadata_bytes_max: int, now_ms: int
) -> Commit:
    """The same for one that counts when a transaction is committed. It goes by names."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic.name,
            topic_id=image.topics[topic.name].topic_id if topic.name in image.topics else ZERO_UUID,
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
    records, response, *_ = commit(
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
    return Commit(records, TxnOffsetCommitResponse(topics=answers))


def in_pieces(request: Any, commit_of: Callable[[Any], Commit]) -> Work[Commit]:
    """The same as `commit_of` makes of the request at once, some partitions at a time."""
    records, topics = list[Record](), list[Any]()
    response: Any = None
    for topic in request.topics:
        for start in range(0, len(topic.partitions), ANSWERED_AT_ONCE):
            some = topic.partitions[start : start + ANSWERED_AT_ONCE]
            made = commit_of(replace(request, topics=[replace(topic, partitions=some)]))
            records += made.records
            response, (answer,) = made.response, made.response.topics
            if start:
                topics[-1].partitions.extend(answer.partitions)
            else:
                topics.append(answer)
            yield
    return Commit(records, type(response)(topics=topics))


class Found(NamedTuple):
    """What a group had committed, of what was asked for, at one moment."""

    committed: Mapping[str, Mapping[int, OffsetCommitValue]]
    unstable: Collection[TopicPartition]
    """What waits for the end of a transaction. Who asks for it is to ask again."""


def found(offsets: Offsets, request: OffsetFetchRequestGroup, *, require_stable: bool) -> Found:
    committed, topics = offsets.of(request.group_id), request.topics
    pending = offsets.pending(request.group_id) if require_stable else ()
    if topics is None:
        every = {topic: dict(partitions) for topic, partitions in committed.items()}
        return Found(every, frozenset(pending))
    copied = dict[str, dict[int, OffsetCommitValue]]()
    unstable = set[TopicPartition]()
    for name, numbers in ((topic.name, topic.partition_indexes) for topic in topics):
        partitions = committed.get(name, {})
        known = copied.setdefault(name, {})
        if len(numbers) < len(partitions):
            known.update((n, partitions[n]) for n in numbers if n in partitions)
        else:
            known.update(partitions)
        if pending:
            asked = (TopicPartition(name, number) for number in numbers)
            unstable.update(partition for partition in asked if partition in pending)
    return Found(copied, unstable)


def fetched(
    found: Found, topics: list[OffsetFetchRequestTopics] | None
) -> Work[list[OffsetFetchResponseTopics]]:
    """What a group has committed of some partitions, or of all. What it has not is -1."""
    if topics is None:
        topics = [
            OffsetFetchRequestTopics(name=name, partition_indexes=list(partitions))
            for name, partitions in found.committed.items()
        ]
    answered = []
    for topic in topics:
        committed = found.committed.get(topic.name, {})
        partitions = list[OffsetFetchResponsePartitions]()
        for number in topic.partition_indexes:
            if found.unstable and TopicPartition(topic.name, number) in found.unstable:
                partitions.append(_unstable(number))
            else:
                partitions.append(_fetched(number, _if_of(topic.topic_id, committed.get(number))))
            if not len(partitions) % ANSWERED_AT_ONCE:
                yield
        yield
        answered.append(
            OffsetFetchResponseTopics(
                name=topic.name, topic_id=topic.topic_id, partitions=partitions
            )
        )
    return answered


def _unstable(number: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=number,
        committed_offset=NONE,
        committed_leader_epoch=NONE,
        metadata="",
        error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )


def _if_of(topic_id: Uuid, value: OffsetCommitValue | None) -> OffsetCommitValue | None:
    """Nothing if it was committed for another topic of that name than the client asks for."""
    if value is None or ZERO_UUID in (topic_id, value.topic_id) or value.topic_id == topic_id:
        return value
    return None


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
    known |= dict.fromkeys(offsets.pending(group_id))
    return list(known | dict.fromkeys(offsets.abandoned(group_id)))


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


def _length(text: str) -> int:
    """As Java counts: characters outside the basic plane are two."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
