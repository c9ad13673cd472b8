"""ReadShareGroupState, v0: the state of share partitions, for their leader."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.share_state_calls import Results, ask_each, refuse_each, respond, says_all
from pyk.wire.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

if TYPE_CHECKING:
    from pyk.coordinator.share_coordinator import Decide, SharePartitionKey, ShareState


def handle(
    request: ReadShareGroupStateRequest, call: Call, broker: Context
) -> ReadShareGroupStateResponse | Awaitable[ReadShareGroupStateResponse]:
    if not says_all(request.topics):
        return ReadShareGroupStateResponse(results=[])
    results = ask_each(request.group_id, request.topics, broker, _decide, _answered, _refused)
    return respond(results, _response)


def refuse(request: ReadShareGroupStateRequest, refusal: KafkaError) -> ReadShareGroupStateResponse:
    return _response(refuse_each(request.topics, refusal, _refused))


def _decide(key: SharePartitionKey, asked: PartitionData) -> Decide:
    return lambda machine, ticket, now: machine.read(key, asked.leader_epoch, ticket, now)


def _answered(asked: PartitionData, found: ShareState) -> PartitionResult:
    return PartitionResult(
        partition=asked.partition,
        state_epoch=found.state_epoch,
        start_offset=found.start_offset,
        state_batches=[
            StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
            )
            for first, last, state, count in found.batches
        ],
    )


def _refused(asked: PartitionData, refusal: KafkaError) -> PartitionResult:
    return PartitionResult(
        partition=asked.partition,
        error_code=refusal.code,
        error_message=str(refusal),
        state_epoch=0,
        start_offset=0,
        state_batches=[],
    )


def _response(results: Results[PartitionResult]) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(topic_id=topic_id, partitions=list(partitions.values()))
            for topic_id, partitions in results.items()
        ]
    )
