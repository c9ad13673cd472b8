"""How parts of topics are named, and how Spark is told of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from spark_jobs.ranges import Range, parse_ranges, range_options, time_options


def test_ranges_may_be_open_at_either_end() -> None:
    found = parse_ranges("0:100-200, 1:50-,2:-7,3:-")
    assert found == [Range(0, 100, 200), Range(1, 50, -1), Range(2, -2, 7), Range(3, -2, -1)]


@pytest.mark.parametrize("text", ["", "0", "0:1", "a:1-2", "0:1-2,", "0:1-2-3", "0:-1-2"])
def test_what_is_no_range_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="is not PARTITION:START-END"):
        parse_ranges(text)


def test_only_partitions_that_are_named_are_read() -> None:
    options = range_options("orders", [Range(1, 50, -1)])
    assert {key: json.loads(text) for key, text in options.items()} == {
        "assign": {"orders": [1]},
        "startingOffsets": {"orders": {"1": 50}},
        "endingOffsets": {"orders": {"1": -1}},
    }


def test_times_are_told_in_milliseconds() -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    options = time_options("orders", since, None)
    assert options["startingTimestamp"] == "1767225600000"
    assert "endingTimestamp" not in options
    assert time_options("orders", None, since) == {
        "subscribe": "orders",
        "endingTimestamp": "1767225600000",
    }
