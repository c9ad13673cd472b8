"""Payloads that say what they are: two bytes before the body, as internal topics keep them.

A key starts with the type of its record, a value with its own version. Control records do the same
inside ordinary logs: the key says which kind, the value what the kind needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pyk.errors import ProtocolError
from pyk.types import Buffer, FileSlice
from pyk.wire.batch import ControlType as ControlType
from pyk.wire.codec import decode, encode
from pyk.wire.message import layout
from pyk.wire.payloads.control import ControlRecordTypeSchema, EndTxnMarker
from pyk.wire.source import packed

T = TypeVar("T")


def encode_key(key: Any) -> bytes:
    """A key of an internal topic. There is one version of each."""
    of = layout(type(key))
    assert of.record_type is not None, of.name
    return packed("h").pack(of.record_type) + _body(key, of.versions.lowest)


def decode_key(types: Mapping[int, type], data: Buffer) -> Any | None:
    """The key, or None for a record type that is not among `types`, which is no error: a newer
    broker may have written it."""
    declared = types.get(_number(data))
    if declared is None:
        return None
    return decode(declared, layout(declared).versions.lowest, data[2:])


def encode_value(value: Any, version: int) -> bytes:
    return packed("h").pack(version) + _body(value, version)


def decode_value(declared: type[T], data: Buffer) -> T:
    """A value in the version that it says it has."""
    version = _number(data)
    if not layout(declared).versions.covers(version):
        raise ProtocolError(f"{layout(declared).name} has no version {version}")
    return decode(declared, version, data[2:])


def by_record_type(*keys: type) -> dict[int, type]:
    """The table that `decode_key` wants."""
    return {layout(key).record_type or 0: key for key in keys}


def encode_end_marker(outcome: ControlType, coordinator_epoch: int) -> tuple[bytes, bytes]:
    """Key and value of the control record that ends a transaction in a partition."""
    key = encode_value(ControlRecordTypeSchema(type=outcome), 0)
    return key, encode_value(EndTxnMarker(coordinator_epoch=coordinator_epoch), 0)


def decode_control_type(key: Buffer | None) -> int:
    """Which kind of control record it is: a ControlType, or a number that we do not know."""
    if key is None:
        raise ProtocolError("a control record has no key")
    # Later versions may only add to the key, so that what is known stays where it is.
    if _number(key) < 0:
        raise ProtocolError(f"a control record has the version {_number(key)}")
    return decode(ControlRecordTypeSchema, 0, key[2:]).type


def _number(data: Buffer) -> int:
    if len(data) < 2:
        raise ProtocolError(f"{len(data)} bytes are too few to say what they are")
    number: int = packed("h").unpack_from(data)[0]
    return number


def _body(message: Any, version: int) -> bytes:
    (body,) = encode(message, version)
    assert not isinstance(body, FileSlice)
    return bytes(body)
