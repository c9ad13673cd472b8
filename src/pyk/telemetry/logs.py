"""Log lines, for people or for programs.

    2026-01-31T12:00:00.000Z INFO pyk.broker serving topic=orders
    {"time": "2026-01-31T12:00:00.000Z", "level": "INFO", "logger": "pyk.broker", "message": ...}

What is given as `extra` to a logger is a field of its own in both.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any, Final

FORMATS: Final = ("text", "json")
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_PLAIN: Final = re.compile(r'[^\s"=]+')


def configure(format: str, level: str) -> None:
    """Let the lines of all loggers go to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if format == "json" else TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_shown(value)}" for name, value in _extra(record).items())
        # A client's words in it must not look like a line of their own.
        message = record.getMessage().replace("\n", "\\n")
        line = f"{_time(record)} {record.levelname} {record.name} {message}{fields}"
        trace = _trace(self, record)
        return f"{line}\n{trace}" if trace else line


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        trace = _trace(self, record)
        if trace:
            line["exception"] = trace
        return json.dumps(line, default=str, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    when = datetime.fromtimestamp(record.created, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info else ""


def _shown(value: object) -> str:
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
