"""ReadShareGroupStateSummary, v0-1: where share partitions are, for whoever tells people."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.share_state_calls import Results, ask_each, refuse_each, respond, says_all
from pyk.wire.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from pyk.coordinator.share_coordinator import Decide, SharePartitionKey, Summary


def handle(
    request: ReadShareGroupStateSummaryRequest, call: Call, broker: Context
) -> ReadShareGroupStateSummaryResponse | Awaitable[ReadShareGroupStateSummaryResponse]:
    if not says_all(request.topics):
        return ReadShareGroupStateSummaryResponse(results=[])
    results = ask_each(request.group_id, request.topics, broker, _decide, _answered, _refused)
    return respond(results, _response)


def refuse(
    request: ReadShareGroupStateSummaryRequest, refusal: KafkaError
) -> ReadShareGroupStateSummaryResponse:
    return _response(refuse_each(request.topics, refusal, _refused))


def _decide(key: SharePartitionKey, asked: PartitionData) -> Decide:
    return lambda machine, ticket, now: machine.summary(key, ticket, now)


def _answered(asked: PartitionData, found: Summary) -> PartitionResult:
    return PartitionResult(
        partition=asked.partition,
        state_epoch=found.state_epoch,
        leader_epoch=found.leader_epoch,
        start_offset=found.start_offset,
        delivery_complete_count=found.delivery_complete_count,
    )


def _refused(asked: PartitionData, refusal: KafkaError) -> PartitionResult:
    return PartitionResult(
        partition=asked.partition,
        error_code=refusal.code,
        error_message=str(refusal),
        state_epoch=0,
        leader_epoch=0,
        start_offset=0,
    )


def _response(results: Results[PartitionResult]) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(topic_id=topic_id, partitions=list(partitions.values()))
            for topic_id, partitions in results.items()
        ]
    )
