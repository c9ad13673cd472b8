"""Batches on their way into the logs that a Produce request names: at once where that is quick.

    quick -> appended before anybody else has a turn
    not   -> its log is made or opened, or the batch prepared, elsewhere; then it is appended

Each partition for itself: whatever befalls one, what the others got is known.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import trio

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import INTERNAL_TOPICS, Context
from pyk.log.guards import UNGUARDED, Guard
from pyk.log.producers import Origin
from pyk.log.validation import TakesLong, prepare
from pyk.metadata.image import Topic
from pyk.replication.partition import Partition, Produced
from pyk.turns import TURN_SECONDS
from pyk.types import Buffer, FileSlice
from pyk.wire.batch import COMPRESSION_MASK, TRANSACTIONAL, peek_attributes
from pyk.wire.compression import Compression
from pyk.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

if TYPE_CHECKING:
    from pyk.handlers.transactional_writes import Joined

ADMIN_CLIENT_ID: Final = "__admin_client"
"""Whose client may write to internal topics, as in Kafka."""
GRACE: Final = 5.0
"""Seconds for what was received when its client hangs up, or the broker stops."""


class Done(NamedTuple):
    """A batch is in the log."""

    partition: Partition
    produced: Produced


class Refused(NamedTuple):
    """It is not, and why."""

    refusal: KafkaError
    start_offset: int
    """Where the log starts, or -1 if that is not known."""


TopicOutcome: TypeAlias = tuple[TopicProduceData, list[Done | Refused | None]]
"""What became of each partition's batch. None if that takes longer than others can wait."""


def uses_topic_ids(call: Call) -> bool:
    """KIP-516."""
    return call.version >= 13


def knows_zstd(call: Call) -> bool:
    """KIP-110."""
    return call.version >= 7


def joins_transactions(call: Call) -> bool:
    """KIP-890."""
    return call.version >= 12


async def append_rest(
    outcomes: list[TopicOutcome],
    request: ProduceRequest,
    call: Call,
    broker: Context,
    joined: Joined | None,
) -> None:
    """What was left, in turns, while the connection waits. A client that hangs up meanwhile has
    sent it all the same: it is appended, if that takes no longer than GRACE."""
    async with trio.open_nursery() as nursery:
        with trio.CancelScope(shield=True) as scope:
            nursery.start_soon(_end_in_time, scope)
            await _append_left(outcomes, request, call, broker, joined)
        nursery.cancel_scope.cancel()


async def _end_in_time(scope: trio.CancelScope) -> None:
    try:
        await trio.sleep_forever()
    finally:
        scope.deadline = trio.current_time() + GRACE


async def _append_left(
    outcomes: list[TopicOutcome],
    request: ProduceRequest,
    call: Call,
    broker: Context,
    joined: Joined | None,
) -> None:
    left = [
        (results, at, topic, topic.partition_data[at])
        for topic, results in outcomes
        for at, result in enumerate(results)
        if result is None
    ]
    missing = [without_log(topic, each, call, broker) for _, _, topic, each in left]
    await ensure_logs([each for each in missing if each is not None], broker)
    turn_ends = perf_counter() + TURN_SECONDS
    for results, at, topic, each in left:
        if perf_counter() > turn_ends:
            await trio.lowlevel.checkpoint()
            turn_ends = perf_counter() + TURN_SECONDS
        results[at] = await _append_in_time(topic, each, request, call, broker, joined)


async def ensure_logs(missing: list[tuple[Topic, int]], broker: Context) -> None:
    try:
        await broker.replicas.ensure_logs(missing)
    except Exception as failure:
        # Who writes to those that are still missing is told.
        broker.failures.note("what makes and opens logs", failure)


def append_to_topic(
    data: TopicProduceData,
    request: ProduceRequest,
    call: Call,
    broker: Context,
    joined: Joined | None,
    turn_ends: float,
) -> TopicOutcome:
    try:
        topic = find_topic(data, call, broker)
    except KafkaError as refusal:
        return data, [Refused(refusal, -1)] * len(data.partition_data)
    return data, [
        None
        if perf_counter() > turn_ends
        else _append_to_partition(topic, each, request, call, broker, joined)
        for each in data.partition_data
    ]


