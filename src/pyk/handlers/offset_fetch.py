"""OffsetFetch, v1-10: how far groups have read, one group or many."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import then, together
from pyk.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

NONE = -1


def handle(
    request: OffsetFetchRequest, call: Call, broker: Context
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    if asks_for_many(call):
        stable = request.require_stable
        outcomes = [_of_group(group, call, broker, stable) for group in request.groups]
        return together(outcomes, lambda groups: OffsetFetchResponse(groups=groups))
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=_as_new(request.topics))
    return then(
        _of_group(group, call, broker, request.require_stable),
        lambda found: _as_old(found, request, call),
        lambda refusal: refuse(request, refusal),
    )


def refuse(request: OffsetFetchRequest, refusal: KafkaError) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=refusal.code,
        topics=_refused_topics(request.topics, refusal.code),
        groups=[_refused(group, refusal) for group in request.groups],
    )


def asks_for_many(call: Call) -> bool:
    """KIP-709."""
    return call.version >= 8


def finds_topics_by_id(call: Call) -> bool:
    return call.version >= 10


def says_once_what_is_wrong(call: Call) -> bool:
    """Since v2 an error of the whole group has its own field."""
    return call.version >= 2


def _of_group(
    group: OffsetFetchRequestGroup, call: Call, broker: Context, require_stable: bool
) -> OffsetFetchResponseGroup | Awaitable[OffsetFetchResponseGroup]:
    wanted, unknown = group, list[OffsetFetchResponseTopics]()
    if finds_topics_by_id(call) and group.topics is not None:
        wanted, unknown = _with_names(group, broker)

    def answer(found: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if finds_topics_by_id(call) and group.topics is None:
            found = _with_ids(found, broker)
        return OffsetFetchResponseGroup(group_id=group.group_id, topics=found.topics + unknown)

    try:
        outcome = broker.groups.execute(
            group.group_id,
            lambda groups, ticket, now: groups.fetch(
                wanted, ticket, now, require_stable=require_stable
            ),
        )
    except KafkaError as refusal:
        return _refused(group, refusal)
    return then(outcome, answer, lambda refusal: _refused(group, refusal))


def _with_names(
    group: OffsetFetchRequestGroup, broker: Context
) -> tuple[OffsetFetchRequestGroup, list[OffsetFetchResponseTopics]]:
    known, unknown = [], []
    for wanted in group.topics or []:
        topic = broker.image.topic_by_id(wanted.topic_id)
        if topic is None:
            partitions = [
                OffsetFetchResponsePartitions(
                    partition_index=number,
                    committed_offset=NONE,
                    error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                )
                for number in wanted.partition_indexes
            ]
            unknown.append(
                OffsetFetchResponseTopics(topic_id=wanted.topic_id, partitions=partitions)
            )
            continue
        known.append(
            OffsetFetchRequestTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_indexes=wanted.partition_indexes,
            )
        )
    named = OffsetFetchRequestGroup(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        topics=known,
    )
    return named, unknown


def _with_ids(found: OffsetFetchResponseGroup, broker: Context) -> OffsetFetchResponseGroup:
    """Offsets of topics that are no more cannot be told to a client that goes by ids."""
    topics = []
    for each in found.topics:
        topic = broker.image.topics.get(each.name)
        if topic is not None:
            topics.append(
                OffsetFetchResponseTopics(
                    name=each.name, topic_id=topic.topic_id, partitions=each.partitions
                )
            )
    return OffsetFetchResponseGroup(group_id=found.group_id, topics=topics)


def _refused(group: OffsetFetchRequestGroup, refusal: KafkaError) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=refusal.code)


def _as_new(topics: list[OffsetFetchRequestTopic] | None) -> list[OffsetFetchRequestTopics] | None:
    if topics is None:
        return None
    return [
        OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
        for topic in topics
    ]


def _as_old(
    group: OffsetFetchResponseGroup, request: OffsetFetchRequest, call: Call
) -> OffsetFetchResponse:
    if group.error_code and not says_once_what_is_wrong(call):
        return OffsetFetchResponse(topics=_refused_topics(request.topics, group.error_code))
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=each.partition_index,
                        committed_offset=each.committed_offset,
                        committed_leader_epoch=each.committed_leader_epoch,
                        metadata=each.metadata,
                        error_code=each.error_code,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _refused_topics(
    topics: list[OffsetFetchRequestTopic] | None, code: int
) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=number, committed_offset=NONE, metadata="", error_code=code
                )
                for number in topic.partition_indexes
            ],
        )
        for topic in topics or []
    ]
