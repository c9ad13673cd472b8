"""Bytes from anybody: each way to lie about a message is a ProtocolError, and costs little."""

from __future__ import annotations

import tracemalloc

import pytest

from pyk.errors import ProtocolError
from pyk.wire.fields import array, int32, string
from pyk.wire.message import message, struct
from pyk.wire.messages.fetch import FetchRequest
from pyk.wire.messages.metadata import MetadataRequest
from pyk.wire.primitives import LENIENT_BYTES_MAX, OBJECTS_MAX, STRING_BYTES_MAX, TAGS_MAX
from tests.wire.fuzz import densest, run, run_batches
from tests.wire.ways import decode, encode


@struct
class Item:
    name: str = string()
    numbers: list[int] = array(int32)


@message(versions="0-1", flexible="1+")
class Order:
    items: list[Item] = array(Item)
    note: str | None = string(nullable="0+", default=None)
    extra: int = int32(versions="1+", default=0, tag=3)


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def refused(data: bytes, why: str, version: int = 1) -> None:
    with pytest.raises(ProtocolError, match=why):
        decode(Order, version, data)


def test_a_message_cut_anywhere_ends_early() -> None:
    whole = bytes.fromhex("02 02 61 02 00000007 00 03 6869 01 03 04 00000009 00")
    assert decode(Order, 1, whole[:-1]) == Order(
        items=[Item(name="a", numbers=[7])], note="hi", extra=9
    )
    for size in range(len(whole) - 1):
        with pytest.raises(ProtocolError):
            decode(Order, 1, whole[:size])


def test_a_count_beyond_the_bytes_that_follow_is_refused() -> None:
    refused(b"\x7f\xff\xff\xff" + bytes(48), "ends before it should", version=0)
    refused(b"\x7f\xff\xff\xff" + bytes(OBJECTS_MAX), "too many elements", version=0)
    refused(varint(2**31 - 1) + b"\x01\x01\x00" * 20, "ends before it should")
    refused(varint(2**31 - 1) + b"\x01\x01\x00" * OBJECTS_MAX, "too many elements")
    refused(varint(20) + b"\x01\x01\x00" * 18, "ends before it should")
    refused(b"\0\0\0\x05" + bytes(6 * 4), "ends before it should", version=0)


def test_a_negative_count_is_null_and_so_is_a_length() -> None:
    refused(b"\xff\xff\xff\xff\0\0", "items is null", version=0)
    refused(b"\x80\0\0\0\0\0", "items is null", version=0)
    assert decode(Order, 0, b"\0\0\0\0\x80\0").note is None


def test_a_string_beyond_a_short_is_refused() -> None:
    refused(b"\x01" + varint(STRING_BYTES_MAX + 2) + bytes(40_000), "32767 are allowed")
    assert decode(Order, 1, b"\x01" + varint(STRING_BYTES_MAX + 1) + b"x" * 32_767 + b"\0").note


def test_what_is_not_utf8_is_replaced_only_while_it_can_be_written_back() -> None:
    size = LENIENT_BYTES_MAX
    short = decode(Order, 1, b"\x01" + varint(size + 1) + b"\xff" * size + b"\0").note
    assert short == "\N{REPLACEMENT CHARACTER}" * size
    refused(b"\x01" + varint(size + 2) + b"\xff" * (size + 1) + b"\0", "not UTF-8")


def test_a_varint_beyond_31_bits_is_refused() -> None:
    refused(b"\xff\xff\xff\xff\x0f" + bytes(9), "larger than 31 bits")
    refused(b"\x80\x80\x80\x80\x80\x00" + bytes(9), "larger than 31 bits")


def test_a_varint_need_not_be_the_shortest() -> None:
    assert decode(Order, 1, b"\x81\x80\x00" + b"\x82\x00n" + b"\x80\x00") == Order(
        items=[], note="n"
    )


def test_tagged_fields_are_in_order_few_and_inside_the_message() -> None:
    head = b"\x01\x00"
    known = b"\x03\x04\x00\x00\x00\x09"
    assert decode(Order, 1, head + b"\x01" + known).extra == 9
    assert decode(Order, 1, head + b"\x03\x00\x01!" + known + b"\x09\x00").extra == 9
    refused(head + b"\x02" + known + b"\x00\x00", "out of order")
    refused(head + b"\x02" + known + known, "out of order")
    refused(head + b"\x01\x03\x05" + known[2:] + b"\0", "longer")
    refused(head + b"\x01\x09\x7f\0", "longer")
    crowd = b"".join(bytes([tag, 0]) for tag in range(4, 4 + TAGS_MAX))
    assert decode(Order, 1, head + bytes([TAGS_MAX]) + crowd).extra == 0
    refused(head + bytes([TAGS_MAX + 1]) + crowd + b"\x7f\0", "too many")


