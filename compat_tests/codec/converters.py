"""pyk's messages in the JSON of Kafka's converters, so that both can be asked about one value."""

from __future__ import annotations

import base64
from typing import Any

from compat_tests.kafka.schemas import Field
from pyk.wire.message import layout


def in_json(message: Any, fields: tuple[Field, ...], version: int) -> dict[str, object]:
    """What Kafka's converter reads, and writes for a message of this version."""
    found: dict[str, object] = {}
    for ours, theirs in zip(layout(type(message)).fields, fields, strict=True):
        value = getattr(message, ours.name)
        if version in theirs.versions and (ours.tag is None or value != ours.default):
            found[theirs.json_name] = _value(value, theirs, version)
    return found


def absent_in_json(message: Any, fields: tuple[Field, ...], version: int) -> dict[str, object]:
    """The same, with the fields that the version lacks where they differ from their defaults."""
    found = in_json(message, fields, version)
    for ours, theirs in zip(layout(type(message)).fields, fields, strict=True):
        value = getattr(message, ours.name)
        if version not in theirs.versions and value != ours.default:
            found[theirs.json_name] = _value(value, theirs, version)
        elif theirs.fields and theirs.json_name in found and value is not None:
            parts = [
                absent_in_json(v, theirs.fields, version)
                for v in (value if theirs.is_array else [value])
            ]
            found[theirs.json_name] = parts if theirs.is_array else parts[0]
    return found


def _value(value: Any, field: Field, version: int) -> object:
    if value is None:
        return None
    if field.is_array:
        return [_element(element, field, version) for element in value]
    return _element(value, field, version)


def _element(value: Any, field: Field, version: int) -> object:
    if field.is_struct:
        return in_json(value, field.fields, version)
    match field.element_type:
        case "uuid":
            return base64.urlsafe_b64encode(value).decode().rstrip("=")
        case "bytes" | "records":
            return base64.b64encode(value).decode()
        case _:
            return value
