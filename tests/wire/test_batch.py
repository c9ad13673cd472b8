from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from pyk.errors import ProtocolError
from pyk.wire.batch import (
    HEADER_BYTES,
    BatchHeader,
    TimestampType,
    UnknownCompression,
    UnsupportedMagic,
    check_crc,
    iterate_batches,
    peek_header,
    read_header,
    stamp_append_time,
    stamp_create_time,
    stamp_offset,
)
from pyk.wire.compression import Compression, CorruptBatch

PAYLOAD = b"these would be the records"


def batch(
    payload: bytes = PAYLOAD,
    *,
    base_offset: int = 100,
    batch_length: int | None = None,
    magic: int = 2,
    attributes: int = 0,
    last_offset_delta: int = 4,
    base_sequence: int = 7,
) -> bytearray:
    """A batch put together field by field, as Kafka's documentation has them."""
    covered = struct.pack(
        ">hiqqqhii", attributes, last_offset_delta, 1_000, 2_000, 42, 3, base_sequence, 5
    )
    covered += payload
    if batch_length is None:
        batch_length = 9 + len(covered)
    start = struct.pack(">qiibI", base_offset, batch_length, 6, magic, crc32c(covered))
    return bytearray(start + covered)


def header_of(**fields: int) -> BatchHeader:
    return read_header(batch(**fields))  # type: ignore[arg-type]


def starts(data: bytes | bytearray, *, torn_tail_allowed: bool) -> list[int]:
    batches = iterate_batches(data, torn_tail_allowed=torn_tail_allowed)
    return [position for position, _ in batches]


def test_a_header_is_read_field_by_field() -> None:
    data = batch()
    assert read_header(data) == BatchHeader(
        base_offset=100,
        batch_length=49 + len(PAYLOAD),
        partition_leader_epoch=6,
        magic=2,
        crc=crc32c(data[21:]),
        attributes=0,
        last_offset_delta=4,
        base_timestamp=1_000,
        max_timestamp=2_000,
        producer_id=42,
        producer_epoch=3,
        base_sequence=7,
        records_count=5,
    )


def test_a_header_tells_what_the_batch_covers() -> None:
    header = header_of(base_offset=100, last_offset_delta=4)
    assert header.size == HEADER_BYTES + len(PAYLOAD)
    assert (header.last_offset, header.next_offset) == (104, 105)


@pytest.mark.parametrize(
    ("base_sequence", "last_sequence"),
    [(0, 4), (2**31 - 5, 2**31 - 1), (2**31 - 4, 0), (2**31 - 1, 3), (-1, -1)],
)
def test_sequences_start_again_at_zero(base_sequence: int, last_sequence: int) -> None:
    header = header_of(base_sequence=base_sequence, last_offset_delta=4)
    assert header.last_sequence == last_sequence


@pytest.mark.parametrize("compression", Compression)
def test_the_low_bits_are_the_compression(compression: Compression) -> None:
    header = header_of(attributes=0b111_1000 | compression)
    assert header.compression is compression


def test_each_flag_has_its_bit() -> None:
    def flags(attributes: int) -> tuple[TimestampType, bool, bool, bool]:
        it = header_of(attributes=attributes)
        return it.timestamp_type, it.is_transactional, it.is_control, it.has_delete_horizon

    created, appended = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
    assert flags(0b000_0100) == (created, False, False, False)
    assert flags(0b000_1000) == (appended, False, False, False)
    assert flags(0b001_0000) == (created, True, False, False)
    assert flags(0b010_0000) == (created, False, True, False)
    assert flags(0b100_0000) == (created, False, False, True)


@pytest.mark.parametrize("attributes", [5, 6, 7])
def test_an_unknown_compression_is_corrupt(attributes: int) -> None:
    with pytest.raises(UnknownCompression, match=f"unknown compression {attributes}"):
        header_of(attributes=attributes)


@pytest.mark.parametrize("magic", [0, 1])
def test_the_old_formats_are_told_apart(magic: int) -> None:
    with pytest.raises(UnsupportedMagic) as refused:
        header_of(magic=magic)
    assert refused.value.magic == magic
    assert isinstance(refused.value, ProtocolError)


def test_a_whole_message_of_the_old_format_may_be_shorter_than_a_header() -> None:
    message = struct.pack(">qiIbbii", 0, 14, 0, 0, 0, -1, -1)
    with pytest.raises(UnsupportedMagic):
        read_header(message)
    with pytest.raises(UnsupportedMagic):
        starts(message, torn_tail_allowed=True)


@pytest.mark.parametrize("magic", [3, 127, -1, -128])
def test_an_unknown_magic_is_corrupt(magic: int) -> None:
    for data in (batch(magic=magic), batch(magic=magic)[:20]):
        with pytest.raises(CorruptBatch, match="unknown magic") as refused:
            read_header(data)
        assert not isinstance(refused.value, UnsupportedMagic)


@pytest.mark.parametrize("batch_length", [48, 0, -1, -(2**31)])
def test_a_length_below_that_of_a_header_is_corrupt(batch_length: int) -> None:
    for data in (batch(batch_length=batch_length), batch(batch_length=batch_length)[:20]):
        with pytest.raises(CorruptBatch, match="less than a header"):
            read_header(data)
        with pytest.raises(CorruptBatch, match="less than a header"):
            starts(data, torn_tail_allowed=True)


