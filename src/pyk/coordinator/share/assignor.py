"""The simple assignor: members share partitions, and everybody has something to do.

- Every partition has someone. If there are more members than partitions, each partition has as many
  as it takes for each member to have one.
- Members have the same number of partitions, or one more, and keep what they can of what they had.
- Where members subscribe to different topics, this holds for each topic by itself, as in Kafka, and
  who has least gets what is left over.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, TypeAlias

from pyk.coordinator.assigned import NO_PARTITIONS, Partitions, Targets
from pyk.types import Uuid

SIMPLE: Final = "simple"

_Place: TypeAlias = tuple[Uuid, int]
"""A partition, by its topic."""


class Subscriber(NamedTuple):
    """A member, as far as it matters to the assignor."""

    topics: frozenset[Uuid]
    target: Partitions = NO_PARTITIONS
    """What it was to have until now."""


def assign(members: Mapping[str, Subscriber], partitions: Partitions) -> Targets:
    """From members, and the partitions of each topic that may be given to them."""
    loads = dict.fromkeys(members, 0)
    found: dict[str, dict[Uuid, set[int]]] = {member_id: {} for member_id in members}
    for topics, subscribers in _pools(members):
        places = [
            (topic_id, number)
            for topic_id in sorted(topics)
            for number in sorted(partitions.get(topic_id, ()))
        ]
        if len(places) == 1:
            ((topic_id, number),) = places
            for member_id in subscribers:
                loads[member_id] += 1
                found[member_id].setdefault(topic_id, set()).add(number)
            continue
        targets = {member_id: members[member_id].target for member_id in subscribers}
        pool = _Pool(topics, places, targets, loads)
        for member_id, held in pool.shared_out().items():
            loads[member_id] += len(held)
            for topic_id, number in held:
                found[member_id].setdefault(topic_id, set()).add(number)
    return {
        member_id: {topic_id: frozenset(numbers) for topic_id, numbers in topics.items()}
        for member_id, topics in found.items()
    }


def _pools(members: Mapping[str, Subscriber]) -> list[tuple[frozenset[Uuid], list[str]]]:
    """Topics that are shared out together, and among whom: all of them, if all members subscribe
    to the same."""
    subscriptions = {member.topics for member in members.values()}
    if len(subscriptions) == 1:
        return [(subscriptions.pop(), sorted(members))]
    subscribers: dict[Uuid, list[str]] = {}
    for member_id in sorted(members):
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    return [(frozenset({topic_id}), subscribers[topic_id]) for topic_id in sorted(subscribers)]


class _Pool:
    """Partitions that are shared out among members who all may have any of them."""

    def __init__(
        self,
        topics: frozenset[Uuid],
        places: list[_Place],
        targets: Mapping[str, Partitions],
        loads: Mapping[str, int],
    ) -> None:
        self._loads = loads
        self._readers: dict[_Place, set[str]] = {place: set() for place in places}
        self._held: dict[str, set[_Place]] = {member_id: set() for member_id in targets}
        self._sharing = -(-len(targets) // len(places)) if places else 0
        """How many read a partition."""
        self._quota, self._odd = divmod(self._sharing * len(places), len(targets))
        for member_id, target in targets.items():
            # A target may be of thousands of topics of which this is one.
            for topic_id in topics if len(topics) < len(target) else target:
                for number in target.get(topic_id, ()):
                    if (topic_id, number) in self._readers:
                        self._give(member_id, (topic_id, number))

    def shared_out(self) -> dict[str, set[_Place]]:
        if self._readers:
            self._take_from_who_has_too_many()
            self._take_what_too_many_have()
            self._give_what_is_left()
        return self._held

    def _give(self, member_id: str, place: _Place) -> None:
        self._held[member_id].add(place)
        self._readers[place].add(member_id)

    def _take(self, member_id: str, place: _Place) -> None:
        self._held[member_id].remove(place)
        self._readers[place].remove(member_id)

    def _weight(self, member_id: str) -> tuple[int, int, str]:
        return len(self._held[member_id]), self._loads[member_id], member_id

    def _take_from_who_has_too_many(self) -> None:
        """The odd ones stay with those who have most in this pool, and least in others."""
        in_order = sorted(self._held, key=lambda m: (-len(self._held[m]), self._loads[m], m))
        for rank, member_id in enumerate(in_order):
            may_have = self._quota + (rank < self._odd)
            held = sorted(
                self._held[member_id], key=lambda place: (-len(self._readers[place]), place)
            )
            for place in held[: max(len(held) - may_have, 0)]:
                self._take(member_id, place)

    def _take_what_too_many_have(self) -> None:
        for place, readers in self._readers.items():
            while len(readers) > self._sharing:
                self._take(max(readers, key=self._weight), place)

    def _give_what_is_left(self) -> None:
        """To who has least, and first of what has fewest readers. So nobody and nothing goes
        without, though the last may find that all who have room read it already."""
        quota_max = self._quota + (self._odd > 0)
        least = [self._weight(m) for m in self._held if len(self._held[m]) < quota_max]
        heapify(least)
        for wanted in range(self._sharing):
            for place, readers in self._readers.items():
                if len(readers) == wanted:
                    self._give_to_who_has_least(place, least, quota_max)

    def _give_to_who_has_least(
        self, place: _Place, least: list[tuple[int, int, str]], quota_max: int
    ) -> None:
        readers, passed = self._readers[place], []
        while least:
            weight = heappop(least)
            if weight[2] not in readers:
                self._give(weight[2], place)
                if len(self._held[weight[2]]) < quota_max:
                    heappush(least, self._weight(weight[2]))
                break
            passed.append(weight)
        for weight in passed:
            heappush(least, weight)
