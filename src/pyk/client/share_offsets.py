"""Where share groups are in their partitions: read, set and forgotten."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pyk.client.cluster import Cluster
from pyk.client.connection import Connection, Unreachable
from pyk.client.coordinators import PASSING, ask_coordinators
from pyk.client.share_groups import check_offered
from pyk.client.topics import refusal
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from pyk.wire.apis import ApiKey
from pyk.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from pyk.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from pyk.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
)

UNKNOWN: Final = -1


class ShareOffset(NamedTuple):
    start: int | None
    """Before it all is done. None if nobody has fetched yet: where the group begins is then up to
    its `share.auto.offset.reset`."""
    leader_epoch: int
    lag: int | None
    """What is not done yet. None if it is not known: before Kafka 4.2 brokers do not say."""
    error: KafkaError | None = None


def fetch_share_offsets(
    cluster: Cluster, groups: Iterable[str]
) -> dict[str, dict[TopicPartition, ShareOffset] | KafkaError]:
    """Of all partitions that each group may read. A group that is not there has none."""

    def ask(
        coordinator: Connection, asked: list[str]
    ) -> dict[str, DescribeShareGroupOffsetsResponseGroup]:
        check_offered(coordinator, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)
        wanted = [
            DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in asked
        ]
        request = DescribeShareGroupOffsetsRequest(groups=wanted)
        answer = coordinator.ask(request, DescribeShareGroupOffsetsResponse)
        return {each.group_id: each for each in answer.groups}

    results = ask_coordinators(cluster, groups, ask, _error_of)
    return {
        group: found if isinstance(found, KafkaError) else _offsets(found)
        for group, found in results.items()
    }


def alter_share_offsets(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, KafkaError | None]:
    """What became of each. A group that is not there is made. Raise KafkaError if it is refused
    for the whole group, as it is to one with members."""
    by_topic: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = defaultdict(list)
    for (topic, number), offset in offsets.items():
        by_topic[topic].append(
            AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
        )

    def ask(coordinator: Connection, _: list[str]) -> dict[str, AlterShareGroupOffsetsResponse]:
        check_offered(coordinator, ApiKey.ALTER_SHARE_GROUP_OFFSETS)
        topics = [
            AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ]
        request = AlterShareGroupOffsetsRequest(group_id=group, topics=topics)
        return {group: coordinator.ask(request, AlterShareGroupOffsetsResponse)}

    def error_of(answer: AlterShareGroupOffsetsResponse) -> KafkaError | None:
        codes = [each.error_code for topic in answer.responses for each in topic.partitions]
        return refusal(answer.error_code, answer.error_message) or _passing(codes)

    answer = ask_coordinators(cluster, [group], ask, error_of)[group]
    if isinstance(answer, KafkaError):
        raise answer
    return {
        TopicPartition(topic.topic_name, each.partition_index): refusal(
            each.error_code, each.error_message
        )
        for topic in answer.responses
        for each in topic.partitions
    }


def delete_share_offsets(
    cluster: Cluster, group: str, topics: Iterable[str]
) -> dict[str, KafkaError | None]:
    """What became of each topic. Raise KafkaError if it is refused for the whole group."""
    wanted = list(dict.fromkeys(topics))
    is_unanswered = False

    def ask(coordinator: Connection, _: list[str]) -> dict[str, DeleteShareGroupOffsetsResponse]:
        nonlocal is_unanswered
        check_offered(coordinator, ApiKey.DELETE_SHARE_GROUP_OFFSETS)
        named = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in wanted]
        request = DeleteShareGroupOffsetsRequest(group_id=group, topics=named)
        try:
            return {group: coordinator.ask(request, DeleteShareGroupOffsetsResponse)}
        except Unreachable:
            is_unanswered = True
            raise

    def error_of(answer: DeleteShareGroupOffsetsResponse) -> KafkaError | None:
        codes = [each.error_code for each in answer.responses]
        return refusal(answer.error_code, answer.error_message) or _passing(codes)

    answer = ask_coordinators(cluster, [group], ask, error_of)[group]
    if isinstance(answer, KafkaError):
        raise answer
    # What the queue has nothing of, if the first answer was lost, has gone as it should.
    gone = {int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)} if is_unanswered else set[int]()
    found = {
        each.topic_name: None
        if each.error_code in gone
        else refusal(each.error_code, each.error_message)
        for each in answer.responses
    }
    return {name: found[name] for name in wanted}


def _error_of(found: DescribeShareGroupOffsetsResponseGroup) -> KafkaError | None:
    return refusal(found.error_code, found.error_message)


def _passing(codes: Iterable[int]) -> KafkaError | None:
    """An error of the coordinator, which each partition repeats."""
    given = set(codes)
    return next((KafkaError(code) for code in PASSING if code in given), None)


def _offsets(
    found: DescribeShareGroupOffsetsResponseGroup,
) -> dict[TopicPartition, ShareOffset]:
    return {
        TopicPartition(topic.topic_name, each.partition_index): _offset(each)
        for topic in found.topics
        for each in topic.partitions
    }


def _offset(found: DescribeShareGroupOffsetsResponsePartition) -> ShareOffset:
    error = refusal(found.error_code, found.error_message)
    return ShareOffset(
        None if found.start_offset == UNKNOWN or error else found.start_offset,
        found.leader_epoch,
        None if found.lag == UNKNOWN or error else found.lag,
        error,
    )
