"""DescribeProducers, v0: what partitions know of those who write to them (KIP-664).

Whoever looks for a transaction that hangs asks for all partitions at once. Those that were never
used have no log, and get none; the others may have to be opened, in threads.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.log.producers import Producer
from pyk.metadata.image import Topic
from pyk.turns import Work, answered, in_turns
from pyk.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

NONE: Final = -1


def handle(
    request: DescribeProducersRequest, call: Call, broker: Context
) -> DescribeProducersResponse | Awaitable[DescribeProducersResponse]:
    closed: list[tuple[Topic, int]] = []
    response = answered(_answer(request, broker, closed))
    if isinstance(response, DescribeProducersResponse) and not closed:
        return response
    return _answer_later(response, closed, request, broker)


async def _answer_later(
    response: DescribeProducersResponse | Awaitable[DescribeProducersResponse],
    closed: list[tuple[Topic, int]],
    request: DescribeProducersRequest,
    broker: Context,
) -> DescribeProducersResponse:
    if not isinstance(response, DescribeProducersResponse):
        response = await response
    if closed:
        await broker.ensure_logs_in_time(closed)
        response = await in_turns(_answer(request, broker, []))
    return response


def _answer(
    request: DescribeProducersRequest, broker: Context, closed: list[tuple[Topic, int]]
) -> Work[DescribeProducersResponse]:
    topics = []
    for topic in request.topics:
        partitions = []
        for number in topic.partition_indexes:
            partitions.append(_described(topic.name, number, broker, closed))
            yield
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def refuse(request: DescribeProducersRequest, refusal: KafkaError) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_refused(number, refusal) for number in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _described(
    topic: str, number: int, broker: Context, closed: list[tuple[Topic, int]]
) -> PartitionResponse:
    try:
        led = broker.replicas.leader_of_used(broker.topic_named(topic), number, closed)
    except Exception as failure:
        refusal = broker.failures.refusal(failure, f"{topic}-{number}")
        # Kafka has words for topics only.
        is_there = topic in broker.image.topics
        return _refused(number, KafkaError(refusal.code) if is_there else refusal)
    producers = () if led is None else led.log.producers
    return PartitionResponse(
        partition_index=number, active_producers=[_state(producer) for producer in producers]
    )


def _refused(number: int, refusal: KafkaError) -> PartitionResponse:
    return PartitionResponse(
        partition_index=number,
        error_code=refusal.code,
        error_message=refusal.message,
        active_producers=[],
    )


def _state(producer: Producer) -> ProducerState:
    first_offset = producer.current_txn_first_offset
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=NONE if first_offset is None else first_offset,
    )
