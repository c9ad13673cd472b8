"""What groups have in common whose members are assigned their partitions by the broker."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from pyk.errors import ErrorCode, KafkaError
from pyk.metadata.image import ClusterImage
from pyk.types import Uuid

if TYPE_CHECKING:
    from collections import Counter

JOINING: Final = 0
"""The epoch of a member that joins, or begins anew."""
LEAVING: Final = -1

FIRST_EPOCH: Final = 1
"""Of a group that nothing was written of yet, and of its empty target."""
NEVER: Final = 0
"""The time at which the target was made, if it never was."""

RETRY_AFTER: Final = 1.0
"""When to try again what the log has refused, in seconds."""
RETRY_MAX: Final = 60.0
"""Where that is work: it grows up to there, as long as the log refuses."""

Partitions: TypeAlias = Mapping[Uuid, frozenset[int]]
"""What somebody should have, by topic. No topic is there without partitions."""
NO_PARTITIONS: Final[Partitions] = MappingProxyType({})
Targets: TypeAlias = dict[str, dict[Uuid, frozenset[int]]]
"""By the ids of members. Every member is there."""


def count(counts: Counter[str], names: Iterable[str], step: int) -> None:
    """What nobody names is not there, so that the keys are what somebody does."""
    for name in names:
        counts[name] += step
        if not counts[name]:
            del counts[name]


def topic_ids(names: Iterable[str], image: ClusterImage) -> frozenset[Uuid]:
    """Of those that there are."""
    return frozenset(image.topics[name].topic_id for name in names if name in image.topics)


class TopicIds:
    """Those of subscriptions, of which a group has few that differ."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._known: dict[frozenset[str], frozenset[Uuid]] = {}

    def of(self, names: frozenset[str]) -> frozenset[Uuid]:
        known = self._known.get(names)
        if known is None:
            known = self._known[names] = topic_ids(names, self._image)
        return known


def may_be_made(last_timestamp: int, interval_ms: int, now_ms: int) -> bool:
    """Whether the last target is old enough: who joins in the meantime is assigned with the others.

    A time that is still to come means that somebody has set the clock back.
    """
    if last_timestamp == NEVER:
        return True
    return not 0 <= now_ms - last_timestamp < interval_ms


def check_not_blank(text: str | None, field: str) -> None:
    """Raise KafkaError."""
    if text is not None and not text.strip():
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{field} can't be empty.")
