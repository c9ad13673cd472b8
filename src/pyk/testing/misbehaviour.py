"""How a broker misbehaves: what may come between a handler and its client.

Each is a function around a handler. Those that wait do so after the request was handled, so that
what happens happens in the order of the requests, and only the answer is late.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from inspect import isawaitable
from typing import Any, Final, TypeAlias, cast

import msgspec
import trio

from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.metadata.image import Topic
from pyk.replication.partition import Partition
from pyk.replication.replicas import Replicas
from pyk.replication.unused import Unused
from pyk.testing.outcome import Behaviour, Handle, Outcome, later
from pyk.wire.apis import ApiKey
from pyk.wire.message import layout

Refuses: TypeAlias = Callable[[str, int | None], bool]
"""Whether a partition of a topic is refused, or the topic if no partition is named."""

BY_PARTITION: Final = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DELETE_RECORDS,
    }
)
"""APIs that answer for each partition by itself."""

OF_SESSIONS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Codes that a fetch has as a whole."""


class Cut(ProtocolError):
    """A connection is closed as if it were the client's fault."""

    def __init__(self) -> None:
        super().__init__("a test has cut it")


def refusing(refusal: KafkaError, refuses: Refuses) -> Behaviour:
    by_partition, by_topic = (
        _partitions_refused(refusal, refuses),
        _topics_refused(refusal, refuses),
    )

    def refuse(handle: Handle, request: Any, call: Call, broker: Context) -> Outcome:
        key = layout(type(request)).api_key
        if key in BY_PARTITION and refusal.code not in OF_SESSIONS:
            return by_partition(handle, request, call, broker)
        if key == ApiKey.METADATA:
            return by_topic(handle, request, call, broker)
        raise KafkaError(refusal.code, refusal.message)

    return refuse


def _partitions_refused(refusal: KafkaError, refuses: Refuses) -> Behaviour:
    """The partitions that are refused have no leader here. Others are handled."""

    def refuse(handle: Handle, request: Any, call: Call, broker: Context) -> Outcome:
        replicas = cast("Replicas", _Reluctant(broker.replicas, refusal, refuses))
        return handle(request, call, msgspec.structs.replace(broker, replicas=replicas))

    return refuse


class _Reluctant:
    """Leads some partitions only. In all else it is what there is."""

    def __init__(self, replicas: Replicas, refusal: KafkaError, refuses: Refuses) -> None:
        self._replicas = replicas
        self._refusal = refusal
        self._refuses = refuses

    def leader_of(self, topic: Topic, number: int) -> Partition:
        self._check(topic, number)
        return self._replicas.leader_of(topic, number)

    def leader_of_used(
        self, topic: Topic, number: int, closed: list[tuple[Topic, int]]
    ) -> Partition | None:
        self._check(topic, number)
        return self._replicas.leader_of_used(topic, number, closed)

    def readable(
        self, topic: Topic, number: int, closed: list[tuple[Topic, int]]
    ) -> Partition | Unused:
        self._check(topic, number)
        return self._replicas.readable(topic, number, closed)

    def begun(self, topic: Topic, number: int) -> Partition | None:
        self._check(topic, number)
        return self._replicas.begun(topic, number)

    async def ensure_logs(self, partitions: Iterable[tuple[Topic, int]]) -> None:
        await self._replicas.ensure_logs(each for each in partitions if not self._refuses_it(each))

    def _refuses_it(self, each: tuple[Topic, int]) -> bool:
        return self._refuses(each[0].name, each[1])

    def _check(self, topic: Topic, number: int) -> None:
        if self._refuses(topic.name, number):
            raise KafkaError(self._refusal.code, self._refusal.message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._replicas, name)


def _topics_refused(refusal: KafkaError, refuses: Refuses) -> Behaviour:
    """Topics that are refused are shown with the error, and without partitions."""

    def change(response: Any) -> Any:
        topics = [
            msgspec.structs.replace(topic, error_code=refusal.code, partitions=[])
            if refuses(topic.name or "", None)
            else topic
            for topic in response.topics
        ]
        return msgspec.structs.replace(response, topics=topics)

    def refuse(handle: Handle, request: Any, call: Call, broker: Context) -> Outcome:
        response = handle(request, call, broker)
        if not isawaitable(response):
            return change(response)

        async def changed() -> Any:
            return change(await response)

        return later(changed(), response)

    return refuse


def late(begin: Callable[[], Callable[[], Awaitable[None]]]) -> Behaviour:
    """Handle the request, and wait before the answer. `begin` is called when the response is there,
    and gives what is to be awaited then: answers wait for those before them, too."""

    def delay(handle: Handle, request: Any, call: Call, broker: Context) -> Outcome:
        response = _handled(handle, request, call, broker)
        if response is None:
            return None
        begun = None if isawaitable(response) else begin()

        async def answer() -> Any:
            try:
                found = await response if begun is None else response
            except KafkaError as refusal:
                found = refusal
            await (begun or begin())()
            if isinstance(found, KafkaError):
                raise found
            return found

        return later(answer(), response)

    return delay


def cut_before(handle: Handle, request: Any, call: Call, broker: Context) -> Outcome:
    """Close the connection. The request is not handled."""
    raise Cut


def cut_after(handle: Handle, request: Any, call: Call, broker: Context) -> Outcome:
    """Handle the request, and close the connection instead of an answer."""
    response = _handled(handle, request, call, broker)
    if not isawaitable(response):
        raise Cut

    async def hang_up() -> None:
        await response
        raise Cut

    return later(hang_up(), response)


def drop_request(handle: Handle, request: Any, call: Call, broker: Context) -> Outcome:
    """Do not handle it, and never say anything on its connection again: answers are in the order of
    requests, so that none can come after one that is missing."""
    return _silence()


def drop_answer(handle: Handle, request: Any, call: Call, broker: Context) -> Outcome:
    """Handle it, and never say anything on its connection again."""
    response = _handled(handle, request, call, broker)
    if response is None:
        return None

    async def say_nothing() -> None:
        if isawaitable(response):
            with suppress(KafkaError):
                await response
        await trio.sleep_forever()

    return later(say_nothing(), response)


async def _silence() -> None:
    await trio.sleep_forever()


def _handled(handle: Handle, request: Any, call: Call, broker: Context) -> Outcome:
    """The response, which may be the refusal that was raised instead."""
    try:
        return handle(request, call, broker)
    except KafkaError as refusal:
        return refusal
