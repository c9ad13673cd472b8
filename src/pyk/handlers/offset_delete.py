"""OffsetDelete, v0: forget how far a group has read of some topics (KIP-496)."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import check_group_id, merged, parted, then
from pyk.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(
    request: OffsetDeleteRequest, call: Call, broker: Context
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    check_group_id(request.group_id)
    known, unknown = _sorted_out(request, broker)
    wanted = OffsetDeleteRequest(group_id=request.group_id, topics=known)
    outcome = broker.groups.execute(
        request.group_id,
        lambda groups, ticket, now: groups.delete_offsets(wanted, ticket, now),
    )
    return then(
        outcome,
        lambda response: OffsetDeleteResponse(topics=merged(unknown, response.topics)),
        lambda refusal: refuse(request, refusal),
    )


def refuse(request: OffsetDeleteRequest, refusal: KafkaError) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=refusal.code, topics=[])


def _sorted_out(
    request: OffsetDeleteRequest, broker: Context
) -> tuple[list[OffsetDeleteRequestTopic], list[OffsetDeleteResponseTopic]]:
    """What there is, and the answers for what there is not."""
    known, unknown = [], []
    for wanted in request.topics:
        topic = broker.image.topics.get(wanted.name)
        present, absent = parted(wanted.partitions, topic)
        if present:
            known.append(OffsetDeleteRequestTopic(name=wanted.name, partitions=present))
        if absent:
            unknown.append(_refused(wanted.name, absent))
    return known, unknown


def _refused(
    name: str, partitions: list[OffsetDeleteRequestPartition]
) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=name,
        partitions=[
            OffsetDeleteResponsePartition(
                partition_index=each.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for each in partitions
        ],
    )
