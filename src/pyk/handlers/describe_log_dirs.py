"""DescribeLogDirs, v1-5: a broker's directories, and the partitions and bytes in them.

A partition whose log nobody has written to may have no files yet. It is there all the same, with
no bytes. Logs that are dormant stay so.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.turns import Work, answered
from pyk.types import TopicPartition
from pyk.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

UNKNOWN: Final = -1


class Space(NamedTuple):
    """Of the file system that a directory is on."""

    total_bytes: int
    usable_bytes: int


def handle(
    request: DescribeLogDirsRequest, call: Call, broker: Context
) -> DescribeLogDirsResponse | Awaitable[DescribeLogDirsResponse]:
    return answered(_answer(request, broker))


def _answer(request: DescribeLogDirsRequest, broker: Context) -> Work[DescribeLogDirsResponse]:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in _asked(request, broker):
        if _is_here(partition, broker):
            topics.setdefault(partition.topic, []).append(_described(partition, broker))
        yield
    path = broker.directory.path
    space = space_of(path)
    result = DescribeLogDirsResult(
        log_dir=os.path.abspath(path),
        topics=[
            DescribeLogDirsTopic(name=name, partitions=partitions)
            for name, partitions in topics.items()
        ],
        total_bytes=space.total_bytes,
        usable_bytes=space.usable_bytes,
    )
    return DescribeLogDirsResponse(results=[result])


def refuse(request: DescribeLogDirsRequest, refusal: KafkaError) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(error_code=refusal.code, results=[])


def space_of(path: Path) -> Space:
    try:
        found = os.statvfs(path)
    except OSError:
        return Space(UNKNOWN, UNKNOWN)
    return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def _asked(request: DescribeLogDirsRequest, broker: Context) -> Iterable[TopicPartition]:
    """Each once. Without a list of topics, all of them."""
    if request.topics is None:
        return (
            TopicPartition(topic.name, number)
            for topic in broker.image.topics.values()
            for number in range(len(topic.partitions))
        )
    return dict.fromkeys(
        TopicPartition(topic.topic, number)
        for topic in request.topics
        for number in topic.partitions
    )


def _is_here(partition: TopicPartition, broker: Context) -> bool:
    topic = broker.image.topics.get(partition.topic)
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        return False
    return broker.node_id in topic.partitions[partition.partition].replicas


def _described(partition: TopicPartition, broker: Context) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=partition.partition,
        partition_size=broker.directory.size(partition),
        offset_lag=0,
        is_future_key=False,
    )
