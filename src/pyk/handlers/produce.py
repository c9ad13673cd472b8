"""Produce, v3-13: append a batch to each of some partitions.

    append everything -> tell who waits for it -> the answer, or when it can be given

Everything is appended before `handle` returns, in the order of the requests. What then waits for
other replicas or for the disk is the answer, while the connection goes on. The connection waits too
where a coordinator of transactions has to be asked first, a log has to be made, or batches take
long to be read: those are prepared in a thread, and appended in the order of the request.
"""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from pyk.declared import NamedTuple
from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.handlers.call import Call, InTurn
from pyk.handlers.context import INTERNAL_TOPICS, Context
from pyk.log.guards import UNGUARDED, Guard
from pyk.log.producers import Origin
from pyk.log.validation import InvalidRecords, TakesLong, prepare
from pyk.metadata.image import Topic
from pyk.replication.partition import ACKS_ALL, Partition, Produced
from pyk.turns import TURN_SECONDS
from pyk.types import Buffer, FileSlice
from pyk.wire.batch import COMPRESSION_MASK, TRANSACTIONAL, peek_attributes
from pyk.wire.compression import Compression
from pyk.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from pyk.handlers.transactional_writes import Joined

ACKS: Final = (0, 1, ACKS_ALL)
ADMIN_CLIENT_ID: Final = "__admin_client"
"""Whose client may write to internal topics, as in Kafka."""

