"""The ways to share out partitions, by the names that members and brokers call them.

An assignor is a pure function: the same group gets the same target, and one that changes little
keeps most of what it had. Kafka's look at no racks, and neither do these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from pyk.coordinator.assigned import NO_PARTITIONS, Partitions, Targets
from pyk.types import Uuid


class Subscriber(NamedTuple):
    """A member, as far as it matters to an assignor."""

    topics: frozenset[Uuid]
    """What it subscribes to of the topics that there are."""
    target: Partitions = NO_PARTITIONS
    """What it was to have until now."""
    instance_id: str | None = None


Assignor: TypeAlias = Callable[[Mapping[str, Subscriber], Mapping[Uuid, int]], Targets]
"""From members, and how many partitions each topic has that one of them subscribes to."""

UNIFORM: Final = "uniform"
RANGE: Final = "range"
