"""DeleteRecords, v0-2: forget the records of a partition below an offset.

A partition that is there twice is answered once, for the offset that comes last.
"""

from __future__ import annotations

from typing import Final

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import INTERNAL_TOPICS, Context
from pyk.log.config import CleanupPolicy
from pyk.types import TopicPartition
from pyk.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK: Final = -1
UNKNOWN: Final = -1
ONLY_COMPACTED: Final = frozenset({CleanupPolicy.COMPACT})


def handle(request: DeleteRecordsRequest, call: Call, broker: Context) -> DeleteRecordsResponse:
    results: dict[str, list[DeleteRecordsPartitionResult]] = {}
    for partition, offset in _wanted(request).items():
        results.setdefault(partition.topic, []).append(_delete(partition, offset, broker))
    return _response(results)


def refuse(request: DeleteRecordsRequest, refusal: KafkaError) -> DeleteRecordsResponse:
    results: dict[str, list[DeleteRecordsPartitionResult]] = {}
    for partition in _wanted(request):
        results.setdefault(partition.topic, []).append(_refused(partition, refusal))
    return _response(results)


def _wanted(request: DeleteRecordsRequest) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name, each.partition_index): each.offset
        for topic in request.topics
        for each in topic.partitions
    }


def _delete(
    partition: TopicPartition, offset: int, broker: Context
) -> DeleteRecordsPartitionResult:
    try:
        led = broker.leader_of(*partition)
        if partition.topic in INTERNAL_TOPICS:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION
            raise KafkaError(code, f"{partition.topic} is for the broker to write")
        if led.log.config.cleanup_policy == ONLY_COMPACTED:
            code = ErrorCode.POLICY_VIOLATION
            raise KafkaError(code, f"{partition.topic} keeps the last record of each key")
        if offset == HIGH_WATERMARK:
            offset = led.offsets.high_watermark
        if offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"there is no offset {offset}")
        broker.directory.delete_records(partition, offset)
    except KafkaError as refusal:
        return _refused(partition, refusal)
    return DeleteRecordsPartitionResult(
        partition_index=partition.partition, low_watermark=led.offsets.start
    )


def _refused(partition: TopicPartition, refusal: KafkaError) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=partition.partition, low_watermark=UNKNOWN, error_code=refusal.code
    )


def _response(results: dict[str, list[DeleteRecordsPartitionResult]]) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=name, partitions=partitions)
            for name, partitions in results.items()
        ]
    )
