"""DeleteRecords, v0-2: forget the records of a partition below an offset.

A partition that is there twice is answered once, for the offset that comes last.
"""

from __future__ import annotations

from typing import Final

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import INTERNAL_TOPICS, Context
from pyk.log.config import CleanupPolicy, LogConfig
from pyk.replication.partition import Partition
from pyk.replication.unused import Unused
from pyk.turns import Work, in_turns
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


async def handle(
    request: DeleteRecordsRequest, call: Call, broker: Context
) -> DeleteRecordsResponse:
    wanted = _wanted(request)
    refusals: dict[TopicPartition, KafkaError] = {}
    topics, is_dormant = broker.image.topics, broker.directory.is_dormant
    closed = [(topics[p.topic], p.partition) for p in wanted if p.topic in topics and is_dormant(p)]
    if closed:
        await broker.ensure_logs_in_time(closed)
    await in_turns(_begin(wanted, broker, refusals))
    try:
        # Also if they start there already: who asked for that may have been told of an error.
        await broker.checkpoints.write()
    except KafkaError as refusal:
        refusals = dict.fromkeys(wanted, refusal) | refusals
    return await in_turns(_answer(wanted, broker, refusals))


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


def _begin(
    wanted: dict[TopicPartition, int], broker: Context, refusals: dict[TopicPartition, KafkaError]
) -> Work[None]:
    """Let logs start where they shall, not yet durably. Why some do not is left in `refusals`."""
    for partition, offset in wanted.items():
        try:
            _advance(partition, offset, broker)
        except Exception as failure:
            refusals[partition] = broker.failures.refusal(failure, str(partition))
        yield


def _advance(partition: TopicPartition, offset: int, broker: Context) -> None:
    """Raise KafkaError."""
    found = broker.readable(*partition, [])
    if partition.topic in INTERNAL_TOPICS:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
        raise KafkaError(code, f"{partition.topic} is for the broker to write")
    if _config_of(found, broker).cleanup_policy == ONLY_COMPACTED:
        code = ErrorCode.POLICY_VIOLATION
        raise KafkaError(code, f"{partition.topic} keeps the last record of each key")
    if offset == HIGH_WATERMARK:
        offset = found.offsets.high_watermark
    if offset < 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"there is no offset {offset}")
    if isinstance(found, Partition):
        found.log.advance_start(offset)
    elif offset > 0:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{partition} is empty")


def _config_of(found: Partition | Unused, broker: Context) -> LogConfig:
    if isinstance(found, Partition):
        return found.log.config
    return LogConfig.of(broker.topic_config(found.partition.topic))


def _answer(
    wanted: dict[TopicPartition, int], broker: Context, refusals: dict[TopicPartition, KafkaError]
) -> Work[DeleteRecordsResponse]:
    results: dict[str, list[DeleteRecordsPartitionResult]] = {}
    for partition in wanted:
        results.setdefault(partition.topic, []).append(
            _refused(partition, refusals[partition])
            if partition in refusals
            else _deleted(partition, broker)
        )
        yield
    return _response(results)


def _deleted(partition: TopicPartition, broker: Context) -> DeleteRecordsPartitionResult:
    try:
        found = broker.readable(*partition, [])
    except KafkaError as refusal:
        return _refused(partition, refusal)
    return DeleteRecordsPartitionResult(
        partition_index=partition.partition, low_watermark=found.offsets.start
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
