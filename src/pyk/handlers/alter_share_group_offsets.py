"""AlterShareGroupOffsets, v0: let a share group without members begin elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyk.coordinator.share.offsets import Alteration
from pyk.coordinator.share_lifecycle import Errors, parted, places
from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.share_calls import check_enabled, check_group_id, to_the_end_in_turn
from pyk.turns import settled
from pyk.types import ZERO_UUID, Uuid
from pyk.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


async def handle(
    request: AlterShareGroupOffsetsRequest, call: Call, broker: Context
) -> AlterShareGroupOffsetsResponse:
    check_enabled(broker)
    check_group_id(request.group_id)
    return await to_the_end_in_turn(request.group_id, partial(_altered, request, broker), broker)


async def _altered(
    request: AlterShareGroupOffsetsRequest, broker: Context
) -> AlterShareGroupOffsetsResponse:
    group_id = request.group_id
    outcome = broker.groups.execute(
        group_id,
        lambda groups, ticket, now: groups.share_offsets.alter(group_id, request.topics, ticket),
    )
    alteration: Alteration = await settled(outcome)
    ids = {known.name: topic_id for topic_id, known in alteration.partitions.items()}
    errors = await _begun(group_id, alteration, _offsets(request, ids), broker)
    return AlterShareGroupOffsetsResponse(
        responses=[
            _answer(asked, group_id, ids.get(asked.topic_name), alteration, errors)
            for asked in request.topics
        ]
    )


def refuse(
    request: AlterShareGroupOffsetsRequest, refusal: KafkaError
) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(
        error_code=refusal.code, error_message=refusal.message, responses=[]
    )


def _offsets(
    request: AlterShareGroupOffsetsRequest, ids: Mapping[str, Uuid]
) -> dict[tuple[Uuid, int], int]:
    return {
        (ids[topic.topic_name], each.partition_index): each.start_offset
        for topic in request.topics
        if topic.topic_name in ids
        for each in topic.partitions
    }


async def _begun(
    group_id: str,
    alteration: Alteration,
    offsets: Mapping[tuple[Uuid, int], int],
    broker: Context,
) -> Errors:
    """Those that do not begin anew. It is in the group's log which do. Raise KafkaError."""
    wanted = {place: offsets[place] for place in places(alteration.partitions)}
    if not wanted:
        return {}
    outcome = broker.share_lifecycle.initialize(group_id, alteration.state_epoch, wanted)
    errors = await settled(outcome)
    done, failed = parted(alteration.partitions, errors)
    await settled(
        broker.groups.execute(
            group_id,
            lambda groups, ticket, now: groups.share_offsets.altered(
                group_id, done, failed, ticket
            ),
        )
    )
    return errors


def _answer(
    asked: AlterShareGroupOffsetsRequestTopic,
    group_id: str,
    topic_id: Uuid | None,
    alteration: Alteration,
    errors: Errors,
) -> AlterShareGroupOffsetsResponseTopic:
    found = frozenset() if topic_id is None else alteration.partitions[topic_id].partitions
    unknown = KafkaError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
    )
    answers = []
    for each in asked.partitions:
        number, error = each.partition_index, None
        if topic_id is None or number not in found:
            error = unknown
        else:
            error = errors.get(SharePartitionKey(group_id, topic_id, number))
        answers.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=number,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name, topic_id=topic_id or ZERO_UUID, partitions=answers
    )
