"""WriteShareGroupState, v0-1: the leader of share partitions has its progress kept."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pyk.coordinator.share_state.batches import StateBatch
from pyk.coordinator.share_state.state import Progress
from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.share_state_calls import Results, ask_each, refuse_each, respond, says_all
from pyk.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

if TYPE_CHECKING:
    from pyk.coordinator.share_coordinator import Decide, SharePartitionKey


def handle(
    request: WriteShareGroupStateRequest, call: Call, broker: Context
) -> WriteShareGroupStateResponse | Awaitable[WriteShareGroupStateResponse]:
    if not says_all(request.topics):
        return WriteShareGroupStateResponse(results=[])
    results = ask_each(request.group_id, request.topics, broker, _decide, _answered, _refused)
    return respond(results, _response)


def refuse(
    request: WriteShareGroupStateRequest, refusal: KafkaError
) -> WriteShareGroupStateResponse:
    return _response(refuse_each(request.topics, refusal, _refused))


def _decide(key: SharePartitionKey, asked: PartitionData) -> Decide:
    progress = Progress(
        asked.state_epoch,
        asked.leader_epoch,
        asked.start_offset,
        asked.delivery_complete_count,
        tuple(
            StateBatch(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
            for b in asked.state_batches
        ),
    )
    return lambda machine, ticket, now: machine.write(key, progress, ticket, now)


def _answered(asked: PartitionData, found: None) -> PartitionResult:
    return PartitionResult(partition=asked.partition)


def _refused(asked: PartitionData, refusal: KafkaError) -> PartitionResult:
    return PartitionResult(
        partition=asked.partition,
        error_code=refusal.code,
        error_message=str(refusal),
    )


def _response(results: Results[PartitionResult]) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(topic_id=topic_id, partitions=list(partitions.values()))
            for topic_id, partitions in results.items()
        ]
    )
