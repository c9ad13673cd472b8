"""ShareAcknowledge, v1-2: what became of records that a member of a share group was handed."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.acknowledgements import (
    Acknowledged,
    Outcomes,
    hear,
    hear_in_turns,
    is_wide,
    release,
    session_key,
)
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.share_calls import check_enabled
from pyk.sharing.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession
from pyk.types import Uuid
from pyk.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(
    request: ShareAcknowledgeRequest, call: Call, broker: Context
) -> ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]:
    check_enabled(broker)
    key = session_key(request.group_id, request.member_id)
    session = _session(key, request.share_session_epoch, broker)
    if is_wide(request.topics):
        return _hear_in_turns(session, request, call, broker)
    acknowledged = hear(request.topics, key, call, broker, is_renewal=request.is_renew_ack)
    acknowledged.keep()
    if acknowledged.pending or request.share_session_epoch == FINAL_EPOCH:
        return _answer_later(acknowledged, session, request, broker)
    return _answer(acknowledged.outcomes, key, broker)


def refuse(request: ShareAcknowledgeRequest, refusal: KafkaError) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=refusal.code, responses=[], node_endpoints=[])


def _session(key: SessionKey, epoch: int, broker: Context) -> ShareSession:
    """Raise KafkaError."""
    if epoch == INITIAL_EPOCH:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    if epoch == FINAL_EPOCH:
        return broker.shares.sessions.find(key)
    return broker.shares.sessions.go_on(key, epoch)


async def _hear_in_turns(
    session: ShareSession, request: ShareAcknowledgeRequest, call: Call, broker: Context
) -> ShareAcknowledgeResponse:
    acknowledged = await hear_in_turns(
        request.topics, session.key, call, broker, is_renewal=request.is_renew_ack
    )
    return await _answer_later(acknowledged, session, request, broker)


async def _answer_later(
    acknowledged: Acknowledged,
    session: ShareSession,
    request: ShareAcknowledgeRequest,
    broker: Context,
) -> ShareAcknowledgeResponse:
    outcomes = await acknowledged.settle()
    if request.share_session_epoch == FINAL_EPOCH:
        await release(session, broker)
    return _answer(outcomes, session.key, broker)


def _answer(outcomes: Outcomes, key: SessionKey, broker: Context) -> ShareAcknowledgeResponse:
    topics: dict[Uuid, list[PartitionData]] = {}
    for (topic_id, number), refusal in outcomes.items():
        topics.setdefault(topic_id, []).append(
            PartitionData(
                partition_index=number,
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
                current_leader=LeaderIdAndEpoch(leader_id=0, leader_epoch=0),
            )
        )
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.shares.terms_of(key.group_id).lock_timeout_ms,
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
        node_endpoints=[],
    )
