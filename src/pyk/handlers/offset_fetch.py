"""OffsetFetch, v1-10: how far groups have read, one group or many."""

from __future__ import annotations

from collections.abc import Awaitable
from inspect import isawaitable
from typing import Any, NamedTuple

from pyk.coordinator.offsets import Found, fetched
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.turns import Work, answered, in_turns
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
    groups = request.groups
    if not asks_for_many(call):
        topics = _as_new(request.topics)
        groups = [OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)]
    answers = _Answers(groups, request, call, broker)
    work = answered(answers.until_one_waits())
    if work is None:
        return answers.response()
    return _later(answers, work)


async def _later(answers: _Answers, work: Any) -> OffsetFetchResponse:
    """`work` is the group that waits, or else what brings the next that does."""
    waits: _Asked | None = await work if isawaitable(work) else work
    while waits is not None:
        found = waits.found
        try:
            found = await found
        except KafkaError as refusal:
            found = refusal
        await in_turns(answers.add(waits, found))
        waits = await in_turns(answers.until_one_waits())
    return answers.response()


class _Answers:
    """Of one group after the other, so that what a group has is copied when it is its turn."""

    def __init__(
        self,
        groups: list[OffsetFetchRequestGroup],
        request: OffsetFetchRequest,
        call: Call,
        broker: Context,
    ) -> None:
        self._left = iter(groups)
        self._request = request
        self._call = call
        self._broker = broker
        self._groups: list[OffsetFetchResponseGroup] = []
        self._whole: dict[tuple[str, str | None, int], OffsetFetchResponseGroup] = {}
        """Answers with all offsets of a group, by group and member: a few bytes of a request that
        ask for them once more are answered by the same."""

    def until_one_waits(self) -> Work[_Asked | None]:
        """Answer those that can be. Return the first of which the answer is to be waited for."""
        for group in self._left:
            known = self._whole.get(_caller(group)) if group.topics is None else None
            if known is not None:
                self._groups.append(known)
                yield
                continue
            asked = _asked(group, self._call, self._broker, self._request.require_stable)
            if isawaitable(asked.found):
                return asked
            yield from self.add(asked, asked.found)
            yield
        return None

    def add(self, asked: _Asked, found: Found | KafkaError) -> Work[None]:
        if isinstance(found, KafkaError):
            self._groups.append(_refused(asked.group_id, found))
            return
        topics = yield from fetched(found, asked.topics)
        if finds_topics_by_id(self._call) and asked.topics is None:
            topics = _with_ids(topics, self._broker)
        answer = OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics + asked.unknown)
        self._groups.append(answer)
        if asked.topics is None:
            self._whole[asked.caller] = answer

    def response(self) -> OffsetFetchResponse:
        if asks_for_many(self._call):
            return OffsetFetchResponse(groups=self._groups)
        return _as_old(self._groups[0], self._request, self._call)


def refuse(request: OffsetFetchRequest, refusal: KafkaError) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=refusal.code,
        topics=_refused_topics(request.topics, refusal.code),
        groups=[_refused(group.group_id, refusal) for group in request.groups],
    )


def asks_for_many(call: Call) -> bool:
    """KIP-709."""
    return call.version >= 8


def finds_topics_by_id(call: Call) -> bool:
    return call.version >= 10


def says_once_what_is_wrong(call: Call) -> bool:
    """Since v2 an error of the whole group has its own field."""
    return call.version >= 2


class _Asked(NamedTuple):
    """A group that was asked for."""

    group_id: str
    caller: tuple[str, str | None, int]
    topics: list[OffsetFetchRequestTopics] | None
    unknown: list[OffsetFetchResponseTopics]
    """The answer for topics that there are not."""
    found: Any
    """A `Found`, or a KafkaError, or an awaitable of the one that raises the other."""


def _asked(
    group: OffsetFetchRequestGroup, call: Call, broker: Context, require_stable: bool
) -> _Asked:
    wanted, unknown = group, list[OffsetFetchResponseTopics]()
    if finds_topics_by_id(call) and group.topics is not None:
        wanted, unknown = _with_names(group, broker)
    found: Any
    try:
        found = broker.groups.execute(
            group.group_id,
            lambda groups, ticket, now: groups.fetch(
                wanted, ticket, now, require_stable=require_stable
            ),
        )
    except KafkaError as refusal:
        found = refusal
    return _Asked(group.group_id, _caller(group), wanted.topics, unknown, found)


def _caller(group: OffsetFetchRequestGroup) -> tuple[str, str | None, int]:
    """Of which group somebody asks, and as which member."""
    return group.group_id, group.member_id, group.member_epoch


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


def _with_ids(
    found: list[OffsetFetchResponseTopics], broker: Context
) -> list[OffsetFetchResponseTopics]:
    """Offsets of topics that are no more cannot be told to a client that goes by ids."""
    topics = []
    for each in found:
        topic = broker.image.topics.get(each.name)
        if topic is not None:
            topics.append(
                OffsetFetchResponseTopics(
                    name=each.name, topic_id=topic.topic_id, partitions=each.partitions
                )
            )
    return topics


def _refused(group_id: str, refusal: KafkaError) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group_id, error_code=refusal.code)


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
