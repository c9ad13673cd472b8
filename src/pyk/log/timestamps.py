"""Searches of a log by time: what takes long is handed out to be run in any thread.

    begin -> TimedOffset | None
          -> TimestampSearch: run it anywhere -> end -> TimedOffset | None, or the next search

- A few headers and a small batch are looked at without a thread, which is enough for most logs.
- A log that is compacted, retired or truncated meanwhile is searched again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from pyk.log.batches import Stretch, TakesLong, first_in, newest_first, newest_in
from pyk.log.index import TimedOffset
from pyk.log.segment import Segment
from pyk.log.segments import Segments
from pyk.wire.compression import CorruptBatch

CHEAP_SEGMENTS: Final = 100
"""How many segments are opened before others have a turn."""
OPENING_COSTS: Final = 20
"""How many may be looked at instead of one, if they were open before."""

Steps: TypeAlias = "Generator[TimestampSearch, None, TimedOffset | None]"


class TimestampSearch:
    """What takes long of a search."""

    def __init__(self, look: Callable[[], TimedOffset | None]) -> None:
        self.found: TimedOffset | None = None
        self.damage: CorruptBatch | None = None
        """What was met, which is none if the log was truncated meanwhile."""
        self._look = look
        self._rest: Steps | None = None
        """What to do with that."""

    def run(self) -> None:
        """To be called in any thread. Raise OSError."""
        try:
            self.found = self._look()
        except CorruptBatch as damage:
            self.damage = damage

    def end(self) -> TimedOffset | TimestampSearch | None:
        assert self._rest is not None
        return begin(self._rest)

    def begin(self, rest: Steps) -> None:
        self._rest = rest


def begin(steps: Steps) -> TimedOffset | TimestampSearch | None:
    """The answer, or what is to be run first."""
    try:
        search = next(steps)
    except StopIteration as done:
        found: TimedOffset | None = done.value
        return found
    search.begin(steps)
    return search


def run_through(steps: Steps) -> TimedOffset | None:
    """The answer, however long it takes."""
    found = begin(steps)
    while isinstance(found, TimestampSearch):
        found.run()
        found = found.end()
    return found


def first_record(segments: Segments, timestamp: int, start: Callable[[], int]) -> Steps:
    """The first record at or after that time, and not before where the log starts."""
    while True:
        try:
            found = yield from _first_record(segments, timestamp, start())
        except _HasChanged:
            continue
        if found is None or start() <= found.offset < segments.end_offset:
            return found


def newest_record(segments: Segments, start: Callable[[], int]) -> Steps:
    """The first record of the largest timestamp."""
    while True:
        try:
            found = yield from _newest_record(segments, start())
        except _HasChanged:
            continue
        if found is None or start() <= found.offset < segments.end_offset:
            return found


class _HasChanged(Exception):
    """A segment that was to be looked into is not there any more."""


def _first_record(segments: Segments, timestamp: int, start_offset: int) -> Steps:
    for base in _in_turns(segments, segments.from_offset(start_offset)):
        if base is None:
            yield _turn()
            continue
        _check_has(segments, base)
        if segments.newest_timestamp(base) >= timestamp:
            bytes_max = segments.config.inflated_bytes_max
            segment = segments.at(base)
            found = yield from _first_in(segments, segment, timestamp, start_offset, bytes_max)
            if found is not None:
                return found
    return None


def _newest_record(segments: Segments, start_offset: int) -> Steps:
    # What a segment says of its newest record may be about one that has gone since.
    latest: list[tuple[int, int]] = []
    for base in _in_turns(segments, segments.from_offset(start_offset)):
        if base is None:
            yield _turn()
            continue
        _check_has(segments, base)
        newest = segments.newest_timestamp(base)
        if newest >= 0:
            latest.append((-newest, base))
    best: TimedOffset | None = None
    for negated, base in sorted(latest):
        if best is not None and best.timestamp > -negated:
            break
        _check_has(segments, base)
        bytes_max = segments.config.inflated_bytes_max
        segment = segments.at(base)
        found = yield from _first_in(segments, segment, -negated, start_offset, bytes_max)
        if found is None:
            # It may have been removed, or compacted, while a thread was looking.
            _check_has(segments, base)
            stretch = segments.at(base).stretch(start_offset)
            look = partial(newest_in, stretch, start_offset, bytes_max)
            found = yield from _elsewhere(segments, base, stretch, look)
        best = max(filter(None, (best, found)), key=newest_first, default=None)
    return best


def _in_turns(segments: Segments, bases: Sequence[int]) -> Iterator[int | None]:
    """The bases, and None where others have a turn."""
    spent = 0
    for base in bases:
        spent += 1 if segments.has_known_age(base) else OPENING_COSTS
        if spent >= CHEAP_SEGMENTS * OPENING_COSTS:
            yield None
            spent = 0
        yield base


def _turn() -> TimestampSearch:
    return TimestampSearch(lambda: None)


def _check_has(segments: Segments, base: int) -> None:
    if not segments.has(base):
        raise _HasChanged


def _first_in(
    segments: Segments,
    segment: Segment,
    timestamp: int,
    start_offset: int,
    inflated_bytes_max: int,
) -> Steps:
    stretch = segment.stretch_by_time(timestamp, start_offset)
    look = partial(first_in, stretch, timestamp, start_offset, inflated_bytes_max)
    try:
        return look(is_cheap=True)
    except TakesLong:
        pass
    return (yield from _elsewhere(segments, segment.base_offset, stretch, look))


def _elsewhere(
    segments: Segments, base: int, stretch: Stretch, look: Callable[[], TimedOffset | None]
) -> Steps:
    search = TimestampSearch(look)
    yield search
    if search.damage is not None:
        if segments.has(base) and segments.at(base).size >= stretch.end:
            raise search.damage
        raise _HasChanged
    return search.found