_SHOWS_START: Final = frozenset(
    {
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""Refusals with which Kafka also tells where the log starts."""


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


class Awaited(NamedTuple):
    """An answer that is good once everything before an offset is where it has to be."""

    responses: list[PartitionProduceResponse]
    """Where it is one of."""
    at: int
    partition: Partition
    end_offset: int
    is_flush_due: bool


def handle(
    request: ProduceRequest, call: Call, broker: Context
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    if request.acks not in ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks of {request.acks}")
    if request.transactional_id is None:
        _check_not_transactional(request)
        return _append(request, call, broker, {})
    missing = [
        found
        for topic in request.topic_data
        for each in topic.partition_data
        if (found := _without_log(topic, each, call, broker)) is not None
    ]
    if missing:
        return InTurn(_join_later(missing, request, call, broker))
    return _join_and_append(request, call, broker)


def _join_and_append(
    request: ProduceRequest, call: Call, broker: Context
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    # Here, since most producers have no transactions.
    from pyk.handlers.transactional_writes import join_transaction

    is_joining = joins_transactions(call)
    joined = join_transaction(request, call, broker, _find_topic, is_joining=is_joining)
    if isawaitable(joined):
        return InTurn(_append_later(joined, request, call, broker))
    return _append(request, call, broker, joined)


async def _join_later(
    missing: list[tuple[Topic, int]], request: ProduceRequest, call: Call, broker: Context
) -> ProduceResponse | None:
    await _ensure_logs(missing, broker)
    response = _join_and_append(request, call, broker)
    return await response if isawaitable(response) else response


async def _append_later(
    joined: Awaitable[Joined], request: ProduceRequest, call: Call, broker: Context
) -> ProduceResponse | None:
    response = _append(request, call, broker, await joined)
    return await response if isawaitable(response) else response


def _append(
    request: ProduceRequest, call: Call, broker: Context, joined: Joined
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    turn_ends = perf_counter() + TURN_SECONDS
    outcomes = [
        _append_to_topic(topic, request, call, broker, joined, turn_ends)
        for topic in request.topic_data
        if topic.partition_data
    ]
    broker.news.tell_if_complete()
    if any(None in results for _, results in outcomes):
        return InTurn(_append_rest(outcomes, request, call, broker, joined))
    return _respond(outcomes, request)


async def _append_rest(
    outcomes: list[TopicOutcome],
    request: ProduceRequest,
    call: Call,
    broker: Context,
    joined: Joined,
) -> ProduceResponse | None:
    """What was left, in turns, while the connection waits."""
    left = [
        (results, at, topic, topic.partition_data[at])
        for topic, results in outcomes
        for at, result in enumerate(results)
        if result is None
    ]
    missing = [_without_log(topic, each, call, broker) for _, _, topic, each in left]
    await _ensure_logs([each for each in missing if each is not None], broker)
    turn_ends = perf_counter() + TURN_SECONDS
    for results, at, topic, each in left:
        if perf_counter() > turn_ends:
            await trio.lowlevel.checkpoint()
            turn_ends = perf_counter() + TURN_SECONDS
        results[at] = await _append_in_time(topic, each, request, call, broker, joined)
    response = _respond(outcomes, request)
    return await response if isawaitable(response) else response


async def _ensure_logs(missing: list[tuple[Topic, int]], broker: Context) -> None:
    try:
        await broker.replicas.ensure_logs(missing)
    except Exception as failure:
        # Who writes to those that are still missing is told.
        broker.failures.note("what makes and opens logs", failure)


def _respond(
    outcomes: list[TopicOutcome], request: ProduceRequest
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    awaited: list[Awaited] = []
    topics = [_answer(outcome, request, awaited) for outcome in outcomes]
    response = ProduceResponse(responses=topics)
    if request.acks == 0:
        _check_unanswered(response)
        return None
    if not awaited:
        return response
    return _wait(response, awaited, trio.current_time() + request.timeout_ms / 1000)


def refuse(request: ProduceRequest, refusal: KafkaError) -> ProduceResponse | None:
    if request.acks == 0:
        raise ProtocolError(f"a refusal that nobody waits for: {refusal}")
    topics = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[_refused(each.index, refusal) for each in topic.partition_data],
        )
        for topic in request.topic_data
    ]
    return ProduceResponse(responses=topics)


def uses_topic_ids(call: Call) -> bool:
    """KIP-516."""
    return call.version >= 13


def knows_zstd(call: Call) -> bool:
    """KIP-110."""
    return call.version >= 7


def joins_transactions(call: Call) -> bool:
    """KIP-890."""
    return call.version >= 12


async def _wait(
    response: ProduceResponse, awaited: list[Awaited], deadline: float
) -> ProduceResponse:
    for each in awaited:
        code, message = ErrorCode.NONE, None
        try:
            with trio.fail_at(deadline):
                await each.partition.wait_committed(each.end_offset, is_flush_due=each.is_flush_due)
        except trio.TooSlowError:
            code = ErrorCode.REQUEST_TIMED_OUT
        except KafkaError as refusal:
            code, message = refusal.code, refusal.message
        # It is in the log all the same, so it keeps its offset.
        answer = each.responses[each.at]
        each.responses[each.at] = PartitionProduceResponse(
            index=answer.index,
            error_code=code,
            base_offset=answer.base_offset,
            log_append_time_ms=answer.log_append_time_ms,
            log_start_offset=answer.log_start_offset,
            error_message=message,
        )
    return response


def _check_not_transactional(request: ProduceRequest) -> None:
    for topic in request.topic_data:
        for each in topic.partition_data:
            if _attributes(each) & TRANSACTIONAL:
                raise KafkaError(
                    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    "transactional records without a transactional id",
                )


def _check_unanswered(response: ProduceResponse) -> None:
    """Raise ProtocolError for an error that cannot be told: the client notices that the connection
    is closed, and looks for the partition anew."""
    for topic in response.responses:
        for each in topic.partition_responses:
            if each.error_code:
                raise ProtocolError(
                    f"a batch that nobody waits for was refused: {ErrorCode(each.error_code).name}"
                )


def _append_to_topic(
    data: TopicProduceData,
    request: ProduceRequest,
    call: Call,
    broker: Context,
    joined: Joined,
    turn_ends: float,
) -> TopicOutcome:
    try:
        topic = _find_topic(data, call, broker)
    except KafkaError as refusal:
        return data, [Refused(refusal, -1)] * len(data.partition_data)
    return data, [
        None
        if perf_counter() > turn_ends
        else _append_to_partition(topic, each, request, call, broker, joined)
        for each in data.partition_data
    ]


def _without_log(
    data: TopicProduceData, each: PartitionProduceData, call: Call, broker: Context
) -> tuple[Topic, int] | None:
    """The partition, if it is to be written to and its log is not there or not open."""
    try:
        topic = _find_topic(data, call, broker)
        led = broker.replicas.begun(topic, each.index)
    except KafkaError:
        return None  # That is said when it comes to writing.
    return (topic, each.index) if led is None else None


def _find_topic(data: TopicProduceData, call: Call, broker: Context) -> Topic:
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
    joined: Joined,
) -> Done | Refused | None:
    start_offset = -1
    guard: Guard | None = UNGUARDED
    try:
        partition = broker.replicas.begun(topic, data.index)
        if partition is None:
            return None
        if joined:
            guard = _guard_of(partition, joined)
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
    joined: Joined,
) -> Done | Refused:
    """The same, elsewhere if it takes long. The log is made or opened by now, if it can be."""
    topic = None
    try:
        topic = _find_topic(data, call, broker)
        partition = broker.replicas.leader_of(topic, each.index)
        done = _append_to_partition(topic, each, request, call, broker, joined)
        if done is not None:
            return done
        now_ms, config = broker.now_ms(), partition.log.config
        records = _records(each, call)
        prepared = await broker.offload(lambda: prepare(records, config, now_ms, Origin.CLIENT))
        topic = _find_topic(data, call, broker)
        partition = broker.replicas.leader_of(topic, each.index)
        produced = partition.produce_prepared(
            prepared,
            acks=request.acks,
            now_ms=now_ms,
            transaction_version=2 if joins_transactions(call) else 0,
            guard=_guard_of(partition, joined) if joined else UNGUARDED,
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


def _answer(
    outcome: TopicOutcome, request: ProduceRequest, awaited: list[Awaited]
) -> TopicProduceResponse:
    data, outcomes = outcome
    responses: list[PartitionProduceResponse] = []
    for each, result in zip(data.partition_data, outcomes, strict=True):
        assert result is not None
        if isinstance(result, Refused):
            responses.append(_refused(each.index, *result))
            continue
        partition, produced = result
        added = produced.added
        end_offset = added.last_offset + 1
        is_behind = request.acks == ACKS_ALL and partition.log.high_watermark < end_offset
        if is_behind or produced.is_flush_due:
            at = len(responses)
            awaited.append(Awaited(responses, at, partition, end_offset, produced.is_flush_due))
        responses.append(
            PartitionProduceResponse(
                index=each.index,
                base_offset=added.base_offset,
                # Of a batch that was there already, Kafka tells the time whoever gave it.
                log_append_time_ms=added.timestamp if added.is_repeated else produced.append_time,
                log_start_offset=partition.log.start_offset,
            )
        )
    return TopicProduceResponse(
        name=data.name, topic_id=data.topic_id, partition_responses=responses
    )


def _guard_of(partition: Partition, joined: Joined) -> Guard | None:
    found = joined.get(partition.partition, UNGUARDED)
    if isinstance(found, KafkaError):
        raise found
    return found


def _records(data: PartitionProduceData, call: Call) -> Buffer:
    if not knows_zstd(call) and _attributes(data) & COMPRESSION_MASK == Compression.ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce v{call.version} has no zstd"
        )
    assert not isinstance(data.records, FileSlice)
    return data.records or b""


def _attributes(data: PartitionProduceData) -> int:
    assert not isinstance(data.records, FileSlice)
    return peek_attributes(data.records or b"")


def _refused(index: int, refusal: KafkaError, start_offset: int = -1) -> PartitionProduceResponse:
    record_errors = refusal.record_errors if isinstance(refusal, InvalidRecords) else []
    shows_start = bool(record_errors) or refusal.code in _SHOWS_START
    return PartitionProduceResponse(
        index=index,
        error_code=refusal.code,
        base_offset=-1,
        log_start_offset=start_offset if shows_start else -1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why)
            for at, why in record_errors
        ],
        error_message=refusal.message,
    )
