"""DeleteShareGroupState, v0: forget the state of share partitions."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.share_state_calls import Results, ask_each, refuse_each, respond, says_all
from pyk.wire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)

if TYPE_CHECKING:
    from pyk.coordinator.share_coordinator import Decide, SharePartitionKey


def handle(
    request: DeleteShareGroupStateRequest, call: Call, broker: Context
) -> DeleteShareGroupStateResponse | Awaitable[DeleteShareGroupStateResponse]:
    if not says_all(request.topics):
        return DeleteShareGroupStateResponse(results=[])
    results = ask_each(request.group_id, request.topics, broker, _decide, _answered, _refused)
    return respond(results, _response)


def refuse(
    request: DeleteShareGroupStateRequest, refusal: KafkaError
) -> DeleteShareGroupStateResponse:
    return _response(refuse_each(request.topics, refusal, _refused))


def _decide(key: SharePartitionKey, asked: PartitionData) -> Decide:
    return lambda machine, ticket, now: machine.delete(key, ticket, now)


def _answered(asked: PartitionData, found: None) -> PartitionResult:
    return PartitionResult(partition=asked.partition)


def _refused(asked: PartitionData, refusal: KafkaError) -> PartitionResult:
    return PartitionResult(
        partition=asked.partition,
        error_code=refusal.code,
        error_message=str(refusal),
    )


def _response(results: Results[PartitionResult]) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(topic_id=topic_id, partitions=list(partitions.values()))
            for topic_id, partitions in results.items()
        ]
    )
