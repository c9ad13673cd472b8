"""DescribeProducers, v0: what partitions know of those who write to them (KIP-664)."""

from __future__ import annotations

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.log.producers import Producer
from pyk.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

NONE = -1


def handle(
    request: DescribeProducersRequest, call: Call, broker: Context
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_described(topic.name, n, broker) for n in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


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


def _described(topic: str, number: int, broker: Context) -> PartitionResponse:
    try:
        producers = broker.leader_of(topic, number).log.producers
    except KafkaError as refusal:
        # Kafka has words for topics only.
        is_there = topic in broker.image.topics
        return _refused(number, KafkaError(refusal.code) if is_there else refusal)
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
