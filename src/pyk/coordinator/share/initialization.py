"""Which partitions have to be begun before share groups may read them, and who waits for that.

    a heartbeat wants it -> the shell takes it, and begins it -> the machine is told what came of it

Who joins is answered when its partitions are there, so that it has them from its first heartbeat
on. Kafka answers at once, with nothing, and gives them out with a later one. All of this is soft
state: after a restart partitions that are on their way are begun again. Nobody has read them, and
nobody was told that they begin elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from pyk.coordinator.assigned import Partitions
from pyk.coordinator.machine import Ticket
from pyk.coordinator.share.partitions import ByTopic, without


class Initialization(NamedTuple):
    """Partitions whose state is to begin, at a place that their leader finds."""

    group_id: str
    state_epoch: int
    partitions: ByTopic


class Waiting(NamedTuple):
    """A member that is answered when its partitions are there."""

    ticket: Ticket
    member_id: str
    is_full: bool
    """Whether it wants to hear all."""
    held: Partitions
    """What it had been told to have."""


class _UnderWay(NamedTuple):
    initialization: Initialization
    until: float
    """When it is no longer believed in."""


class Initializations:
    def __init__(self) -> None:
        self._wanted: list[Initialization] = []
        self._under_way: dict[str, list[_UnderWay]] = {}
        self._waiting: dict[str, list[Waiting]] = {}

    def take_wanted(self) -> list[Initialization]:
        """Those that nobody has begun yet. Whoever takes them has to say what came of them."""
        wanted, self._wanted = self._wanted, []
        return wanted

    @property
    def is_wanted(self) -> bool:
        return bool(self._wanted)

    def not_under_way(self, group_id: str, missing: ByTopic, now: float) -> ByTopic:
        """Those that nobody has begun."""
        for each in self._under_way.get(group_id, ()):
            if each.until > now:
                missing = without(missing, each.initialization.partitions)
        return missing

    def begin(self, initialization: Initialization, until: float) -> None:
        self._wanted.append(initialization)
        under_way = self._under_way.setdefault(initialization.group_id, [])
        under_way.append(_UnderWay(initialization, until))

    def end(self, initialization: Initialization) -> None:
        """It is done, or has failed, or never was written down."""
        self._wanted = [each for each in self._wanted if each is not initialization]
        group_id = initialization.group_id
        left = [
            each
            for each in self._under_way.get(group_id, ())
            if each.initialization is not initialization
        ]
        if left:
            self._under_way[group_id] = left
        else:
            self._under_way.pop(group_id, None)

    def is_under_way(self, group_id: str, topics: Collection[str], now: float) -> bool:
        """Whether partitions of one of these topics are about to be there."""
        return any(
            each.until > now
            and any(known.name in topics for known in each.initialization.partitions.values())
            for each in self._under_way.get(group_id, ())
        )

    def wait(self, group_id: str, waiting: Waiting) -> None:
        self._waiting.setdefault(group_id, []).append(waiting)

    def is_waited_for(self, group_id: str) -> bool:
        return group_id in self._waiting

    def take_waiting(self, group_id: str) -> Waiting | None:
        """Who has waited for longest."""
        waiting = self._waiting.get(group_id)
        if not waiting:
            return None
        first = waiting.pop(0)
        if not waiting:
            del self._waiting[group_id]
        return first

    def forget(self, group_id: str, ticket: Ticket) -> None:
        """It waits no longer."""
        left = [each for each in self._waiting.get(group_id, ()) if each.ticket != ticket]
        if left:
            self._waiting[group_id] = left
        else:
            self._waiting.pop(group_id, None)
