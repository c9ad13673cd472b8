"""AddOffsetsToTxn, v0-4: a transaction is going to commit offsets of a group."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.coordinator.internal_topics import GROUP_TOPIC, partition_for
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import then
from pyk.handlers.transaction_calls import caller_of, check_transactional_id
from pyk.types import TopicPartition
from pyk.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def handle(
    request: AddOffsetsToTxnRequest, call: Call, broker: Context
) -> AddOffsetsToTxnResponse | Awaitable[AddOffsetsToTxnResponse]:
    check_transactional_id(request.transactional_id)
    topic = broker.image.topics.get(GROUP_TOPIC)
    count = (
        broker.settings.config.offsets_topic_num_partitions
        if topic is None
        else len(topic.partitions)
    )
    partition = TopicPartition(GROUP_TOPIC, partition_for(request.group_id, count))
    caller = caller_of(request.transactional_id, request.producer_id, request.producer_epoch)

    def refused(refusal: KafkaError) -> AddOffsetsToTxnResponse:
        code = refusal.code
        if code is ErrorCode.PRODUCER_FENCED and not knows_fencing(call):
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return AddOffsetsToTxnResponse(error_code=code)

    try:
        outcome = broker.transactions.execute(
            request.transactional_id,
            lambda machine, ticket, now: machine.add_partitions(
                caller, [partition], 0, ticket, now
            ),
        )
    except KafkaError as refusal:
        return refused(refusal)
    return then(outcome, lambda _: AddOffsetsToTxnResponse(), refused)


def refuse(request: AddOffsetsToTxnRequest, refusal: KafkaError) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=refusal.code)


def knows_fencing(call: Call) -> bool:
    """KIP-588."""
    return call.version >= 2
