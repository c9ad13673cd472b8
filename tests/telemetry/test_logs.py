"""Log lines: the same facts for people and for programs."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from pyk.telemetry.logs import JsonLines, TextLines

WHEN = 1_700_000_000.25


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    found = logging.LogRecord("pyk.broker", logging.WARNING, __file__, 1, message, arguments, None)
    found.created = WHEN
    vars(found).update(extra)
    return found


def test_a_line_for_people_has_time_level_logger_words_and_fields() -> None:
    line = TextLines().format(record("%s logs are damaged", 2, topic="orders", why="no space left"))
    assert line == (
        "2023-11-14T22:13:20.250Z WARNING pyk.broker 2 logs are damaged"
        ' topic=orders why="no space left"'
    )


def test_a_line_for_programs_is_an_object_with_the_same() -> None:
    line = JsonLines().format(record('%s "logs" are damaged', 2, topic="örders", partition=3))
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "WARNING",
        "logger": "pyk.broker",
        "message": '2 "logs" are damaged',
        "topic": "örders",
        "partition": 3,
    }


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()])
def test_what_a_client_says_cannot_begin_a_line_of_its_own(formatter: logging.Formatter) -> None:
    said = "x\n2023-11-14T22:13:20.250Z ERROR pyk.broker all is lost"
    line = formatter.format(record("a client says %s", said, also=said))
    assert "\n" not in line


@pytest.mark.parametrize("formatter", [TextLines(), JsonLines()])
def test_a_traceback_goes_with_its_line(formatter: logging.Formatter) -> None:
    failed = record("it failed")
    try:
        raise ZeroDivisionError("a bug")
    except ZeroDivisionError:
        failed.exc_info = sys.exc_info()
    line = formatter.format(failed)
    assert "ZeroDivisionError: a bug" in line
    assert isinstance(formatter, TextLines) or "exception" in json.loads(line)
