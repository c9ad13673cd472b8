"""TxnOffsetCommit, v0-5: how far a group has read, which counts if a transaction is committed.

Since v5 the offsets join the transaction here. Before that AddOffsetsToTxn has to have come first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING

from pyk.coordinator.internal_topics import GROUP_TOPIC, partition_for
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import (
    caller_of,
    check_group_id,
    is_wide,
    merged,
    parted,
    sorted_and_prepared,
    then,
)
from pyk.handlers.transaction_calls import Refusals, Support, Writer, join
from pyk.log.guards import UNGUARDED, Guard
from pyk.metadata.image import ClusterImage
from pyk.types import TopicPartition
from pyk.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from pyk.coordinator.groups import Groups
    from pyk.coordinator.offsets import Commit
    from pyk.coordinator.shard import Shard


def handle(
    request: TxnOffsetCommitRequest, call: Call, broker: Context
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    if is_wide(request.topics):
        return _answer_wide(request, call, broker)
    known, unknown = _sorted_out(request.topics, broker.image)
    return _answer(_known(request, known), unknown, call, broker)


async def _answer_wide(
    request: TxnOffsetCommitRequest, call: Call, broker: Context
) -> TxnOffsetCommitResponse:
    """If the client hangs up before it is decided, nothing is committed: its transaction may end
    meanwhile, and the next one would commit it."""
    known, unknown, prepared = await sorted_and_prepared(
        request.group_id,
        request.topics,
        _sorted_out,
        lambda groups, topics: groups.prepare_commit_in_transaction(_known(request, topics)),
        broker,
    )
    response = _answer(_known(request, known), unknown, call, broker, prepared)
    return await response if isawaitable(response) else response


def _known(
    request: TxnOffsetCommitRequest, topics: list[TxnOffsetCommitRequestTopic]
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=request.transactional_id,
        group_id=request.group_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        topics=topics,
    )


def _answer(
    wanted: TxnOffsetCommitRequest,
    unknown: list[TxnOffsetCommitResponseTopic],
    call: Call,
    broker: Context,
    prepared: Commit | KafkaError | None = None,
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    if not wanted.topics:
        return TxnOffsetCommitResponse(topics=unknown)

    def answer(response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        return (
            TxnOffsetCommitResponse(topics=merged(unknown, response.topics))
            if unknown
            else response
        )

    def refused(refusal: KafkaError) -> TxnOffsetCommitResponse:
        code = refusal.code
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and not knows_loading(call):
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return answer(refuse(wanted, KafkaError(code)))

    try:
        check_group_id(wanted.group_id)
        if isinstance(prepared, KafkaError):
            raise prepared
        outcome = _commit(wanted, call, broker, prepared)
    except KafkaError as refusal:
        return refused(refusal)
    return then(outcome, answer, refused)


def refuse(request: TxnOffsetCommitRequest, refusal: KafkaError) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[_refused(topic.name, topic.partitions, refusal.code) for topic in request.topics]
    )


def knows_loading(call: Call) -> bool:
    return call.version >= 2


def support_of(call: Call) -> Support:
    """KIP-890."""
    if call.version >= 5:
        return Support.ADDING
    return Support.ABORTABLE_ERRORS if call.version >= 4 else Support.OLD_ERRORS


def _commit(
    wanted: TxnOffsetCommitRequest, call: Call, broker: Context, prepared: Commit | None
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    shard = broker.groups.of(wanted.group_id)
    shard.check_loaded()
    support = support_of(call)
    is_verified = broker.settings.config.transaction_partition_verification_enable
    if support is not Support.ADDING and not is_verified:
        return _committed(wanted, call, shard, UNGUARDED, prepared)
    count = len(broker.image.topics[GROUP_TOPIC].partitions)
    partition = TopicPartition(GROUP_TOPIC, partition_for(wanted.group_id, count))
    writer = Writer(wanted.transactional_id, wanted.producer_id, wanted.producer_epoch)
    guards: dict[TopicPartition, Guard | None] = {}

    def needed() -> list[TopicPartition]:
        guard = shard.journal.guard_for(wanted.producer_id, wanted.producer_epoch)
        guards[partition] = guard
        return [] if guard is None else [partition]

    def commit(
        refusals: Refusals,
    ) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
        if partition in refusals:
            shard.journal.drop_guard(wanted.producer_id)
            raise refusals[partition]
        return _committed(wanted, call, shard, guards[partition], prepared)

    refusals = join(writer, needed, support, broker)
    return _commit_later(refusals, commit) if isawaitable(refusals) else commit(refusals)


async def _commit_later(
    refusals: Awaitable[Refusals],
    commit: Callable[[Refusals], TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]],
) -> TxnOffsetCommitResponse:
    outcome = commit(await refusals)
    return await outcome if isawaitable(outcome) else outcome


def _committed(
    wanted: TxnOffsetCommitRequest,
    call: Call,
    shard: Shard[Groups],
    guard: Guard | None,
    prepared: Commit | None,
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    caller = caller_of(call)
    outcome: TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse] = shard.execute(
        lambda groups, ticket, now: groups.commit_in_transaction(
            wanted, caller, guard, ticket, now, prepared
        )
    )
    return outcome


def _sorted_out(
    topics: list[TxnOffsetCommitRequestTopic], image: ClusterImage
) -> tuple[list[TxnOffsetCommitRequestTopic], list[TxnOffsetCommitResponseTopic]]:
    """What there is, and the answers for what there is not."""
    known, unknown = [], []
    for wanted in topics:
        topic = image.topics.get(wanted.name)
        present, absent = parted(wanted.partitions, topic)
        if present:
            known.append(TxnOffsetCommitRequestTopic(name=wanted.name, partitions=present))
        if absent:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            unknown.append(_refused(wanted.name, absent, code))
    return known, unknown


def _refused(
    name: str, partitions: list[TxnOffsetCommitRequestPartition], code: ErrorCode
) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in partitions
        ],
    )
