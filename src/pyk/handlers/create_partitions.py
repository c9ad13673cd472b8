"""CreatePartitions, v0-3: give topics more partitions."""

from __future__ import annotations

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.deadline import within
from pyk.metadata.controller import Plan
from pyk.metadata.image import ClusterImage
from pyk.metadata.topics import Extension, MorePartitions, create_partitions
from pyk.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


async def handle(
    request: CreatePartitionsRequest, call: Call, broker: Context
) -> CreatePartitionsResponse:
    wanted = [_wanted(topic) for topic in request.topics]

    def decide(image: ClusterImage) -> Plan[list[Extension]]:
        return create_partitions(image, wanted, broker.rng)

    with within(request.timeout_ms):
        size = sum(max(each.count, 1) for each in wanted)
        if request.validate_only:
            outcomes = await broker.validate(decide, size)
        else:
            outcomes = await broker.carry_out(decide, size)
    return CreatePartitionsResponse(
        results=[
            _result(name, outcome if isinstance(outcome, KafkaError) else None)
            for name, outcome in outcomes
        ]
    )


def refuse(request: CreatePartitionsRequest, refusal: KafkaError) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[_result(topic.name, refusal) for topic in request.topics]
    )


def _wanted(topic: CreatePartitionsTopic) -> MorePartitions:
    chosen = topic.assignments
    return MorePartitions(
        name=topic.name,
        count=topic.count,
        assignments=None if chosen is None else [each.broker_ids for each in chosen],
    )


def _result(name: str, refusal: KafkaError | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name,
        error_code=ErrorCode.NONE if refusal is None else refusal.code,
        error_message=None if refusal is None else refusal.message,
    )
