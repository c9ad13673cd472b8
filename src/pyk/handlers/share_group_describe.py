"""ShareGroupDescribe, v1: the state of share groups and their members."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import check_group_id, once_each, then, together
from pyk.handlers.operations import ALL_OF_GROUP, NOT_ASKED_FOR
from pyk.handlers.share_calls import check_enabled
from pyk.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def handle(
    request: ShareGroupDescribeRequest, call: Call, broker: Context
) -> ShareGroupDescribeResponse | Awaitable[ShareGroupDescribeResponse]:
    check_enabled(broker)
    outcomes = once_each(request.group_ids, lambda group_id: _described(group_id, request, broker))
    return together(outcomes, lambda groups: ShareGroupDescribeResponse(groups=groups))


def refuse(request: ShareGroupDescribeRequest, refusal: KafkaError) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        groups=[_refused(group_id, refusal) for group_id in request.group_ids]
    )


def _described(
    group_id: str, request: ShareGroupDescribeRequest, broker: Context
) -> DescribedGroup | Awaitable[DescribedGroup]:
    operations = ALL_OF_GROUP if request.include_authorized_operations else NOT_ASKED_FOR

    def refused(refusal: KafkaError) -> DescribedGroup:
        return _refused(group_id, refusal)

    try:
        check_group_id(group_id)
        outcome = broker.groups.execute(
            group_id,
            lambda groups, ticket, now: groups.describe_share(group_id, operations, ticket, now),
        )
    except KafkaError as refusal:
        return refused(refusal)
    return then(outcome, lambda group: group, refused)


def _refused(group_id: str, refusal: KafkaError) -> DescribedGroup:
    is_told = refusal.code is ErrorCode.GROUP_ID_NOT_FOUND
    return DescribedGroup(
        error_code=refusal.code,
        error_message=refusal.message if is_told else None,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
