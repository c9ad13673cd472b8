"""ConsumerGroupDescribe, v0-1: the state of consumer groups, their members and their targets."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import check_group_id, once_each, then, together
from pyk.handlers.operations import ALL_OF_GROUP, NOT_ASKED_FOR
from pyk.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(
    request: ConsumerGroupDescribeRequest, call: Call, broker: Context
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    outcomes = once_each(request.group_ids, lambda group_id: _described(group_id, request, broker))
    return together(outcomes, lambda groups: ConsumerGroupDescribeResponse(groups=groups))


def refuse(
    request: ConsumerGroupDescribeRequest, refusal: KafkaError
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[_refused(group_id, refusal) for group_id in request.group_ids]
    )


def _described(
    group_id: str, request: ConsumerGroupDescribeRequest, broker: Context
) -> DescribedGroup | Awaitable[DescribedGroup]:
    operations = ALL_OF_GROUP if request.include_authorized_operations else NOT_ASKED_FOR

    def refused(refusal: KafkaError) -> DescribedGroup:
        return _refused(group_id, refusal)

    try:
        check_group_id(group_id)
        outcome = broker.groups.execute(
            group_id,
            lambda groups, ticket, now: groups.describe_consumer(group_id, operations, ticket, now),
        )
    except KafkaError as refusal:
        return refused(refusal)
    return then(outcome, lambda group: group, refused)


def _refused(group_id: str, refusal: KafkaError) -> DescribedGroup:
    return DescribedGroup(
        error_code=refusal.code,
        error_message=refusal.message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=[],
    )
