"""What the conditions of a query say about where its rows can be.

Conditions come as PySpark's filters (since Spark 4.1), which are joined by AND. Those on topic,
partition, offset and timestamp narrow the bounds. Spark checks all of them again, so bounds may be
wider than what was asked for, and never narrower.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyk.types import TopicPartition

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Interval:
    """Whole numbers, half open."""

    start: int = -INT64_MAX
    end: int = INT64_MAX

    def __contains__(self, number: int) -> bool:
        return self.start <= number < self.end

    def within(self, start: int = -INT64_MAX, end: int = INT64_MAX) -> Interval:
        return Interval(max(self.start, start), min(self.end, end))


@dataclass(frozen=True, slots=True)
class Bounds:
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    """Those that are named; all if none is."""
    partition: Interval = Interval()
    offset: Interval = Interval()
    timestamp_ms: Interval = Interval()

    def has(self, partition: TopicPartition) -> bool:
        return (
            (self.topics is None or partition.topic in self.topics)
            and (self.partitions is None or partition.partition in self.partitions)
            and partition.partition in self.partition
        )


EVERYTHING: Final = Bounds()


def narrowed(bounds: Bounds, filters: Iterable[Any]) -> Bounds:
    """The bounds with what filters say, as far as they say anything about places."""
    for each in filters:
        name = type(each).__name__
        path: tuple[str, ...] = getattr(each, "attribute", ())
        value = getattr(each, "value", None)
        if len(path) != 1 or value is None:
            continue
        match path[0].lower():
            case "topic":
                bounds = replace(bounds, topics=_named(bounds.topics, name, value))
            case "partition":
                bounds = replace(
                    bounds,
                    partitions=_named(bounds.partitions, name, value),
                    partition=_narrowed(bounds.partition, name, value),
                )
            case "offset":
                bounds = replace(bounds, offset=_narrowed(bounds.offset, name, value))
            case "timestamp":
                interval = _narrowed_by_time(bounds.timestamp_ms, name, value)
                bounds = replace(bounds, timestamp_ms=interval)
    return bounds


def _named(known: frozenset[Any] | None, name: str, value: Any) -> frozenset[Any] | None:
    match name:
        case "EqualTo" | "EqualNullSafe":
            named = frozenset([value])
        case "In":
            named = frozenset(value)
        case _:
            return known
    return named if known is None else known & named


def _narrowed(interval: Interval, name: str, value: Any) -> Interval:
    values = value if name == "In" else (value,)
    if not values or not all(isinstance(each, int) for each in values):
        return interval
    lowest, highest = min(values), max(values)
    match name:
        case "EqualTo" | "EqualNullSafe" | "In":
            return interval.within(lowest, highest + 1)
        case "GreaterThan":
            return interval.within(start=lowest + 1)
        case "GreaterThanOrEqual":
            return interval.within(start=lowest)
        case "LessThan":
            return interval.within(end=highest)
        case "LessThanOrEqual":
            return interval.within(end=highest + 1)
        case _:
            return interval


def _narrowed_by_time(interval: Interval, name: str, value: Any) -> Interval:
    """Records have whole milliseconds, the condition may be finer."""
    values = value if name == "In" else (value,)
    if not values or not all(isinstance(each, datetime) and each.tzinfo for each in values):
        return interval
    since = [each - _EPOCH for each in values]
    floors = [each // _MILLISECOND for each in since]
    ceilings = [-(-each // _MILLISECOND) for each in since]
    match name:
        case "LessThan" | "GreaterThanOrEqual":
            return _narrowed(interval, name, ceilings[0])
        case "In":
            return _narrowed(interval, name, tuple(floors))
        case _:
            return _narrowed(interval, name, floors[0])
