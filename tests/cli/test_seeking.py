"""Which partitions and offsets a user means, and what lag is."""

from __future__ import annotations

import click
import pytest

from pyk.cli.group_description import lag
from pyk.cli.offsets import Point, parse_duration, parse_point
from pyk.cli.seeking import Named, parse_plan, parse_topics
from pyk.types import TopicPartition

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("orders", [Named("orders", ())]),
        ("orders,audit", [Named("orders", ()), Named("audit", ())]),
        ("orders:0", [Named("orders", (0,))]),
        ("orders:0,2", [Named("orders", (0, 2))]),
    ],
)
def test_topics_are_named_with_or_without_partitions(text: str, found: list[Named]) -> None:
    assert parse_topics([text]) == found


@pytest.mark.parametrize("text", ["orders:", ":0", "orders:x", "orders:0,", "orders:-1", "a:0;b:1"])
def test_what_is_no_topic_with_partitions_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="is not a topic"):
        parse_topics([text])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("earliest", Point("start")),
        ("latest", Point("end")),
        ("47", Point("offset", 47)),
        ("+2", Point("start", 2)),
        ("-3", Point("end", -3)),
        ("@1700000000", Point("time", 1_700_000_000_000)),
        ("@2023-11-14T22:13:20Z", Point("time", 1_700_000_000_000)),
        ("@-1m", Point("time", 1_699_999_940_000)),
    ],
)
def test_one_place_is_named_as_consume_names_where_to_begin(text: str, found: Point) -> None:
    assert parse_point(text, NOW) == found


@pytest.mark.parametrize("text", ["", "10:20", "47:", "@", "@1:2", "soon", "@soon"])
def test_a_range_is_no_place(text: str) -> None:
    with pytest.raises(click.UsageError):
        parse_point(text, NOW)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1h30m", 5_400_000),
        ("10s", 10_000),
        ("PT1H30M", 5_400_000),
        ("P1DT2H", 93_600_000),
        ("P7D", 604_800_000),
        ("PT0.5S", 500),
    ],
)
def test_a_duration_is_ours_or_kafkas(text: str, found: int) -> None:
    assert parse_duration(text) == found


@pytest.mark.parametrize("text", ["", "P", "PT", "P1DT", "-1h", "1", "1 h", "PT1H30"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize(
    "lines",
    [
        ["orders,0,5", "audit,2,7"],
        ["orders 0 5", "audit\t2\t7", ""],
        ["billing,orders,0,5", "billing,audit,2,7", "other,orders,1,9"],
        ['"orders",0,5\r\n', '"audit",2,7\r\n'],
    ],
)
def test_a_plan_is_read_as_kafkas_tool_and_rpk_write_it(lines: list[str]) -> None:
    assert parse_plan(lines, "billing", "saved").offsets == {
        TopicPartition("orders", 0): 5,
        TopicPartition("audit", 2): 7,
    }


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["orders,0,5", "orders,0"], "line 2 of saved is not of the form"),
        (["orders,zero,5"], "line 1 of saved is not of the form"),
        (["orders,0,-1"], "line 1 of saved is not of the form"),
        (["TOPIC,PARTITION,OFFSET"], "line 1 of saved is not of the form"),
        (["other,orders,0,5"], "saved has no offsets for billing"),
        ([], "saved has no offsets for billing"),
    ],
)
def test_what_is_no_plan_is_refused_by_its_line(lines: list[str], said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        parse_plan(lines, "billing", "saved")


@pytest.mark.parametrize(
    ("committed", "start", "end", "found"),
    [
        (3, 0, 10, 7),
        (10, 0, 10, 0),
        (3, 5, 10, 5),
        (12, 0, 10, 0),
        (None, 0, 10, None),
        (3, None, None, None),
    ],
)
def test_lag_is_what_is_left_of_what_is_there(
    committed: int | None, start: int | None, end: int | None, found: int | None
) -> None:
    assert lag(committed, start, end) == found
