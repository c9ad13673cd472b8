"""Records of internal topics, decoded: what coordinators have written down.

A record of a kind, or in a version, that is not known is shown as bytes, as any other is: a newer
broker may have written it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from pyk.cli.topic_description import printed_id
from pyk.errors import ProtocolError
from pyk.wire.fields import Kind
from pyk.wire.message import layout
from pyk.wire.payloads import (
    classic_group_records,
    consumer_group_records,
    offset_records,
    share_group_records,
    share_state_records,
    streams_group_records,
    transaction_records,
)
from pyk.wire.payloads.classic_group_records import GroupMetadataValue
from pyk.wire.payloads.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pyk.wire.prefixed import by_record_type, decode_key, decode_value
from pyk.wire.records import Record

DECLARED: Final = {
    "__consumer_offsets": (
        offset_records,
        classic_group_records,
        consumer_group_records,
        share_group_records,
        streams_group_records,
    ),
    "__transaction_state": (transaction_records,),
    "__share_group_state": (share_state_records,),
}
EMBEDDED: Final = {
    ("MemberMetadata", "subscription"): ConsumerProtocolSubscription,
    ("MemberMetadata", "assignment"): ConsumerProtocolAssignment,
    ("ClassicProtocol", "metadata"): ConsumerProtocolSubscription,
}
"""Bytes that members gave the coordinator to keep, which are these if the members are consumers."""

Decoder = Callable[[Record], "dict[str, Any] | None"]


def decoder(topic: str) -> Decoder | None:
    """What makes a document of a record of that topic, or None of one that it does not know."""
    if topic not in DECLARED:
        return None
    keys, values = _declared(topic)

    def decoded(record: Record) -> dict[str, Any] | None:
        try:
            key = None if record.key is None else decode_key(keys, record.key)
            if key is None:
                return None
            name = layout(type(key)).name.removesuffix("Key")
            value = None if record.value is None else _decoded_value(values[name], record.value)
        except ProtocolError:
            return None
        return {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "type": name,
            "key": _document(key, layout(type(key)).versions.lowest),
            "value": value,
        }

    return decoded


def name_of(document: Mapping[str, Any]) -> str | None:
    """Whose record it is: the group's, or the transactional id's."""
    key = document["key"]
    return next(
        (key[each] for each in ("group", "group_id", "transactional_id") if each in key), None
    )


@cache
def _declared(topic: str) -> tuple[dict[int, type], dict[str, type]]:
    """Keys by the number that they begin with, and values by the name that they share with them."""
    found = [
        each
        for module in DECLARED[topic]
        for each in vars(module).values()
        if hasattr(each, "__layout__") and layout(each).record_type is not None
    ]
    keys = [each for each in found if layout(each).name.endswith("Key")]
    values = {layout(each).name.removesuffix("Value"): each for each in found if each not in keys}
    return by_record_type(*keys), values


def _document(message: object, version: int, *, are_consumers: bool = True) -> dict[str, Any]:
    """The fields that this version has. Bytes are in base64, under a name that says so."""
    of = layout(type(message))
    document: dict[str, Any] = {}
    if isinstance(message, GroupMetadataValue):
        are_consumers = message.protocol_type == "consumer"
    for field in of.fields:
        value = getattr(message, field.name)
        if not field.versions.covers(version):
            continue
        if isinstance(value, bytes) and field.kind.name == "bytes":
            inner = EMBEDDED.get((of.name, field.name)) if are_consumers else None
            opened = None if inner is None else _embedded(inner, value)
            if opened is None:
                document[f"{field.name}_base64"] = base64.b64encode(value).decode()
            else:
                document[field.name] = opened
        else:
            document[field.name] = _plain(value, field.kind, version, are_consumers)
    return document


def _plain(value: Any, kind: Kind, version: int, are_consumers: bool) -> Any:
    if value is None:
        return None
    if kind.element is not None:
        return [_plain(each, kind.element, version, are_consumers) for each in value]
    if kind.name == "uuid":
        return printed_id(value)
    if kind.struct is None:
        return value
    return _document(value, version, are_consumers=are_consumers)


def _embedded(declared: type, data: bytes) -> dict[str, Any] | None:
    try:
        return _decoded_value(declared, data)
    except ProtocolError:
        return None


def _decoded_value(declared: type, data: bytes) -> dict[str, Any]:
    """Raise ProtocolError."""
    found: object = decode_value(declared, data)
    return _document(found, int.from_bytes(data[:2], "big"))
