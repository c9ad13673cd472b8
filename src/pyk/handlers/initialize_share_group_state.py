"""InitializeShareGroupState, v0: share partitions begin, or begin anew, at an offset."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.share_state_calls import Results, ask_each, refuse_each, respond
from pyk.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)

if TYPE_CHECKING:
    from pyk.coordinator.share_coordinator import Decide, SharePartitionKey


def handle(
    request: InitializeShareGroupStateRequest, call: Call, broker: Context
) -> InitializeShareGroupStateResponse | Awaitable[InitializeShareGroupStateResponse]:
    results = ask_each(request.group_id, request.topics, broker, _decide, _answered, _refused)
    return respond(results, _response)


def refuse(
    request: InitializeShareGroupStateRequest, refusal: KafkaError
) -> InitializeShareGroupStateResponse:
    return _response(refuse_each(request.topics, refusal, _refused))


def _decide(key: SharePartitionKey, asked: PartitionData) -> Decide:
    return lambda machine, ticket, now: machine.initialize(
        key, asked.state_epoch, asked.start_offset, ticket, now
    )


def _answered(asked: PartitionData, found: None) -> PartitionResult:
    return PartitionResult(partition=asked.partition)


def _refused(asked: PartitionData, refusal: KafkaError) -> PartitionResult:
    return PartitionResult(
        partition=asked.partition,
        error_code=refusal.code,
        error_message=str(refusal),
    )


def _response(results: Results[PartitionResult]) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(topic_id=topic_id, partitions=list(partitions.values()))
            for topic_id, partitions in results.items()
        ]
    )