def test_unknown_tagged_fields_of_a_struct_without_any_are_held_to_the_same_rules() -> None:
    def items(tags: bytes) -> bytes:
        return b"\x02\x02a\x01" + tags + b"\x00\x00"

    assert decode(Order, 1, items(b"\x02\x00\x01!\x05\x00")).items[0].name == "a"
    refused(items(b"\x02\x05\x00\x05\x00"), "out of order")
    refused(items(b"\x01\x00\x70"), "longer")
    refused(items(bytes([TAGS_MAX + 1]) + bytes(2 * TAGS_MAX + 2)), "too many")


def test_few_bytes_and_many_are_read_alike() -> None:
    """Small frames go through quick code, large ones and views through careful code."""
    order = Order(items=[Item(name="é", numbers=[1, 2])] * 3, note="ü", extra=4)
    (data,) = encode(order, 1)
    assert isinstance(data, bytes)
    for given in (data, memoryview(data), bytearray(data), data + bytes(OBJECTS_MAX)):
        assert decode(Order, 1, given) == order
    odd = data.replace("é".encode(), b"\xff\xfe")
    for given in (odd, memoryview(odd), odd + bytes(OBJECTS_MAX)):
        assert decode(Order, 1, given).items[2].name == "\N{REPLACEMENT CHARACTER}" * 2


def test_elements_have_a_budget_over_all_arrays() -> None:
    def crowd(count: int) -> bytes:
        return count.to_bytes(4, "big") + bytes(6 * count) + b"\xff\xff"

    # An item is an object and has an array, which is one more.
    assert len(decode(Order, 0, crowd(OBJECTS_MAX // 2)).items) == OBJECTS_MAX // 2
    refused(crowd(OBJECTS_MAX // 2 + 1), "too many", version=0)
    assert len(decode(Order, 0, crowd(OBJECTS_MAX), objects_max=2 * OBJECTS_MAX).items)
    with pytest.raises(ProtocolError, match="too many"):
        decode(Order, 0, crowd(3), objects_max=5)


def test_four_megabytes_of_tagged_fields_are_refused_at_once() -> None:
    """KIP-482 sets no limit; a naive loop needs seconds and a hundred megabytes."""
    flood = varint(2_000_000) + b"\x7f\x00" * 2_000_000
    refused(b"\x01\x00" + flood, "too many")


def test_a_huge_claim_allocates_nothing() -> None:
    claims = b"\x7f\xff\xff\xff" + bytes(64)
    decode(MetadataRequest, 1, bytes(4))  # Compiled, and counted no more.
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        decode(MetadataRequest, 1, claims)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000


def test_the_fast_way_through_an_array_and_the_slow_one_agree() -> None:
    """Partitions without tagged fields are read in one go, others one by one."""
    head = bytes.fromhex("ffffffff 000001f4 00000001 7fffffff 00 00000000 ffffffff 02 0274 03")
    fixed = bytes.fromhex("00000001 00000002 0000000000000003 00000004 0000000000000005 00000006")
    tail = bytes.fromhex("00 01 01 00")
    quick = decode(FetchRequest, 12, head + fixed + b"\0" + fixed + b"\0" + tail)
    tagged = fixed + b"\x01\x63\x02xx"
    slow = decode(FetchRequest, 12, head + fixed + b"\0" + tagged + tail)
    assert quick == slow
    assert len(quick.topics[0].partitions) == 2


def test_some_thousand_damaged_frames_raise_nothing_else() -> None:
    tally = run(count=4_000, seed=20261117)
    assert tally.accepted > 500
    assert tally.refused > 500


def test_some_thousand_damaged_batches_raise_nothing_else() -> None:
    tally = run_batches(count=3_000, seed=20261117)
    assert tally.accepted > 200
    assert tally.refused > 500


def test_every_array_can_be_full_of_the_smallest_elements() -> None:
    """What an honest client may send is not refused: the least count check is exact."""
    for declared, version, _, data in densest(1_000):
        decode(declared, version, data)
