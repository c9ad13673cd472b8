"""WriteTxnMarkers, v1-2: partitions are told how a transaction has ended.

Coordinators of other brokers ask for it, and operators who end a transaction that hangs (KIP-664).
"""

from __future__ import annotations

from typing import Final

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.replication.partition import Marker
from pyk.types import TopicPartition
from pyk.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from pyk.wire.prefixed import ControlType

NOT_LED: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
_NOT_READY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a group's shard says, to somebody who knows of partitions only."""


async def handle(
    request: WriteTxnMarkersRequest, call: Call, broker: Context
) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[await _write(marker, broker) for marker in request.markers]
    )


def refuse(request: WriteTxnMarkersRequest, refusal: KafkaError) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            _result(each, refusal.code) for each in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


async def _write(wanted: WritableTxnMarker, broker: Context) -> WritableTxnMarkerResult:
    marker = Marker(
        producer_id=wanted.producer_id,
        producer_epoch=wanted.producer_epoch,
        outcome=ControlType.COMMIT if wanted.transaction_result else ControlType.ABORT,
        coordinator_epoch=wanted.coordinator_epoch,
        transaction_version=wanted.transaction_version,
    )
    await broker.transactions.markers.ensure_logs(
        TopicPartition(topic.name, number)
        for topic in wanted.topics
        for number in topic.partition_indexes
    )
    topics = []
    for topic in wanted.topics:
        results = [
            _result(number, await _outcome(TopicPartition(topic.name, number), marker, broker))
            for number in topic.partition_indexes
        ]
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=results))
    return WritableTxnMarkerResult(producer_id=wanted.producer_id, topics=topics)


async def _outcome(partition: TopicPartition, marker: Marker, broker: Context) -> ErrorCode:
    try:
        written = broker.transactions.markers.write(partition, marker)
        if not written.is_committed:
            await written.wait_committed()
    except KafkaError as refusal:
        return NOT_LED if refusal.code in _NOT_READY else refusal.code
    return ErrorCode.NONE


def _result(number: int, code: ErrorCode) -> WritableTxnMarkerPartitionResult:
    return WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
