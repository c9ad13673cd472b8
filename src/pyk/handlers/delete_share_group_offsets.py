"""DeleteShareGroupOffsets, v0: forget what a share group without members has read of topics."""

from __future__ import annotations

from functools import partial

from pyk.coordinator.share.partitions import ByTopic
from pyk.coordinator.share_lifecycle import Errors
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.share_calls import check_enabled, check_group_id, to_the_end_in_turn
from pyk.turns import settled
from pyk.types import ZERO_UUID
from pyk.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


async def handle(
    request: DeleteShareGroupOffsetsRequest, call: Call, broker: Context
) -> DeleteShareGroupOffsetsResponse:
    check_enabled(broker)
    check_group_id(request.group_id)
    return await to_the_end_in_turn(request.group_id, partial(_deleted, request, broker), broker)


async def _deleted(
    request: DeleteShareGroupOffsetsRequest, broker: Context
) -> DeleteShareGroupOffsetsResponse:
    group_id = request.group_id
    names = [topic.topic_name for topic in request.topics]
    doomed: ByTopic = await settled(
        broker.groups.execute(
            group_id,
            lambda groups, ticket, now: groups.share_offsets.delete(group_id, names, ticket),
        )
    )
    errors = await settled(broker.share_lifecycle.delete(group_id, doomed))
    failed = {key.topic_id: error for key, error in errors.items()}
    gone = [topic_id for topic_id in doomed if topic_id not in failed]
    if gone:
        await settled(
            broker.groups.execute(
                group_id,
                lambda groups, ticket, now: groups.share_offsets.deleted(group_id, gone, ticket),
            )
        )
    return DeleteShareGroupOffsetsResponse(
        responses=[_answer(name, doomed, errors, broker) for name in names]
    )


def refuse(
    request: DeleteShareGroupOffsetsRequest, refusal: KafkaError
) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        error_code=refusal.code, error_message=refusal.message, responses=[]
    )


def _answer(
    name: str, doomed: ByTopic, errors: Errors, broker: Context
) -> DeleteShareGroupOffsetsResponseTopic:
    topic = broker.image.topics.get(name)
    if topic is None:
        return _refused(name, "This server does not host this topic-partition.")
    if topic.topic_id not in doomed:
        return _refused(name, "There is no offset information to delete.")
    failed = [error for key, error in errors.items() if key.topic_id == topic.topic_id]
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic.topic_id,
        error_code=failed[0].code if failed else ErrorCode.NONE,
        error_message=failed[0].message if failed else None,
    )


def _refused(name: str, message: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=ZERO_UUID,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message=message,
    )
