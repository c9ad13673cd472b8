"""What handlers of groups share: who calls, and answers that may have to wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from inspect import isawaitable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import trio

from pyk.coordinator.group import Caller
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.metadata.image import ClusterImage, Topic
from pyk.turns import TURN_SECONDS, Work, answered, in_turns

if TYPE_CHECKING:
    from pyk.coordinator.groups import Groups
    from pyk.coordinator.offsets import Commit
    from pyk.coordinator.shard import Shard

COMMITTED_AT_ONCE_MAX: Final = 1_000
"""Partitions: four milliseconds."""
SORTED_AT_ONCE: Final = 256
"""Topics, before others may have their turn."""

A = TypeVar("A")
B = TypeVar("B")


def caller_of(call: Call) -> Caller:
    return Caller(call.version, call.client_id or "", f"/{call.peer.host}")


def check_group_id(group_id: str | None) -> None:
    """Raise KafkaError. Offsets may be committed for a group without a name; it has no members."""
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)


class _Numbered(Protocol):
    @property
    def partition_index(self) -> int: ...


class _Answered(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def partitions(self) -> list[Any]: ...


P = TypeVar("P", bound=_Numbered)
T = TypeVar("T", bound=_Answered)


def parted(partitions: list[P], topic: Topic | None) -> tuple[list[P], list[P]]:
    """Those that the topic has, and those that it has not."""
    count = 0 if topic is None else len(topic.partitions)
    present = [each for each in partitions if 0 <= each.partition_index < count]
    if len(present) == len(partitions):
        return present, []
    return present, [each for each in partitions if not 0 <= each.partition_index < count]


def is_wide(topics: list[Any]) -> bool:
    """Whether they have so many partitions that a commit of them is to be prepared in turns."""
    count = 0
    for topic in topics:
        count += len(topic.partitions)
    return count > COMMITTED_AT_ONCE_MAX


async def sorted_and_prepared(
    group_id: str,
    topics: list[T],
    sort: Callable[[list[T], ClusterImage], tuple[list[T], list[A]]],
    prepare: Callable[[Groups, list[T]], Work[Commit]],
    broker: Context,
) -> tuple[list[T], list[A], Commit | KafkaError | None]:
    """The topics of a wide commit that there are, the answers for all others, and the commit of the
    former, or why there can be none. All that takes long is done here, in turns and in threads,
    before the decision, which is still one. Nothing is prepared for topics to which something has
    happened meanwhile."""
    image = broker.image
    known, unknown = await in_turns(_sorted_in_turns(topics, lambda some: sort(some, image)))
    commit: Commit | KafkaError | None = None
    if known:
        try:
            commit = await _prepared(broker.groups.of(group_id), known, prepare, broker)
        except KafkaError as refusal:
            commit = refusal
    if not broker.image.has_same((topic.name for topic in known), image):
        return *sort(topics, broker.image), None
    return known, unknown, commit


async def _prepared(
    shard: Shard[Groups],
    topics: list[T],
    prepare: Callable[[Groups, list[T]], Work[Commit]],
    broker: Context,
) -> Commit:
    """Raise KafkaError."""
    shard.check_loaded()
    commit = await in_turns(prepare(shard.machine, topics))
    if not commit.records:
        return commit
    pieces = await in_turns(shard.journal.encode_in_turns(commit.records))
    payload = await broker.offload(lambda: shard.journal.compressed(pieces))
    return commit._replace(payload=payload)


def _sorted_in_turns(
    topics: list[T], sort: Callable[[list[T]], tuple[list[T], list[A]]]
) -> Work[tuple[list[T], list[A]]]:
    known, unknown = list[T](), list[A]()
    for start in range(0, len(topics), SORTED_AT_ONCE):
        there, missing = sort(topics[start : start + SORTED_AT_ONCE])
        known += there
        unknown += missing
        yield
    return known, unknown


def merged(unknown: list[T], answered: list[T]) -> list[T]:
    """The answers for what is not there, each before those for what is there of its topic."""
    by_name = {topic.name: topic for topic in unknown}
    topics = list(unknown)
    for topic in answered:
        partial = by_name.get(topic.name)
        if partial is None:
            topics.append(topic)
        else:
            partial.partitions.extend(topic.partitions)
    return topics


def then(
    outcome: A | Awaitable[A], answer: Callable[[A], B], refuse: Callable[[KafkaError], B]
) -> B | Awaitable[B]:
    """The answer to what a coordinator says: at once if it has said it, or else later."""
    if isawaitable(outcome):
        return _later(outcome, answer, refuse)
    return answer(outcome)


async def _later(
    outcome: Awaitable[A], answer: Callable[[A], B], refuse: Callable[[KafkaError], B]
) -> B:
    try:
        return answer(await outcome)
    except KafkaError as refusal:
        return refuse(refusal)


def once_each(
    group_ids: Iterable[str], ask: Callable[[str], A | Awaitable[A]]
) -> Iterator[A | Awaitable[A]]:
    """What is said of each. Of a group that is named again the same is said again: a few bytes of a
    request bring no second copy of a large answer."""
    known: dict[str, A | Awaitable[A]] = {}
    for group_id in group_ids:
        if group_id not in known:
            outcome = ask(group_id)
            known[group_id] = _Shared(outcome) if isawaitable(outcome) else outcome
        yield known[group_id]


class _Shared(Awaitable[A]):
    """An outcome that several wait for, one after the other."""

    def __init__(self, outcome: Awaitable[A]) -> None:
        self._outcome = outcome
        self._found: list[A] = []

    def __await__(self) -> Generator[Any, Any, A]:
        if not self._found:
            self._found.append((yield from self._outcome.__await__()))
        return self._found[0]


def together(
    outcomes: Iterable[Any | Awaitable[Any]], answer: Callable[[list[Any]], B]
) -> B | Awaitable[B]:
    """One answer of several, of which some may have to wait. If it is a generator that asks for
    them, it does so in turns."""
    found = answered(_asked(outcomes))
    if isawaitable(found) or any(isawaitable(outcome) for outcome in found):
        return _all_of(found, answer)
    return answer(found)


def _asked(outcomes: Iterable[Any | Awaitable[Any]]) -> Work[list[Any | Awaitable[Any]]]:
    asked = []
    for outcome in outcomes:
        asked.append(outcome)
        yield
    return asked


async def _all_of(
    outcomes: list[Any | Awaitable[Any]] | Awaitable[list[Any | Awaitable[Any]]],
    answer: Callable[[list[Any]], B],
) -> B:
    asked = await outcomes if isawaitable(outcomes) else outcomes
    found = []
    turn_ends = perf_counter() + TURN_SECONDS
    for outcome in asked:
        found.append(await outcome if isawaitable(outcome) else outcome)
        if perf_counter() > turn_ends:
            await trio.lowlevel.checkpoint()
            turn_ends = perf_counter() + TURN_SECONDS
    return answer(found)
