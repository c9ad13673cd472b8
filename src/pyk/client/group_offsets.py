"""What groups have committed: read, written and forgotten, by whoever is no member."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from pyk.client.cluster import Cluster
from pyk.client.connection import Connection
from pyk.client.coordinators import PASSING, ask_coordinators
from pyk.client.topics import refusal
from pyk.errors import KafkaError
from pyk.types import TopicPartition, Versions
from pyk.wire.apis import ApiKey
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from pyk.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from pyk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

_FETCH_BY_NAME: Final = Versions(8, 9)
"""Of many groups, and by the names of topics: later versions have ids, which go with a topic."""
_COMMIT_BY_NAME: Final = Versions(2, 9)
_COMMIT_WITH_RETENTION: Final = Versions(2, 4)
BROKERS_RETENTION: Final = -1
FOR_EVER_MS: Final = 100 * 365 * 86_400_000

Outcomes = dict[TopicPartition, KafkaError | None]
Asked = TypeVar("Asked")


class Committed(NamedTuple):
    offset: int
    leader_epoch: int | None
    metadata: str


def fetch_offsets(
    cluster: Cluster, groups: Iterable[str]
) -> dict[str, dict[TopicPartition, Committed] | KafkaError]:
    """All that each group has committed. A group that is not there has committed nothing."""

    def ask(coordinator: Connection, asked: list[str]) -> dict[str, OffsetFetchResponseGroup]:
        wanted = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in asked]
        request = OffsetFetchRequest(groups=wanted)
        version = coordinator.version_of(ApiKey.OFFSET_FETCH, _FETCH_BY_NAME)
        answer = coordinator.ask(request, OffsetFetchResponse, version=version)
        return {each.group_id: each for each in answer.groups}

    results = ask_coordinators(cluster, groups, ask, _error_of)
    return {
        group: found if isinstance(found, KafkaError) else _committed(found)
        for group, found in results.items()
    }


def commit_offsets(
    cluster: Cluster,
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    metadata: str = "",
    retention_ms: int | None = None,
) -> Outcomes:
    """What became of each. A group that is not there is made; one with members refuses. They are
    kept for that long, if it is given, whatever brokers are configured for. Raise KafkaError if
    its coordinator is not to be had."""

    def ask(coordinator: Connection, _: list[str]) -> dict[str, Outcomes | KafkaError]:
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offset,
                        committed_metadata=metadata,
                    )
                    for number, offset in numbered
                ],
            )
            for topic, numbered in _by_topic(offsets).items()
        ]
        request = OffsetCommitRequest(
            group_id=group,
            retention_time_ms=BROKERS_RETENTION if retention_ms is None else retention_ms,
            topics=topics,
        )
        versions = _COMMIT_BY_NAME if retention_ms is None else _COMMIT_WITH_RETENTION
        version = coordinator.version_of(ApiKey.OFFSET_COMMIT, versions)
        answer = coordinator.ask(request, OffsetCommitResponse, version=version)
        outcomes = {
            TopicPartition(topic.name, each.partition_index): refusal(each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }
        return {group: outcomes}

    return _outcomes(ask_coordinators(cluster, [group], ask, _passing), group)


def delete_offsets(cluster: Cluster, group: str, partitions: Iterable[TopicPartition]) -> Outcomes:
    """What became of each. Raise KafkaError if it is refused for the whole group."""
    wanted = dict.fromkeys(partitions)

    def ask(coordinator: Connection, _: list[str]) -> dict[str, Outcomes | KafkaError]:
        topics = [
            OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=number) for number, _ in numbered
                ],
            )
            for topic, numbered in _by_topic(wanted).items()
        ]
        request = OffsetDeleteRequest(group_id=group, topics=topics)
        answer = coordinator.ask(request, OffsetDeleteResponse)
        if error := refusal(answer.error_code):
            return {group: error}
        outcomes = {
            TopicPartition(topic.name, each.partition_index): refusal(each.error_code)
            for topic in answer.topics
            for each in topic.partitions
        }
        return {group: outcomes}

    return _outcomes(ask_coordinators(cluster, [group], ask, _passing), group)


def _committed(found: OffsetFetchResponseGroup) -> dict[TopicPartition, Committed]:
    return {
        TopicPartition(topic.name, each.partition_index): Committed(
            each.committed_offset,
            each.committed_leader_epoch if each.committed_leader_epoch >= 0 else None,
            each.metadata or "",
        )
        for topic in found.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


def _error_of(found: OffsetFetchResponseGroup) -> KafkaError | None:
    """Also of one partition: without it, what the group has committed is not known."""
    codes = (each.error_code for topic in found.topics for each in topic.partitions)
    return refusal(found.error_code or next(filter(None, codes), 0))


def _by_topic(of: Mapping[TopicPartition, Asked]) -> dict[str, list[tuple[int, Asked]]]:
    found: dict[str, list[tuple[int, Asked]]] = defaultdict(list)
    for (topic, number), asked in of.items():
        found[topic].append((number, asked))
    return found


def _passing(found: Outcomes | KafkaError) -> KafkaError | None:
    """An error of the coordinator, which each partition repeats."""
    if isinstance(found, KafkaError):
        return found
    return next((error for error in found.values() if error and error.code in PASSING), None)


def _outcomes(results: Mapping[str, Outcomes | KafkaError], group: str) -> Outcomes:
    found = results[group]
    if isinstance(found, KafkaError):
        raise found
    return found
