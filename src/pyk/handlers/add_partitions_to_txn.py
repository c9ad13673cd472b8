"""AddPartitionsToTxn, v0-5: a transaction is going to write to partitions.

Clients say so up to v3. Since v4 it is for brokers, who ask for many transactions at once, or only
whether partitions are in theirs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import then, together
from pyk.handlers.transaction_calls import caller_of, check_transactional_id
from pyk.types import TopicPartition
from pyk.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

Outcomes = Mapping[TopicPartition, ErrorCode]


def handle(
    request: AddPartitionsToTxnRequest, call: Call, broker: Context
) -> AddPartitionsToTxnResponse | Awaitable[AddPartitionsToTxnResponse]:
    if is_of_brokers(call):
        outcomes = [_of_transaction(each, call, broker) for each in request.transactions]
        return together(
            outcomes, lambda results: AddPartitionsToTxnResponse(results_by_transaction=results)
        )
    only = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    return together(
        [_of_transaction(only, call, broker)],
        lambda results: AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=results[0].topic_results
        ),
    )


def refuse(request: AddPartitionsToTxnRequest, refusal: KafkaError) -> AddPartitionsToTxnResponse:
    topics = request.v3_and_below_topics
    outcomes = dict.fromkeys(_partitions(topics), refusal.code)
    return AddPartitionsToTxnResponse(
        error_code=refusal.code, results_by_topic_v3_and_below=_results(topics, outcomes)
    )


def is_of_brokers(call: Call) -> bool:
    """KIP-890."""
    return call.version >= 4


def knows_fencing(call: Call) -> bool:
    """KIP-588."""
    return call.version >= 2


def _of_transaction(
    wanted: AddPartitionsToTxnTransaction, call: Call, broker: Context
) -> AddPartitionsToTxnResult | Awaitable[AddPartitionsToTxnResult]:
    partitions = _partitions(wanted.topics)
    # As Kafka has it, which names a topic without partitions only to those who add.
    topics = [each for each in wanted.topics if each.partitions or not wanted.verify_only]

    def answer(outcomes: Outcomes) -> AddPartitionsToTxnResult:
        return AddPartitionsToTxnResult(
            transactional_id=wanted.transactional_id,
            topic_results=_results(topics, outcomes),
        )

    def refused(refusal: KafkaError) -> AddPartitionsToTxnResult:
        code = refusal.code
        if code is ErrorCode.PRODUCER_FENCED and not knows_fencing(call):
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return answer(dict.fromkeys(partitions, code))

    absent = [each for each in partitions if not _exists(each, broker)]
    if absent:
        # One that is not there, and none is added.
        outcomes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
        return answer(outcomes | dict.fromkeys(absent, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    try:
        check_transactional_id(wanted.transactional_id)
        outcome = _asked(wanted, partitions, call, broker)
    except KafkaError as refusal:
        return refused(refusal)

    def outcomes_of(missing: frozenset[TopicPartition]) -> AddPartitionsToTxnResult:
        outcomes = dict.fromkeys(partitions, ErrorCode.NONE)
        return answer(outcomes | dict.fromkeys(missing, ErrorCode.TRANSACTION_ABORTABLE))

    return then(outcome, outcomes_of, refused)


def _asked(
    wanted: AddPartitionsToTxnTransaction,
    partitions: list[TopicPartition],
    call: Call,
    broker: Context,
) -> frozenset[TopicPartition] | Awaitable[frozenset[TopicPartition]]:
    caller = caller_of(wanted.transactional_id, wanted.producer_id, wanted.producer_epoch)
    if wanted.verify_only:
        return broker.transactions.execute(
            wanted.transactional_id,
            lambda machine, ticket, now: machine.verify(caller, partitions, ticket, now),
        )
    version = 2 if is_of_brokers(call) else 0
    return broker.transactions.execute(
        wanted.transactional_id,
        lambda machine, ticket, now: machine.add_partitions(
            caller, partitions, version, ticket, now
        ),
    )


def _partitions(topics: list[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _exists(partition: TopicPartition, broker: Context) -> bool:
    topic = broker.image.topics.get(partition.topic)
    return topic is not None and 0 <= partition.partition < len(topic.partitions)


def _results(
    topics: list[AddPartitionsToTxnTopic], outcomes: Outcomes
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=number,
                    partition_error_code=outcomes[TopicPartition(topic.name, number)],
                )
                for number in topic.partitions
            ],
        )
        for topic in topics
    ]
