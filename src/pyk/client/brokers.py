"""The brokers of a cluster, their features, and what they keep on their disks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyk.client.cluster import Cluster
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from pyk.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from pyk.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)


def describe_cluster(cluster: Cluster) -> DescribeClusterResponse:
    """Raise KafkaError."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=False)
    answer = cluster.ask(request, DescribeClusterResponse)
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), answer.error_message)
    return answer


def describe_log_dirs(
    cluster: Cluster, broker_id: int, partitions: Sequence[TopicPartition] | None = None
) -> list[DescribeLogDirsResult]:
    """The directories of a broker, with all partitions or only these. Raise KafkaError."""
    topics = None
    if partitions is not None:
        names = dict.fromkeys(partition.topic for partition in partitions)
        topics = [
            DescribableLogDirTopic(
                topic=name, partitions=[p.partition for p in partitions if p.topic == name]
            )
            for name in names
        ]
    request = DescribeLogDirsRequest(topics=topics)
    of_broker = partial(cluster.broker, broker_id)
    answer = cluster.ask(request, DescribeLogDirsResponse, of=of_broker)
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code))
    return answer.results
