"""What handlers of share partitions' state share: many partitions in one request, each on its own.

A partition that is there twice is asked for twice, and answered once, for what was said last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pyk.coordinator.share_coordinator import SharePartitionKey
from pyk.errors import KafkaError
from pyk.handlers.context import Context
from pyk.handlers.group_calls import then, together
from pyk.types import Uuid

if TYPE_CHECKING:
    from pyk.coordinator.share_coordinator import Decide


class _Numbered(Protocol):
    @property
    def partition(self) -> int: ...


P = TypeVar("P", bound=_Numbered)
P_co = TypeVar("P_co", bound=_Numbered, covariant=True)
R = TypeVar("R", bound=_Numbered)
Response = TypeVar("Response")


class _Topic(Protocol[P_co]):
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def partitions(self) -> Sequence[P_co]: ...


Results = dict[Uuid, dict[int, R]]


def ask_each(
    group_id: str,
    topics: Sequence[_Topic[P]],
    broker: Context,
    decide: Callable[[SharePartitionKey, P], Decide],
    answer: Callable[[P, Any], R],
    refuse: Callable[[P, KafkaError], R],
) -> Results[R] | Awaitable[Results[R]]:
    """What the coordinator says of each partition. Of a group without a name it says nothing."""
    if not group_id:
        return {}
    asked = [(topic.topic_id, each) for topic in topics for each in topic.partitions]
    outcomes = [
        _asked(group_id, topic_id, each, broker, decide, answer, refuse) for topic_id, each in asked
    ]
    return together(
        outcomes, lambda results: _by_topic([topic_id for topic_id, _ in asked], results)
    )


def says_all(topics: Sequence[_Topic[P]]) -> bool:
    """Whether each topic has partitions. If one has none, nobody is asked for anything."""
    return all(topic.partitions for topic in topics)


def refuse_each(
    topics: Sequence[_Topic[P]], refusal: KafkaError, refuse: Callable[[P, KafkaError], R]
) -> Results[R]:
    asked = [(topic.topic_id, each) for topic in topics for each in topic.partitions]
    return _by_topic([topic_id for topic_id, _ in asked], [refuse(e, refusal) for _, e in asked])


def respond(
    results: Results[R] | Awaitable[Results[R]], make: Callable[[Results[R]], Response]
) -> Response | Awaitable[Response]:
    return together([results], lambda only: make(only[0]))


def _asked(
    group_id: str,
    topic_id: Uuid,
    each: P,
    broker: Context,
    decide: Callable[[SharePartitionKey, P], Decide],
    answer: Callable[[P, Any], R],
    refuse: Callable[[P, KafkaError], R],
) -> R | Awaitable[R]:
    key = SharePartitionKey(group_id, topic_id, each.partition)
    try:
        outcome = broker.share_coordinator.shards.execute(key.text, decide(key, each))
    except KafkaError as refusal:
        return refuse(each, refusal)
    return then(outcome, lambda found: answer(each, found), lambda refusal: refuse(each, refusal))


def _by_topic(topic_ids: list[Uuid], results: list[R]) -> Results[R]:
    found: Results[R] = {}
    for topic_id, result in zip(topic_ids, results, strict=True):
        found.setdefault(topic_id, {})[result.partition] = result
    return found
