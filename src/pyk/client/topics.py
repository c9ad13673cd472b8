"""Topics: made, extended, removed, and their oldest records forgotten."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pyk.client.cluster import BACKOFF, Cluster
from pyk.client.connection import Connection
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from pyk.wire.apis import ApiKey
from pyk.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from pyk.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from pyk.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from pyk.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

BROKERS_DEFAULT: Final = -1
"""As a number of partitions or replicas: what the broker is configured for."""
HIGH_WATERMARK: Final = -1
"""As an offset to delete before: everything that is there."""
_DELETE_BY_NAME_LAST: Final = 5


def create_topics(
    cluster: Cluster,
    names: Iterable[str],
    *,
    partitions: int = BROKERS_DEFAULT,
    replicas: int = BROKERS_DEFAULT,
    configs: Mapping[str, str] = {},
    validate_only: bool = False,
) -> dict[str, KafkaError | None]:
    """What became of each topic. Those that were created are seen by this client's broker, too."""
    wanted = list(names)
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=text) for key, text in configs.items()],
        )
        for name in wanted
    ]
    request = CreateTopicsRequest(
        topics=topics, timeout_ms=_timeout_ms(cluster), validate_only=validate_only
    )
    answer = cluster.ask(
        request, CreateTopicsResponse, of=cluster.controller, is_repeatable=validate_only
    )
    found = {each.name: refusal(each.error_code, each.error_message) for each in answer.topics}
    results = {name: found[name] for name in wanted}
    if not validate_only:
        _wait_until(cluster, _without_error(results), are_there=True)
    return results


def delete_topics(cluster: Cluster, names: Iterable[str]) -> dict[str, KafkaError | None]:
    """What became of each topic. Those that were deleted are gone for this client's broker, too."""
    wanted = list(names)
    by_name = cluster.controller().version_of(ApiKey.DELETE_TOPICS) <= _DELETE_BY_NAME_LAST
    request = DeleteTopicsRequest(
        topics=[] if by_name else [DeleteTopicState(name=name) for name in wanted],
        topic_names=wanted if by_name else [],
        timeout_ms=_timeout_ms(cluster),
    )
    answer = cluster.ask(request, DeleteTopicsResponse, of=cluster.controller, is_repeatable=False)
    found = {
        each.name or "": refusal(each.error_code, each.error_message) for each in answer.responses
    }
    results = {name: found[name] for name in wanted}
    _wait_until(cluster, _without_error(results), are_there=False)
    return results


def create_partitions(cluster: Cluster, topic: str, count: int) -> None:
    """Give a topic so many partitions in all. Raise KafkaError."""
    wanted = CreatePartitionsTopic(name=topic, count=count, assignments=None)
    request = CreatePartitionsRequest(
        topics=[wanted], timeout_ms=_timeout_ms(cluster), validate_only=False
    )
    answer = cluster.ask(
        request, CreatePartitionsResponse, of=cluster.controller, is_repeatable=False
    )
    (result,) = answer.results
    if error := refusal(result.error_code, result.error_message):
        raise error
    deadline = time.monotonic() + cluster.settings.patience
    while len(cluster.topic(topic, is_fresh=True).partitions) < count:
        if time.monotonic() > deadline:
            return
        time.sleep(BACKOFF)


def delete_records(
    cluster: Cluster, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Forget what is below an offset, or all that is committed. Where partitions begin then."""

    def ask(
        leader: Connection, asked: dict[TopicPartition, int]
    ) -> dict[TopicPartition, DeleteRecordsPartitionResult]:
        topics = [
            DeleteRecordsTopic(
                name=name,
                partitions=[DeleteRecordsPartition(partition_index=number, offset=offset)],
            )
            for (name, number), offset in asked.items()
        ]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=_timeout_ms(cluster))
        answer = leader.ask(request, DeleteRecordsResponse)
        return {
            TopicPartition(topic.name, found.partition_index): found
            for topic in answer.topics
            for found in topic.partitions
        }

    results = cluster.ask_leaders(before, ask, lambda found: refusal(found.error_code))
    return {
        partition: found if isinstance(found, KafkaError) else found.low_watermark
        for partition, found in results.items()
    }


def refusal(number: int, message: str | None = None) -> KafkaError | None:
    """What an error code in an answer means, if it is one."""
    return KafkaError(ErrorCode(number), message or None) if number else None


def _without_error(results: Mapping[str, KafkaError | None]) -> list[str]:
    return [name for name, error in results.items() if error is None]


def _wait_until(cluster: Cluster, names: Collection[str], *, are_there: bool) -> None:
    """The controller has decided; a broker hears of it a moment later."""
    deadline = time.monotonic() + cluster.settings.patience
    while names and time.monotonic() < deadline:
        found = cluster.metadata(names).topics
        if are_there:
            names = [t.name or "" for t in found if t.error_code]
        else:
            names = [t.name or "" for t in found if not t.error_code]
        if names:
            time.sleep(BACKOFF)


def _timeout_ms(cluster: Cluster) -> int:
    return int(cluster.settings.request_timeout * 1000)
