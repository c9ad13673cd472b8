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
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.handlers.appends import (
    Refused,
    TopicOutcome,
    append_rest,
    append_to_topic,
    attributes_of,
    ensure_logs,
    find_topic,
    joins_transactions,
    without_log,
)
from pyk.handlers.call import Call, InTurn
from pyk.handlers.context import Context
from pyk.handlers.transactional_writes import join_transaction
from pyk.log.validation import InvalidRecords
from pyk.metadata.image import Topic
from pyk.replication.partition import ACKS_ALL, Partition, Produced
from pyk.turns import TURN_SECONDS
from pyk.wire.batch import TRANSACTIONAL
from pyk.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from pyk.handlers.transactional_writes import Joined

ACKS: Final = (0, 1, ACKS_ALL)
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


class Awaited(NamedTuple):
    """An answer that is good once everything before an offset is where it has to be."""

    responses: list[PartitionProduceResponse]
    """Where it is one of."""
    at: int
    partition: Partition
    produced: Produced


def handle(
    request: ProduceRequest, call: Call, broker: Context
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    if request.acks not in ACKS:
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks of {request.acks}")
    if request.transactional_id is None:
        _check_not_transactional(request)
        return _append(request, call, broker, None)
    missing = [
        found
        for topic in request.topic_data
        for each in topic.partition_data
        if (found := without_log(topic, each, call, broker)) is not None
    ]
    if missing:
        return InTurn(_join_later(missing, request, call, broker))
    return _join_and_append(request, call, broker)


def _join_and_append(
    request: ProduceRequest, call: Call, broker: Context
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    is_joining = joins_transactions(call)
    joined = join_transaction(request, call, broker, find_topic, is_joining=is_joining)
    if isawaitable(joined):
        return InTurn(_append_later(joined, request, call, broker))
    return _append(request, call, broker, joined)


async def _join_later(
    missing: list[tuple[Topic, int]], request: ProduceRequest, call: Call, broker: Context
) -> ProduceResponse | None:
    await ensure_logs(missing, broker)
    response = _join_and_append(request, call, broker)
    return await response if isawaitable(response) else response


async def _append_later(
    joined: Awaitable[Joined | None], request: ProduceRequest, call: Call, broker: Context
) -> ProduceResponse | None:
    response = _append(request, call, broker, await joined)
    return await response if isawaitable(response) else response


def _append(
    request: ProduceRequest, call: Call, broker: Context, joined: Joined | None
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    turn_ends = perf_counter() + TURN_SECONDS
    outcomes = [
        append_to_topic(topic, request, call, broker, joined, turn_ends)
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
    joined: Joined | None,
) -> ProduceResponse | None:
    await append_rest(outcomes, request, call, broker, joined)
    response = _respond(outcomes, request)
    return await response if isawaitable(response) else response


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
    deadline = trio.current_time() + request.timeout_ms / 1000
    return _wait(response, awaited, deadline, is_commit_due=request.acks == ACKS_ALL)


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


async def _wait(
    response: ProduceResponse, awaited: list[Awaited], deadline: float, *, is_commit_due: bool
) -> ProduceResponse:
    for each in awaited:
        code, message = ErrorCode.NONE, None
        try:
            with trio.fail_at(deadline):
                await _wait_for(each.partition, each.produced, is_commit_due=is_commit_due)
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


async def _wait_for(partition: Partition, produced: Produced, *, is_commit_due: bool) -> None:
    """Raise KafkaError."""
    if is_commit_due:
        await partition.wait_committed(
            produced.end_offset, produced.leader_epoch, is_flush_due=produced.is_flush_due
        )
    else:
        await partition.wait_durable(produced.end_offset)


def _check_not_transactional(request: ProduceRequest) -> None:
    for topic in request.topic_data:
        for each in topic.partition_data:
            if attributes_of(each) & TRANSACTIONAL:
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
        is_behind = request.acks == ACKS_ALL and not partition.is_committed(
            added.last_offset + 1, produced.leader_epoch
        )
        if is_behind or produced.is_flush_due:
            awaited.append(Awaited(responses, len(responses), partition, produced))
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
