"""kio, a codec that nobody here wrote, writes the same bytes and reads the same values.

It stands in for Kafka itself where there is no Java. What it does not know is listed, not skipped.
"""

from __future__ import annotations

import datetime
import io
from enum import Enum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from pyk.types import ZERO_UUID
from pyk.wire.fields import Field
from pyk.wire.message import layout
from tests.wire.catalogue import MESSAGES, versions
from tests.wire.strategies import Pool, messages
from tests.wire.test_codec import joined
from tests.wire.ways import decode, encode

ERROR_CODES = tuple(code.value for code in KioErrorCode)
UNKNOWN_TO_KIO = {
    name for name in MESSAGES if (name.endswith(("Key", "Value")) or name == "ProducerSnapshot")
}
"""The records of internal topics and producer snapshots are not among kio's schemas."""


def kio_types(name: str) -> dict[int, Any]:
    """kio's class for each version of a message."""
    kind, stem = EntityType.data, name
    for suffix, suffixed in (
        ("Request", EntityType.request),
        ("Response", EntityType.response),
        ("Header", EntityType.header),
    ):
        if name.endswith(suffix):
            kind, stem = suffixed, name if suffix == "Header" else name.removesuffix(suffix)
    known = schema_name_map.get(snake(stem), {})
    return {
        version: load_entity_schema(snake(stem), version, kind)  # type: ignore[arg-type]
        for version in known
    }


def snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


def what_kio_can_carry(field: Field, pool: Pool) -> Any:
    """kio is stricter than the protocol: it knows error codes, and times as datetimes."""
    if field.name.endswith("error_code"):
        return pool.some(ERROR_CODES)
    if "timestamp" in field.name and field.kind.name == "int64":
        return pool.integer(0, 2**41)
    if field.kind.name == "int64" and field.name.endswith("_ms"):
        return pool.integer(0, 2**41)
    return None


def test_kio_knows_every_message_but_the_records_of_internal_topics() -> None:
    unknown = {name for name in MESSAGES if not kio_types(name)}
    assert unknown == UNKNOWN_TO_KIO


@pytest.mark.parametrize("name", sorted(MESSAGES.keys() - UNKNOWN_TO_KIO))
def test_kio_writes_and_reads_the_same(name: str) -> None:
    declared, theirs = MESSAGES[name], kio_types(name)
    assert set(theirs) == set(versions(declared))

    @settings(max_examples=6, deadline=None)
    @given(st.tuples(*(messages(declared, v, what_kio_can_carry) for v in versions(declared))))
    def every_version(values: tuple[Any, ...]) -> None:
        for version, message in zip(versions(declared), values, strict=True):
            encoded = joined(encode(message, version))
            read, size = entity_reader(theirs[version])(encoded, 0)
            assert size == len(encoded)
            assert_same(message, read, version)
            written = io.BytesIO()
            entity_writer(theirs[version])(written, read)
            assert written.getvalue() == encoded
            assert decode(declared, version, written.getvalue()) == message

    every_version()


def assert_same(ours: Any, theirs: Any, version: int) -> None:
    for field in layout(type(ours)).fields:
        if field.versions.covers(version):
            mine, other = getattr(ours, field.name), kio_field(theirs, field.name)
            assert_same_value(mine, other, version)


def assert_same_value(mine: Any, other: Any, version: int) -> None:
    if isinstance(mine, list):
        assert len(mine) == len(other)
        for one, another in zip(mine, other, strict=True):
            assert_same_value(one, another, version)
    elif hasattr(mine, "__layout__"):
        assert_same(mine, other, version)
    else:
        assert mine == plain(other) or (mine in (-1, bytes(ZERO_UUID)) and other is None)


def kio_field(theirs: Any, name: str) -> Any:
    for spelled in (name, name.removesuffix("_ms"), name + "_", name.replace("_2pc", "2_pc")):
        if hasattr(theirs, spelled):
            return getattr(theirs, spelled)
    raise AssertionError(f"kio has no {name} in {theirs}")


def plain(value: Any) -> Any:
    match value:
        case datetime.timedelta():
            return round(value / datetime.timedelta(milliseconds=1))
        case datetime.datetime():
            return round(value.timestamp() * 1000)
        case UUID():
            return value.bytes
        case Enum():
            return value.value
        case _:
            return value
