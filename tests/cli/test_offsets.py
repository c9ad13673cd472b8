"""The notation of offsets and times."""

from __future__ import annotations

import click
import pytest

from pyk.cli.offsets import Offsets, Point, parse_offsets

NOW = 1_700_000_000.0
NOW_MS = 1_700_000_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
START, END = Point("start"), Point("end")
NEW_YEAR = 1_767_225_600_000
AT_NOON = "2026-01-01T12:00:00Z"
NOON = Point("time", NEW_YEAR + 12 * HOUR)
ONE = Point("time", NEW_YEAR + 13 * HOUR)


@pytest.mark.parametrize(
    ("text", "begin", "stop"),
    [
        ("start", START, None),
        ("end", END, None),
        ("47", Point("offset", 47), None),
        ("47:", Point("offset", 47), None),
        ("+2", Point("start", 2), None),
        ("-3", Point("end", -3), None),
        (":end", START, END),
        (":47", START, Point("offset", 47)),
        ("10:20", Point("offset", 10), Point("offset", 20)),
        ("-10:end", Point("end", -10), END),
        ("@1700000000", Point("time", NOW_MS), None),
        ("@1700000000000", Point("time", NOW_MS), None),
        ("@2026-01-01", Point("time", NEW_YEAR), None),
        ("@2026-01-01T00:00:00Z", Point("time", NEW_YEAR), None),
        ("@2026-01-01T00:00:00.250Z:", Point("time", NEW_YEAR + 250), None),
        ("@2026-01-01:2026-01-02", Point("time", NEW_YEAR), Point("time", NEW_YEAR + DAY)),
        (
            "@2026-01-01T00:00:00Z:2026-01-01T01:00:00Z",
            Point("time", NEW_YEAR),
            Point("time", NEW_YEAR + HOUR),
        ),
        ("@2026-01-01:1h", Point("time", NEW_YEAR), Point("time", NEW_YEAR + HOUR)),
        ("@-48h:-24h", Point("time", NOW_MS - 2 * DAY), Point("time", NOW_MS - DAY)),
        ("@-1h30m", Point("time", NOW_MS - HOUR * 3 // 2), None),
        ("@-1m:end", Point("time", NOW_MS - 60_000), END),
        ("@:-1h", START, Point("time", NOW_MS - HOUR)),
        ("@2026-01-01T12", NOON, None),
        ("@2026-01-01T12:00", NOON, None),
        ("@2026-01-01 12:00", NOON, None),
        ("@2026-01-01T12:00Z", NOON, None),
        ("@2026-01-01T12:00:00", NOON, None),
        ("@2026-01-01T12:00:00.000", NOON, None),
        ("@2026-01-01T12:00:00.000001Z", NOON, None),
        ("@2026-01-01T14:00+02:00", NOON, None),
        ("@2026-01-01T14:00:00+02:00", NOON, None),
        ("@2026-01-01T14:00:00.000+0200", NOON, None),
        ("@2026-01-01T08:30:00-03:30", NOON, None),
        ("@2026-01-01T12:00:", NOON, None),
        ("@2026-01-01T12:", NOON, None),
        ("@:2026-01-01T12:00", START, NOON),
        ("@:2026-01-01T14:00:00+02:00", START, NOON),
        ("@2026-01-01T12:00:end", NOON, END),
        ("@2026-01-01T12:00:1h", NOON, ONE),
        ("@2026-01-01T12:1h", NOON, ONE),
        ("@2026-01-01T14:00:00+02:00:1h", NOON, ONE),
        ("@2026-01-01T14+02:1h", NOON, ONE),
        ("@2026-01-01T12:00:2026-01-01T13:00", NOON, ONE),
        ("@2026-01-01T14:00+02:00:2026-01-01T14:00+01:00", NOON, ONE),
        ("@2026-01-01T12:00:00.000Z:2026-01-01T13:00:00.000Z", NOON, ONE),
        (f"@{AT_NOON}:{ONE.amount}", NOON, ONE),
        (f"@{NOON.amount}:{ONE.amount // 1000}", NOON, ONE),
        (f"@{NOON.amount}:1h", NOON, ONE),
        (f"@-10s:{AT_NOON}", Point("time", NOW_MS - 10_000), NOON),
        ("@-2h:-90m", Point("time", NOW_MS - 2 * HOUR), Point("time", NOW_MS - HOUR * 3 // 2)),
        ("@-2h:30m", Point("time", NOW_MS - 2 * HOUR), Point("time", NOW_MS - HOUR * 3 // 2)),
        ("@1969-12-31T23:59:59.999Z", Point("time", -1), None),
        ("10:10", Point("offset", 10), Point("offset", 10)),
    ],
)
def test_the_notation_is_read(text: str, begin: Point, stop: Point | None) -> None:
    assert parse_offsets(text, NOW) == Offsets(begin, stop)


@pytest.mark.parametrize(
    "text",
    [
        "20:10",
        "+2:+1",
        "-3:-5",
        "@-1h:-2h",
        f"@{AT_NOON}:2026-01-01",
        f"@{AT_NOON}:30",
        f"@{AT_NOON}:1700000000",
    ],
)
def test_a_range_that_ends_before_it_starts_is_wrong_usage(text: str) -> None:
    with pytest.raises(click.UsageError, match="ends before it starts"):
        parse_offsets(text, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "", "middle", "1:2:3", "4.5", "@", "@:", "@::", "@noon", "@1h", "--3", "@-5", "@:1h",
        "@2026-01-01T25:00", "@2026-01-01T12:00+99:00", "@2026-01-01T12:00:-", "@-1h:noon",
        "@2026-01-01T12:00:2026-01-01T13:00:2026-01-01T14:00", "9223372036854775808",
    ],
)  # fmt: skip
def test_what_it_does_not_have_is_wrong_usage(text: str) -> None:
    with pytest.raises(click.UsageError):
        parse_offsets(text, NOW)
