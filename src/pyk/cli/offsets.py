"""Which offsets a user means: rpk's notation for where to begin and where to stop.

start  end  47  +2  -3        from the beginning, the end, an offset, two after the beginning,
                              three before the end
47:  :47  2:5  start:+10      ranges; the end is not included, and may be left out
@T  @T:  @:T  @T1:T2          by time
T: 1700000000 or 1700000000000 (seconds, milliseconds), 2026-11-17, 2026-11-17T12:00:00Z,
   -1h30m (before now), and as T2 also 1h (after T1) and end
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
_TIMED_RANGE: Final = re.compile(
    r"(?P<t1>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^:]*|[^:]*)(?P<colon>:)?(?P<t2>.*)"
)
_DURATION: Final = re.compile(r"-?(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_ISO_DURATION: Final = re.compile(
    r"P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
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
        return _timed(text[1:], int(now * 1000))
    first, colon, last = text.partition(":")
    if not colon:
        return Offsets(_point(first, text), None)
    begin = _point(first, text) if first else Point("start")
    return Offsets(begin, _point(last, text) if last else None)


def parse_point(text: str, now: float) -> Point:
    """One place, without a range. Raise UsageError."""
    if text.startswith("@"):
        return Point("time", parse_time(text[1:], int(now * 1000)))
    return _point(text, text, known="earliest, latest, current, 47, +2, -3, @2026-11-17 or @-1h")


def _point(
    text: str, whole: str, known: str = "start, end, 47, +2, -3, 10:20, @2026-11-17 and so on"
) -> Point:
    if text in ("start", "beginning", "earliest"):
        return Point("start")
    if text in ("end", "latest"):
        return Point("end")
    if _EXACT.fullmatch(text):
        return Point("offset", int(text))
    if _RELATIVE.fullmatch(text):
        return Point("start" if text[0] == "+" else "end", int(text))
    raise click.UsageError(f"{whole!r} is not an offset: {known}")


def _timed(text: str, now_ms: int) -> Offsets:
    found = _TIMED_RANGE.fullmatch(text)
    assert found is not None
    t1, t2 = found["t1"], found["t2"]
    if not (t1 or t2):
        raise click.UsageError("there is no time after the @")
    begin = Point("time", parse_time(t1, now_ms)) if t1 else Point("start")
    if not t2:
        return Offsets(begin, None)
    if t2 == "end":
        return Offsets(begin, Point("end"))
    if t1 and _DURATION.fullmatch(t2) and not t2.startswith("-"):
        return Offsets(begin, Point("time", begin.amount + _milliseconds(t2)))
    return Offsets(begin, Point("time", parse_time(t2, now_ms)))


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970. Raise UsageError."""
    if text.isdecimal():
        return int(text) if len(text) > 11 else int(text) * 1000
    if _DURATION.fullmatch(text) and text.startswith("-"):
        return now_ms + _milliseconds(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"{text!r} is not a time: 1700000000, 2026-11-17, 2026-11-17T12:00:00Z, -1h30m"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


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
    found = find_offsets(cluster, dict.fromkeys(starts, point.amount))
    return {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}
