"""Declarations, by example: what a class that says `@message` can be relied on for."""

from __future__ import annotations

import types
import typing
from importlib import import_module
from struct import error as StructError
from tempfile import TemporaryFile
from typing import Any

import pytest

from pyk.errors import ErrorCode, KafkaError, ProtocolError
from pyk.types import ZERO_UUID, FileSlice, Records, Uuid, Versions
from pyk.wire.fields import Kind, array, int16, int32, int64, nested, string, uuid
from pyk.wire.message import layout, message, struct
from pyk.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from pyk.wire.source import COPIED_BYTES_MAX
from tests.wire.catalogue import MESSAGES
from tests.wire.ways import decode, encode, read


@struct
class Place:
    node: int = int32(default=-1)
    rack: str | None = string(nullable="0+", default=None)


@message(versions="0-3", flexible="2+")
class Example:
    name: str = string(nullable="1+")  # type: ignore[assignment]
    count: int = int32(versions="1+", default=-1)
    comment: str = string(versions="1-2", default="", ignorable=True)
    places: list[Place] = array(Place)
    home: Place = nested(Place, versions="3+", tag=0, factory=Place)
    epoch: int = int64(versions="2+", tag=1, default=-1)
    id: Uuid = uuid(versions="3+", default=ZERO_UUID)


def example(**changes: Any) -> Example:
    return Example(**{"name": "a", "places": [], **changes})


def wire(message: Any, version: int) -> bytes:
    (only,) = encode(message, version)
    assert isinstance(only, bytes)
    return only


def test_an_old_version_has_two_byte_lengths_and_four_byte_counts() -> None:
    place = Place(node=7, rack="r")
    assert wire(example(places=[place]), 0).hex(" ") == (
        "00 01 61" + " 00 00 00 01" + " 00 00 00 07" + " 00 01 72"
    )


def test_a_flexible_version_has_compact_lengths_and_ends_each_struct_with_its_tags() -> None:
    place = Place(node=7, rack=None)
    assert wire(example(count=2, places=[place]), 2).hex(" ") == (
        "02 61" + " 00 00 00 02" + " 01" + " 02" + " 00 00 00 07 00 00" + " 00"
    )


def test_a_tagged_field_is_written_only_where_it_differs_from_its_default() -> None:
    plain, told = wire(example(), 2), wire(example(epoch=5), 2)
    assert told == plain[:-1] + bytes.fromhex("01 01 08 0000000000000005")
    assert decode(Example, 2, told).epoch == 5
    assert decode(Example, 2, plain).epoch == -1


def test_a_field_that_the_version_lacks_decodes_to_its_default() -> None:
    decoded = decode(Example, 0, wire(example(), 0))
    assert (decoded.count, decoded.comment, decoded.id) == (-1, "", ZERO_UUID)
    assert decoded.home == Place(node=-1, rack=None)


def test_a_value_that_the_version_cannot_carry_is_refused() -> None:
    with pytest.raises(KafkaError, match="Example v0 cannot carry count") as refused:
        encode(example(count=1), 0)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError, match="cannot carry home"):
        encode(example(home=Place(node=1)), 2)


def test_an_ignorable_value_is_left_out() -> None:
    assert encode(example(comment="lost"), 0) == encode(example(), 0)
    assert encode(example(comment="lost"), 3) == encode(example(), 3)


def test_null_is_carried_by_the_versions_that_allow_it() -> None:
    assert decode(Example, 1, wire(example(name=None), 1)).name is None
    with pytest.raises(KafkaError, match="name cannot be null"):
        encode(example(name=None), 0)
    with pytest.raises(ProtocolError, match="name is null"):
        decode(Example, 0, bytes.fromhex("ffff 00000000"))


def test_a_version_outside_the_range_is_refused() -> None:
    for version in (-1, 4):
        with pytest.raises(KafkaError, match="Example has versions 0-3") as refused:
            encode(example(), version)
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(KafkaError):
            decode(Example, version, b"")


def test_a_string_longer_than_a_short_is_never_written() -> None:
    for version in range(4):
        longest = example(name="x" * 32_767)
        assert decode(Example, version, wire(longest, version)) == longest
        with pytest.raises(ValueError, match="longer than 32767"):
            encode(example(name="x" * 32_768), version)


def test_bytes_that_are_not_utf8_are_read_as_java_reads_them() -> None:
    assert decode(Example, 0, b"\0\2\xff\x61\0\0\0\0").name == "\N{REPLACEMENT CHARACTER}a"


def test_instances_are_frozen_and_equal_by_value() -> None:
    one = example(places=[Place(node=1)])
    assert one == example(places=[Place(node=1)])
    assert one != example(places=[Place(node=2)])
    with pytest.raises(AttributeError):
        one.name = "b"  # type: ignore[misc]


