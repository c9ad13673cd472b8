"""Parts of topics, by offsets or by time, and how Spark's Kafka source is told of them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

EARLIEST: Final = -2
LATEST: Final = -1
"""As offsets that Spark is told."""


class Range(NamedTuple):
    """Offsets of a partition, half open."""

    partition: int
    start: int
    end: int


def parse_ranges(text: str) -> list[Range]:
    """As `0:100-200,1:50-,2:-7`. Raise ValueError."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+):(\d*)-(\d*)", part.strip())
        if match is None:
            raise ValueError(f"{part!r} is not PARTITION:START-END")
        partition, start, end = match.groups()
        found.append(
            Range(int(partition), int(start) if start else EARLIEST, int(end) if end else LATEST)
        )
    return found


def range_options(topic: str, ranges: list[Range]) -> dict[str, str]:
    """What Spark's source is to be told."""
    starts = {str(each.partition): each.start for each in ranges}
    ends = {str(each.partition): each.end for each in ranges}
    return {
        "assign": json.dumps({topic: [each.partition for each in ranges]}),
        "startingOffsets": json.dumps({topic: starts}),
        "endingOffsets": json.dumps({topic: ends}),
    }


def time_options(topic: str, since: datetime | None, until: datetime | None) -> dict[str, str]:
    """From the first record at or after `since` to the last before `until`."""
    options = {"subscribe": topic}
    if since is not None:
        options["startingTimestamp"] = str(_milliseconds(since))
        # Where a partition has nothing as late as that, there is nothing to read.
        options["startingOffsetsByTimestampStrategy"] = "latest"
    if until is not None:
        options["endingTimestamp"] = str(_milliseconds(until))
    return options


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
