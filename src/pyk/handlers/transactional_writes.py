"""Writes in a transaction: which of their partitions may take them (KIP-890).

The first write of a transaction to a partition needs the word of the coordinator. It is good as
long as the partition's guard is, so that no write comes after the end of its transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Final, TypeAlias

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.transaction_calls import Refusals, Support, Writer, join
from pyk.log.guards import Guard
from pyk.metadata.image import Topic
from pyk.replication.partition import Partition
from pyk.types import FileSlice, TopicPartition
from pyk.wire.batch import TRANSACTIONAL, peek_attributes, peek_producer, peek_sequence
from pyk.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Joined: TypeAlias = Mapping[TopicPartition, Guard | KafkaError | None]
"""For a write in a transaction: what its partitions have to be shown, or why not. None where they
know the transaction already."""

_COORDINATOR_IS_AWAY: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def knows_of_aborting(call: Call) -> bool:
    """KIP-1050's TRANSACTION_ABORTABLE."""
    return call.version >= 11


def join_transaction(
    request: ProduceRequest,
    call: Call,
    broker: Context,
    find_topic: Callable[[TopicProduceData, Call, Context], Topic],
    *,
    is_joining: bool,
) -> Joined | Awaitable[Joined] | None:
    """What allows each partition to be written to in a transaction. None if that is not asked for.
    `is_joining` says whether a partition joins the transaction by being written to."""
    transactional_id = request.transactional_id
    assert transactional_id is not None
    is_verified = broker.settings.config.transaction_partition_verification_enable
    if not is_joining and not is_verified:
        return None
    found = [
        (topic, each, producer)
        for topic in request.topic_data
        for each in topic.partition_data
        if (producer := _producer(each)) is not None
    ]
    if not found:
        return {}
    producer = found[0][2]
    if any(other != producer for _, _, other in found):
        raise KafkaError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "one transaction has one producer id"
        )
    guards: dict[TopicPartition, Guard | None] = {}
    leaders, without = _leaders(found, call, broker, find_topic)

    def needed() -> list[TopicPartition]:
        for led, sequence in leaders:
            guards[led.partition] = led.log.producers.guard_for(*producer, sequence)
        return [partition for partition, guard in guards.items() if guard is not None]

    support = Support.OLD_ERRORS
    if knows_of_aborting(call):
        support = Support.ADDING if is_joining else Support.ABORTABLE_ERRORS

    def together(refusals: Refusals) -> Joined:
        for led, _ in leaders:
            if led.partition in refusals and not _is_asked_again(refusals[led.partition]):
                led.log.producers.drop_guard(producer[0])
        refused = {p: _as_producers_hear_it(r, support) for p, r in refusals.items()}
        return {**guards, **refused, **without}

    refusals = join(Writer(transactional_id, *producer), needed, support, broker)
    if isawaitable(refusals):
        return _joined_later(refusals, together)
    return together(refusals)


def _leaders(
    found: list[tuple[TopicProduceData, PartitionProduceData, tuple[int, int]]],
    call: Call,
    broker: Context,
    find_topic: Callable[[TopicProduceData, Call, Context], Topic],
) -> tuple[list[tuple[Partition, int]], dict[TopicPartition, KafkaError]]:
    """With the sequences of what they are to be written, and why others cannot be written to: also
    if they could be a moment later, when the coordinator has not been asked about them."""
    leaders: list[tuple[Partition, int]] = []
    refused: dict[TopicPartition, KafkaError] = {}
    for data, each, _ in found:
        try:
            topic = find_topic(data, call, broker)
        except KafkaError:
            continue  # That is said when it comes to writing.
        partition = TopicPartition(topic.name, each.index)
        try:
            assert not isinstance(each.records, FileSlice)
            sequence = peek_sequence(each.records or b"")
            leaders.append((broker.replicas.leader_of(topic, each.index), sequence))
        except Exception as failure:
            name = f"{topic.name}-{each.index}"
            refused[partition] = broker.failures.refusal(failure, name)
    return leaders, refused


async def _joined_later(
    refusals: Awaitable[Refusals], together: Callable[[Refusals], Joined]
) -> Joined:
    return together(await refusals)


def _is_asked_again(refusal: KafkaError) -> bool:
    return refusal.code in _COORDINATOR_IS_AWAY or refusal.code is ErrorCode.CONCURRENT_TRANSACTIONS


def _as_producers_hear_it(refusal: KafkaError, support: Support) -> KafkaError:
    is_known = support is Support.ADDING and refusal.code is ErrorCode.CONCURRENT_TRANSACTIONS
    if is_known or not _is_asked_again(refusal):
        return refusal
    # Older clients do not expect these codes here. This one they try again over, and it does not
    # make them look for another leader.
    return KafkaError(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        f"the partition cannot be verified to be in the transaction: {refusal.code.name}",
    )


def _producer(data: PartitionProduceData) -> tuple[int, int] | None:
    """Who writes in a transaction here: the producer's id and epoch."""
    assert not isinstance(data.records, FileSlice)
    records = data.records or b""
    if not peek_attributes(records) & TRANSACTIONAL:
        return None
    producer = peek_producer(records)
    return producer if producer[0] >= 0 else None