def test_reading_goes_on_where_the_message_ended() -> None:
    first, second = wire(example(name="one"), 3), wire(example(name="two"), 3)
    read_first, position = read(Example, 3, first + second)
    read_second, end = read(Example, 3, first + second, position)
    assert (read_first.name, read_second.name) == ("one", "two")
    assert end == len(first + second)


def test_any_kind_of_buffer_can_be_read() -> None:
    encoded = wire(example(places=[Place(node=3, rack="é")]), 3)
    for buffer in (encoded, bytearray(encoded), memoryview(encoded)):
        assert decode(Example, 3, buffer) == example(places=[Place(node=3, rack="é")])


def fetched(records: Records | None) -> FetchResponse:
    part = PartitionData(partition_index=0, high_watermark=9, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[part] * 2)])


def views_of(buffer: bytes | memoryview) -> list[Records | None]:
    return [part.records for part in decode(FetchResponse, 12, buffer).responses[0].partitions]


def test_records_are_handed_out_as_views_of_the_buffer() -> None:
    large = bytes(COPIED_BYTES_MAX + 1)
    data = b"".join(encode(fetched(large), 12))  # type: ignore[arg-type]
    for buffer in (data, memoryview(data)):
        for records in views_of(buffer):
            assert isinstance(records, memoryview)
            assert records.obj is data
            assert bytes(records) == large


def test_small_records_are_copied_since_that_costs_less_than_a_view() -> None:
    data = wire(fetched(b"some records"), 12)
    for buffer in (data, memoryview(data)):
        for records in views_of(buffer):
            assert type(records) is bytes
            assert records == b"some records"


def test_large_records_are_chunks_of_their_own_and_not_copied() -> None:
    large = bytes(COPIED_BYTES_MAX + 1)
    chunks = encode(fetched(large), 12)
    assert [chunk is large for chunk in chunks] == [False, True, False, True, False]
    assert decode(FetchResponse, 12, b"".join(chunks)) == fetched(large)  # type: ignore[arg-type]


def test_records_in_a_file_stay_there() -> None:
    with TemporaryFile() as file:
        piece = FileSlice(file, position=100, size=7)
    chunks = encode(fetched(piece), 12)
    assert [chunk is piece for chunk in chunks] == [False, True, False, True, False]
    in_memory = encode(fetched(b"x" * 7), 12)
    as_sent = [b"x" * 7 if isinstance(chunk, FileSlice) else chunk for chunk in chunks]
    assert b"".join(as_sent) == b"".join(in_memory)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "lowest", "highest"),
    [("3", 3, 3), ("0-9", 0, 9), ("2+", 2, 32_767), ("none", 0, -1)],
)
def test_versions_are_written_as_in_kafkas_documents(text: str, lowest: int, highest: int) -> None:
    assert Versions.parse(text) == (lowest, highest)
    assert str(Versions.parse(text)) == text


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_the_annotation_of_a_field_is_the_type_of_its_values(name: str) -> None:
    """mypy reads the annotation and the compiler the specifier: they must not drift apart."""
    for declared in parts(MESSAGES[name]):
        hints = typing.get_type_hints(body_of(declared))
        fields = layout(declared).fields
        assert list(hints) == [field.name for field in fields]
        for field in fields:
            expected = python_type(field.kind)
            if field.nullable.lowest <= field.nullable.highest:
                expected = expected | None
            assert hints[field.name] == expected, f"{declared.__name__}.{field.name}"


def parts(declared: type) -> set[type]:
    found = {declared}
    for field in layout(declared).fields:
        inner = (field.kind.element or field.kind).struct
        if inner is not None:
            found |= parts(inner)
    return found


def body_of(declared: type) -> type:
    """A class with the annotations as they stand in the source, resolved in its module."""
    annotations = layout(declared).annotations
    module = import_module(declared.__module__)
    return types.new_class(
        declared.__name__,
        exec_body=lambda body: body.update(__annotations__=annotations, __module__=module.__name__),
    )


def python_type(kind: Kind) -> Any:
    if kind.struct is not None:
        return kind.struct
    if kind.element is not None:
        return list[python_type(kind.element)]  # type: ignore[misc]
    return {
        "bool": bool, "float64": float, "uuid": Uuid, "string": str, "bytes": bytes,
        "records": Records,
    }.get(kind.name, int)  # fmt: skip


def test_int16_is_not_wider_than_it_says() -> None:
    @message(versions="0")
    class Small:
        value: int = int16()

    with pytest.raises(StructError, match="32767"):
        encode(Small(value=40_000), 0)
