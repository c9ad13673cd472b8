"""Which offsets a user means: rpk's notation for where to begin and where to stop.

start  end  47  +2  -3        from the beginning, the end, an offset, two after the beginning,
                              three before the end
47:  :47  2:5  start:+10      ranges; the end is not included, and may be left out
@T  @T:  @:T  @T1:T2          by time
T: 1700000000 or 1700000000000 (seconds, milliseconds), 2026-11-17, 2026-11-17T12:00:00Z,
   2026-11-17T14:00+02:00, -1h30m (before now), and as T2 also 1h (after T1) and end

Times have colons, too: what is a time as a whole is no range. A range that ends before it starts is
wrong usage, and so is a text that can be read as more than one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import click

from pyk.client.cluster import Cluster
from pyk.client.offsets import EARLIEST, LATEST, Isolation, find_offsets
from pyk.client.reading import Span
from pyk.types import TopicPartition

_EXACT: Final = re.compile(r"[0-9]+")
_RELATIVE: Final = re.compile(r"[+-][0-9]+")
_ISO_TIME: Final = re.compile(r"[^:]*|[^:Tt ]+[Tt ].*")
"""Python takes anything for the letter between date and time, also a colon."""
_DURATION: Final = re.compile(r"-?(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_ISO_DURATION: Final = re.compile(
    r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
_INT64_MAX: Final = 2**63 - 1
_UNIT_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Point(NamedTuple):
    """A place in every partition: an exact offset, or so many from the start or the end."""

    origin: str
    """`offset`, `start`, `end` or `time`."""
    amount: int = 0
    """The offset; what to add to the origin; or milliseconds since 1970."""


class Offsets(NamedTuple):
    begin: Point
    stop: Point | None
    """None to go on for ever."""

    def resolve(
        self,
        cluster: Cluster,
        partitions: Sequence[TopicPartition],
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        *,
        stops_at_end: bool = False,
    ) -> dict[TopicPartition, Span]:
        """The offsets of each partition. Raise KafkaError."""
        starts = find_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        ends = find_offsets(cluster, dict.fromkeys(partitions, LATEST), isolation)
        begins = resolve_point(cluster, self.begin, starts, ends)
        stop = self.stop or (Point("end") if stops_at_end else None)
        if stop is None:
            return {p: Span(begins[p]) for p in partitions}
        stops = resolve_point(cluster, stop, starts, ends)
        if stops_at_end:
            stops = {p: min(stops[p], ends[p]) for p in partitions}
        return {p: Span(begins[p], stops[p]) for p in partitions}


def parse_offsets(text: str, now: float) -> Offsets:
    """What the notation says. Raise UsageError."""
    if text.startswith("@"):
        found = _timed(text[1:], int(now * 1000))
    else:
        first, colon, last = text.partition(":")
        begin = _point(first, text) if first or not colon else Point("start")
        found = Offsets(begin, _point(last, text) if last else None)
    begin, stop = found
    if stop is not None and stop.origin == begin.origin and stop.amount < begin.amount:
        raise click.UsageError(f"{text!r} ends before it starts")
    return found


def parse_point(
    text: str, now: float, known: str = "earliest, latest, current, 47, +2, -3, @2026-11-17 or @-1h"
) -> Point:
    """One place, without a range. Raise UsageError, which says what is known."""
    if text.startswith("@"):
        return Point("time", parse_time(text[1:], int(now * 1000)))
    return _point(text, text, known)


def _point(
    text: str, whole: str, known: str = "start, end, 47, +2, -3, 10:20, @2026-11-17 and so on"
) -> Point:
    if text in ("start", "beginning", "earliest"):
        return Point("start")
    if text in ("end", "latest"):
        return Point("end")
    if _EXACT.fullmatch(text) and int(text) <= _INT64_MAX:
        return Point("offset", int(text))
    if _RELATIVE.fullmatch(text):
        return Point("start" if text[0] == "+" else "end", int(text))
    raise click.UsageError(f"{whole!r} is not an offset: {known}")


def _timed(text: str, now_ms: int) -> Offsets:
    if not text.strip(":"):
        raise click.UsageError("there is no time after the @")
    whole = _time(text, now_ms)
    if whole is not None:
        return Offsets(Point("time", whole), None)
    colons = (at for at, letter in enumerate(text) if letter == ":")
    ranges = {found for at in colons if (found := _range(text[:at], text[at + 1 :], now_ms))}
    if len(ranges) > 1:
        raise click.UsageError(f"{text!r} can be read as more than one range of times")
    if not ranges:
        raise _not_a_time(text)
    return ranges.pop()


def _range(first: str, last: str, now_ms: int) -> Offsets | None:
    """What is between two times, if that is what they are."""
    t1 = _time(first, now_ms) if first else None
    if first and t1 is None:
        return None
    begin = Point("start") if t1 is None else Point("time", t1)
    if last in ("", "end"):
        return Offsets(begin, Point("end") if last else None)
    if t1 is not None and _DURATION.fullmatch(last) and not last.startswith("-"):
        return Offsets(begin, Point("time", t1 + _milliseconds(last)))
    t2 = _time(last, now_ms)
    return None if t2 is None else Offsets(begin, Point("time", t2))


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970. Raise UsageError."""
    found = _time(text, now_ms)
    if found is None:
        raise _not_a_time(text)
    return found


def _time(text: str, now_ms: int) -> int | None:
    if text.isdecimal():
        return int(text) if len(text) > 11 else int(text) * 1000
    if _DURATION.fullmatch(text) and text.startswith("-"):
        return now_ms + _milliseconds(text)
    if not _ISO_TIME.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _not_a_time(text: str) -> click.UsageError:
    return click.UsageError(
        f"{text!r} is not a time: 1700000000, 2026-11-17, 2026-11-17T12:00:00Z, -1h30m"
    )


def parse_duration(text: str) -> int:
    """Milliseconds: 1h30m, or PT1H30M as Kafka's tools have it. Raise UsageError."""
    if found := _ISO_DURATION.fullmatch(text):
        parts = zip(found.groups(), ("d", "h", "m", "s"), strict=True)
        return sum(round(float(number or 0) * _UNIT_MS[unit]) for number, unit in parts)
    if _DURATION.fullmatch(text) and not text.startswith("-"):
        return _milliseconds(text)
    raise click.UsageError(f"{text!r} is not a duration: 1h30m, 10s, 7d or PT1H30M")


def _milliseconds(duration: str) -> int:
    total = sum(float(number) * _UNIT_MS[unit] for number, unit in _PART.findall(duration))
    return -round(total) if duration.startswith("-") else round(total)


def resolve_point(
    cluster: Cluster,
    point: Point,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The offset that is meant in each partition, of which starts and ends are known. Raise
    KafkaError."""
    match point.origin:
        case "offset":
            return dict.fromkeys(starts, point.amount)
        case "start":
            return {p: min(start + point.amount, ends[p]) for p, start in starts.items()}
        case "end":
            return {p: max(end + point.amount, starts[p]) for p, end in ends.items()}
    # To brokers what is below 0 is no time, but the start, the end, or another thing.
    moment = min(max(point.amount, 0), _INT64_MAX)
    found = find_offsets(cluster, dict.fromkeys(starts, moment))
    return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}
