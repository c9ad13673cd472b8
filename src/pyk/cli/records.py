"""How records are shown: as objects of JSON, and as lines for people."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

from pyk.cli.output import printable
from pyk.wire.records import Record


def as_document(record: Record) -> dict[str, Any]:
    """What is not UTF-8 is in base64, under a name that says so."""
    document: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    document |= _text("key", record.key) | _text("value", record.value)
    document["headers"] = [
        _text("key", name.encode("utf-8", "surrogateescape")) | _text("value", value)
        for name, value in record.headers
    ]
    return document


def as_text(document: dict[str, Any]) -> str:
    """One line of what `as_document` made, in which nothing moves the cursor."""
    parts = [str(document["offset"]), moment(document["timestamp"])]
    if "control" in document:
        return "  ".join([*parts, document["control"]])
    if "type" in document:
        return "  ".join(
            [*parts, document["type"], *map(_json, (document["key"], document["value"]))]
        )
    parts += [_shown("key", document), _shown("value", document)]
    parts += [f"{_shown('key', each)}={_shown('value', each)}" for each in document["headers"]]
    return "  ".join(parts)


def _json(value: dict[str, Any] | None) -> str:
    if value is None:
        return "-"
    return printable(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def moment(timestamp: int) -> str:
    if timestamp < 0:
        return "-"
    try:
        found = datetime.fromtimestamp(timestamp / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp)
    return found.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _shown(name: str, document: dict[str, Any]) -> str:
    if f"{name}_base64" in document:
        data = base64.b64decode(document[f"{name}_base64"])
        return printable(data.decode("utf-8", "backslashreplace"))
    text = document[name]
    return "-" if text is None else printable(text) or '""'
