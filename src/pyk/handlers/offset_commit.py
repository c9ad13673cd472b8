"""OffsetCommit, v2-10: how far a group has read.

A partition that does not exist is refused on its own. The group decides about all others together.
"""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from typing import TYPE_CHECKING

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import (
    caller_of,
    is_wide,
    merged,
    parted,
    sorted_and_prepared,
    then,
)
from pyk.metadata.image import ClusterImage
from pyk.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from pyk.coordinator.offsets import Commit


def handle(
    request: OffsetCommitRequest, call: Call, broker: Context
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    if is_wide(request.topics):
        return _commit_wide(request, call, broker)
    known, unknown = _sorted_out(request.topics, call, broker.image)
    return _commit(_known(request, known), unknown, call, broker)


async def _commit_wide(
    request: OffsetCommitRequest, call: Call, broker: Context
) -> OffsetCommitResponse:
    """If the client hangs up before it is decided, nothing is committed: what it commits meanwhile,
    by another connection, would be undone."""
    known, unknown, prepared = await sorted_and_prepared(
        request.group_id,
        request.topics,
        lambda topics, image: _sorted_out(topics, call, image),
        lambda groups, topics: groups.prepare_commit(_known(request, topics)),
        broker,
    )
    response = _commit(_known(request, known), unknown, call, broker, prepared)
    return await response if isawaitable(response) else response


def _known(
    request: OffsetCommitRequest, topics: list[OffsetCommitRequestTopic]
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=request.group_id,
        generation_id_or_member_epoch=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        retention_time_ms=request.retention_time_ms,
        topics=topics,
    )


def _commit(
    wanted: OffsetCommitRequest,
    unknown: list[OffsetCommitResponseTopic],
    call: Call,
    broker: Context,
    prepared: Commit | KafkaError | None = None,
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    if not wanted.topics:
        return OffsetCommitResponse(topics=unknown)
    caller = caller_of(call)

    def answer(response: OffsetCommitResponse) -> OffsetCommitResponse:
        return (
            OffsetCommitResponse(topics=merged(unknown, response.topics)) if unknown else response
        )

    try:
        if isinstance(prepared, KafkaError):
            raise prepared
        outcome = broker.groups.execute(
            wanted.group_id,
            lambda groups, ticket, now: groups.commit(wanted, caller, ticket, now, prepared),
        )
    except KafkaError as refusal:
        return answer(refuse(wanted, refusal))
    return then(outcome, answer, lambda refusal: answer(refuse(wanted, refusal)))


def refuse(request: OffsetCommitRequest, refusal: KafkaError) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[_refused(t, refusal.code) for t in request.topics])


def finds_topics_by_id(call: Call) -> bool:
    """KIP-848's last step: no name, so that a topic made anew is not taken for the old one."""
    return call.version >= 10


def _sorted_out(
    topics: list[OffsetCommitRequestTopic], call: Call, image: ClusterImage
) -> tuple[list[OffsetCommitRequestTopic], list[OffsetCommitResponseTopic]]:
    """What there is, and the answers for what there is not."""
    by_id = finds_topics_by_id(call)
    known, unknown = [], []
    for wanted in topics:
        topic = image.topic_by_id(wanted.topic_id) if by_id else image.topics.get(wanted.name)
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            unknown.append(_refused(wanted, code))
            continue
        present, absent = parted(wanted.partitions, topic)
        found = OffsetCommitRequestTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=present
        )
        if absent:
            missing = OffsetCommitRequestTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=absent
            )
            unknown.append(_refused(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if present:
            known.append(found)
    return known, unknown


def _refused(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in topic.partitions
        ],
    )