def without_log(
    data: TopicProduceData, each: PartitionProduceData, call: Call, broker: Context
) -> tuple[Topic, int] | None:
    """The partition, if it is to be written to and its log is not there or not open."""
    try:
        topic = find_topic(data, call, broker)
        led = broker.replicas.begun(topic, each.index)
    except KafkaError:
        return None  # That is said when it comes to writing.
    return (topic, each.index) if led is None else None


def find_topic(data: TopicProduceData, call: Call, broker: Context) -> Topic:
    if uses_topic_ids(call):
        topic = broker.topic_of_id(data.topic_id)
    else:
        topic = broker.topic_named(data.name)
    if topic.name in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT_ID:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is for the broker to write"
        )
    return topic


def _append_to_partition(
    topic: Topic,
    data: PartitionProduceData,
    request: ProduceRequest,
    call: Call,
    broker: Context,
    joined: Joined | None,
) -> Done | Refused | None:
    start_offset = -1
    try:
        partition = broker.replicas.begun(topic, data.index)
        if partition is None:
            return None
        guard = UNGUARDED if joined is None else _guard_of(partition, data, joined)
        start_offset = partition.log.start_offset
        produced = partition.produce(
            _records(data, call),
            acks=request.acks,
            now_ms=broker.now_ms(),
            transaction_version=2 if joins_transactions(call) else 0,
            guard=guard,
            may_take_long=False,
        )
    except TakesLong:
        return None
    except Exception as failure:
        return _failed(failure, topic.name, data.index, start_offset, broker)
    return Done(partition, produced)


async def _append_in_time(
    data: TopicProduceData,
    each: PartitionProduceData,
    request: ProduceRequest,
    call: Call,
    broker: Context,
    joined: Joined | None,
) -> Done | Refused:
    """The same, elsewhere if it takes long. The log is made or opened by now, if it can be."""
    topic = None
    try:
        topic = find_topic(data, call, broker)
        partition = broker.replicas.leader_of(topic, each.index)
        done = _append_to_partition(topic, each, request, call, broker, joined)
        if done is not None:
            return done
        now_ms, config = broker.now_ms(), partition.log.config
        records = _records(each, call)
        prepared = await broker.inflate(lambda: prepare(records, config, now_ms, Origin.CLIENT))
        topic = find_topic(data, call, broker)
        partition = broker.replicas.leader_of(topic, each.index)
        produced = partition.produce_prepared(
            prepared,
            acks=request.acks,
            now_ms=now_ms,
            transaction_version=2 if joins_transactions(call) else 0,
            guard=UNGUARDED if joined is None else _guard_of(partition, each, joined),
        )
    except Exception as failure:
        start_offset = -1 if topic is None else _start_of(topic, each.index, broker)
        return _failed(failure, data.name, each.index, start_offset, broker)
    return Done(partition, produced)


def _start_of(topic: Topic, number: int, broker: Context) -> int:
    try:
        led = broker.replicas.begun(topic, number)
    except KafkaError:
        return -1
    return -1 if led is None else led.log.start_offset


def _failed(
    failure: Exception, topic: str, number: int, start_offset: int, broker: Context
) -> Refused:
    """Whatever it is, the batches of other partitions are in their logs, and that is to be told."""
    return Refused(broker.failures.refusal(failure, f"{topic}-{number}"), start_offset)


def _guard_of(partition: Partition, data: PartitionProduceData, joined: Joined) -> Guard | None:
    found = joined.get(partition.partition, UNGUARDED)
    if found is UNGUARDED and attributes_of(data) & TRANSACTIONAL:
        # Its topic or its log was not there when the coordinator was asked. Without the word of the
        # coordinator nobody would ever end this.
        found = KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            "the partition was not verified to be in a transaction",
        )
    if isinstance(found, KafkaError):
        raise found
    return found


def _records(data: PartitionProduceData, call: Call) -> Buffer:
    if not knows_zstd(call) and attributes_of(data) & COMPRESSION_MASK == Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce v{call.version} has no zstd"
        )
    assert not isinstance(data.records, FileSlice)
    return data.records or b""


def attributes_of(data: PartitionProduceData) -> int:
    assert not isinstance(data.records, FileSlice)
    return peek_attributes(data.records or b"")
