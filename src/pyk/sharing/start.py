"""Where a share group begins to read a partition, by its `share.auto.offset.reset`."""

from __future__ import annotations

from typing import Final, NamedTuple

from pyk.config.group import BY_DURATION, seconds_of
from pyk.log.index import TimedOffset
from pyk.log.timestamps import TimestampSearch
from pyk.replication.partition import Partition

EARLIEST: Final = "earliest"
LATEST: Final = "latest"


class StartingPoint(NamedTuple):
    back_ms: int | None
    """How far back from now. None is as far as there is."""

    @classmethod
    def parse(cls, text: str) -> StartingPoint:
        """What the configuration has been checked to be."""
        if text == EARLIEST:
            return cls(None)
        if text == LATEST:
            return cls(0)
        seconds = seconds_of(text.removeprefix(BY_DURATION))
        assert seconds is not None, text
        return cls(int(seconds * 1000))

    def begin(self, partition: Partition, now_ms: int) -> int | TimestampSearch:
        """The offset, or what is to be run in any thread to find it: then `end_search` is told. If
        there is nothing so late yet, the end is where it will be."""
        offsets = partition.offsets
        if self.back_ms is None:
            return offsets.start
        if self.back_ms == 0:
            return offsets.high_watermark
        return _offset(partition, partition.log.begin_find_timestamp(now_ms - self.back_ms))


def end_search(partition: Partition, search: TimestampSearch) -> int | TimestampSearch:
    """The offset, or what is to be run next."""
    return _offset(partition, partition.log.end_find_timestamp(search))


def _offset(
    partition: Partition, found: TimedOffset | TimestampSearch | None
) -> int | TimestampSearch:
    if isinstance(found, TimestampSearch):
        return found
    end = partition.offsets.high_watermark
    return end if found is None else min(found.offset, end)