@pytest.mark.parametrize("batch_length", [50, 2**31 - 1])
def test_a_length_beyond_the_buffer_is_corrupt(batch_length: int) -> None:
    data = batch(b"", batch_length=batch_length)
    with pytest.raises(CorruptBatch, match="only 61 bytes"):
        read_header(data)


def test_a_header_can_be_read_without_its_records() -> None:
    data = batch()
    assert peek_header(data[:HEADER_BYTES]) == read_header(data)
    with pytest.raises(CorruptBatch, match="only 60 bytes"):
        peek_header(data[: HEADER_BYTES - 1])


def test_batches_follow_each_other() -> None:
    first, second, third = batch(b"1"), batch(b"22", base_offset=105), batch(b"333")
    data = memoryview(first + second + third)
    found = list(iterate_batches(data, torn_tail_allowed=False))
    assert found == [
        (0, read_header(first)),
        (62, read_header(second)),
        (125, read_header(third)),
    ]
    assert list(iterate_batches(data, 62, torn_tail_allowed=False)) == found[1:]
    assert starts(b"", torn_tail_allowed=False) == []


def test_a_torn_tail_ends_the_iteration_or_raises_as_the_caller_likes() -> None:
    whole, torn = batch(), batch()
    for size in range(1, len(torn)):
        data = whole + torn[:size]
        assert starts(data, torn_tail_allowed=True) == [0]
        with pytest.raises(CorruptBatch, match=f"only {size} bytes"):
            starts(data, torn_tail_allowed=False)


def test_corruption_after_a_good_batch_is_no_torn_tail() -> None:
    batches = iterate_batches(batch() + batch(magic=9), torn_tail_allowed=True)
    assert next(batches)[0] == 0
    with pytest.raises(CorruptBatch, match="unknown magic 9"):
        next(batches)


def test_the_crc_covers_everything_from_the_attributes_on() -> None:
    data = batch() + b"and what follows is not of this batch"
    header = read_header(data)
    check_crc(data, 0, header)
    for position in range(21, header.size):
        data[position] ^= 1
        with pytest.raises(CorruptBatch, match="CRC"):
            check_crc(data, 0, header)
        data[position] ^= 1


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview])
def test_any_buffer_can_be_checked_at_any_position(
    view: type[bytes] | type[bytearray] | type[memoryview],
) -> None:
    data = view(b"before" + batch())
    check_crc(data, 6, read_header(data, 6))


def test_offset_and_epoch_are_stamped_without_touching_the_crc() -> None:
    data = bytearray(b"before") + batch()
    before = read_header(data, 6)
    stamp_offset(data, 6, base_offset=2**40, partition_leader_epoch=17)
    after = read_header(data, 6)
    assert (after.base_offset, after.partition_leader_epoch) == (2**40, 17)
    assert after.crc == before.crc
    check_crc(data, 6, after)
    assert data[:6] == b"before"


def test_the_append_time_is_stamped_and_the_crc_renewed() -> None:
    data = bytearray(b"before") + batch(attributes=0b001_0010)
    stamp_append_time(memoryview(data), 6, timestamp=987_654)
    header = read_header(data, 6)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.max_timestamp == 987_654
    assert header.base_timestamp == 1_000
    assert header.compression is Compression.SNAPPY
    assert header.is_transactional
    check_crc(data, 6, header)


def test_the_create_time_is_stamped_and_the_crc_renewed() -> None:
    data = bytearray(b"before") + batch(attributes=0b001_1010)
    stamp_create_time(memoryview(data), 6, max_timestamp=987_654)
    header = read_header(data, 6)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.max_timestamp == 987_654
    assert header.base_timestamp == 1_000
    assert header.compression is Compression.SNAPPY
    assert header.is_transactional
    check_crc(data, 6, header)


@given(data=st.binary(max_size=200), position=st.integers(0, 210), torn=st.booleans())
@settings(deadline=None, max_examples=500)
def test_random_bytes_are_a_batch_or_corrupt(data: bytes, position: int, torn: bool) -> None:
    with suppress(CorruptBatch):
        read_header(data, position)
    with suppress(CorruptBatch):
        for start, header in iterate_batches(data, position, torn_tail_allowed=torn):
            assert start + header.size <= len(data)


@given(
    changes=st.lists(st.tuples(st.integers(0, 180), st.binary(min_size=1, max_size=4)), max_size=4),
    size=st.integers(0, 200),
    torn=st.booleans(),
)
@settings(deadline=None, max_examples=500)
def test_damaged_batches_are_batches_or_corrupt(
    changes: list[tuple[int, bytes]], size: int, torn: bool
) -> None:
    data = batch() + batch()
    for position, replacement in changes:
        data[position : position + len(replacement)] = replacement
    end = 0
    with suppress(CorruptBatch):
        for start, header in iterate_batches(data[:size], torn_tail_allowed=torn):
            assert start == end
            end += header.size
            with suppress(CorruptBatch):
                check_crc(data, start, header)
    assert end <= size
