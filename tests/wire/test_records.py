from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress
from dataclasses import dataclass

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from pyk.wire.batch import (
    HEADER_BYTES,
    TimestampType,
    check_crc,
    iterate_batches,
    read_header,
    stamp_append_time,
    stamp_offset,
)
from pyk.wire.compression import BatchTooLarge, Compression, CorruptBatch, compress
from pyk.wire.records import (
    BATCH_HEADERS_MAX,
    HEADERS_MAX,
    Record,
    build_batch,
    read_records,
    recompress_batch,
    skim_records,
)

INT64_MAX = 2**63 - 1
NOW = 1_700_000_000_000

MINIMAL = b"\x0c\x00\x00\x00\x01\x01\x00"
"""The shortest record: no key, no value, no headers."""

compressions = pytest.mark.parametrize("compression", Compression)


def zigzag(n: int) -> bytes:
    n = n << 1 if n >= 0 else (-n << 1) - 1
    encoded = b""
    while n >= 0x80:
        encoded += bytes([n & 0x7F | 0x80])
        n >>= 7
    return encoded + bytes([n])


def sized(body: bytes) -> bytes:
    return zigzag(len(body)) + body


def batch_of(
    payload: bytes,
    *,
    records_count: int = 1,
    compression: Compression = Compression.NONE,
    base_timestamp: int = NOW,
) -> bytes:
    """A batch around bytes that need not be records."""
    payload = compress(compression, payload)
    covered = struct.pack(
        ">hiqqqhii", compression, 0, base_timestamp, NOW, -1, -1, -1, records_count
    )
    covered += payload
    return struct.pack(">qiibI", 0, 9 + len(covered), -1, 2, crc32c(covered)) + covered


def assert_corrupt(batch: bytes, match: str = ".") -> None:
    with pytest.raises(CorruptBatch, match=match):
        list(read_records(batch))
    with pytest.raises(CorruptBatch, match=match):
        list(skim_records(batch))


def test_a_batch_byte_by_byte() -> None:
    batch = build_batch(
        [
            Record(10, NOW, b"key", b"value", (("h", b"1"), ("h", None))),
            Record(12, NOW - 1, None, None),
        ],
        base_offset=10,
        partition_leader_epoch=4,
        producer_id=1_000,
        producer_epoch=2,
        base_sequence=30,
        is_transactional=True,
    )
    first = bytes.fromhex("00 00 00 06 6b6579 0a 76616c7565 04 02 68 02 31 02 68 01")
    second = bytes.fromhex("00 01 04 01 01 00")
    covered = struct.pack(">hiqqqhii", 0b1_0000, 2, NOW, NOW, 1_000, 2, 30, 2)
    covered += sized(first) + sized(second)
    start = struct.pack(">qiibI", 10, 9 + len(covered), 4, 2, crc32c(covered))
    assert batch == start + covered


def test_records_are_read_back() -> None:
    records = [
        Record(0, NOW, b"key", b"value"),
        Record(1, NOW + 5, None, b""),
        Record(2, NOW - 5, b"", None),
        Record(3, NOW, b"k" * 64, b"v" * 20_000, (("trace", b"\x00\x01"), ("trace", None))),
    ]
    assert list(read_records(build_batch(records))) == records


def test_a_skim_tells_deltas_and_sizes() -> None:
    batch = build_batch(
        [
            Record(100, NOW, b"key", b"v" * 100),
            Record(101, NOW + 70, None, b"", (("header", None), ("", b"value"))),
            Record(300, NOW - 1, b"k" * 70, None),
            Record(70_000, NOW, b"", b"v" * 10_000),
        ],
        base_offset=100,
    )
    assert list(skim_records(batch)) == [
        (0, 0, 3, 100),
        (1, 70, -1, 0),
        (200, -1, 70, -1),
        (69_900, 0, 0, 10_000),
    ]


@compressions
def test_records_can_be_anywhere_in_a_buffer(compression: Compression) -> None:
    one = build_batch([Record(0, NOW, b"a", b"1" * 500)], compression=compression)
    two = build_batch([Record(1, NOW, b"b", b"2")], base_offset=1, compression=compression)
    buffer = memoryview(bytearray(one + two))
    found = [
        record
        for position, header in iterate_batches(buffer, torn_tail_allowed=False)
        for record in read_records(buffer, position, header)
    ]
    assert [record.key for record in found] == [b"a", b"b"]
    assert list(read_records(buffer, len(one))) == found[1:]


def test_records_are_those_of_the_moment_they_were_asked_for() -> None:
    """A buffer may be used again while its records are still being read."""
    records = [Record(n, NOW, b"key", b"value %d" % n) for n in range(3)]
    buffer = bytearray(build_batch(records))
    found = read_records(buffer)
    buffer[:] = bytes(len(buffer))
    assert list(found) == records


def test_offsets_follow_the_stamp() -> None:
    buffer = bytearray(build_batch([Record(0, NOW, None, b""), Record(5, NOW, None, b"")]))
    stamp_offset(buffer, 0, base_offset=1_000, partition_leader_epoch=1)
    assert [record.offset for record in read_records(buffer)] == [1_000, 1_005]


def test_append_time_is_the_time_of_every_record() -> None:
    buffer = bytearray(build_batch([Record(0, 1, None, b""), Record(1, 2, None, b"")]))
    stamp_append_time(buffer, 0, timestamp=NOW)
    assert [record.timestamp for record in read_records(buffer)] == [NOW, NOW]


def test_a_batch_can_be_built_with_append_time() -> None:
    records = [Record(0, NOW, None, b"1"), Record(1, NOW, None, b"2")]
    batch = build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert read_header(batch).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert list(read_records(batch)) == records


@compressions
@pytest.mark.parametrize("before", Compression)
def test_recompression_changes_nothing_else(before: Compression, compression: Compression) -> None:
    records = [Record(7, NOW, b"key", None, (("h", b""),)), Record(9, NOW - 5, None, b"v" * 99)]
    data = b"before" + build_batch(
        records,
        base_offset=5,
        last_offset=11,
        compression=before,
        timestamp_type=TimestampType.CREATE_TIME,
        max_timestamp=NOW + 1,
        partition_leader_epoch=3,
        producer_id=42,
        producer_epoch=2,
        base_sequence=70,
        is_transactional=True,
        is_control=True,
    )
    header = read_header(data, 6)
    batch = recompress_batch(data, 6, header, compression)
    after = read_header(batch)
    check_crc(batch, 0, after)
    assert list(read_records(batch)) == records
    assert after.compression is compression
    if after.compression is before:
        assert batch == data[6:]
    for name in set(header.__struct_fields__) - {"batch_length", "crc", "attributes"}:
        assert getattr(after, name) == getattr(header, name)
    assert (after.is_transactional, after.is_control) == (True, True)


def test_recompression_forgets_a_delete_horizon() -> None:
    records = [Record(0, NOW, b"key", None)]
    batch = build_batch(records, delete_horizon=NOW + 86_400_000)
    recompressed = recompress_batch(batch, 0, read_header(batch), Compression.GZIP)
    assert not read_header(recompressed).has_delete_horizon
    assert list(read_records(recompressed)) == records


def test_recompression_inflates_only_to_its_bound() -> None:
    batch = build_batch([Record(0, NOW, None, bytes(10_000))], compression=Compression.GZIP)
    with pytest.raises(BatchTooLarge):
        recompress_batch(batch, 0, read_header(batch), Compression.NONE, bytes_max=10_000)


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    """KIP-534. Timestamps count from it, so they stay what they were."""
    records = [Record(3, NOW, b"key", None), Record(7, NOW + 9, b"other", None)]
    batch = build_batch(records, delete_horizon=NOW + 86_400_000)
    header = read_header(batch)
    assert header.has_delete_horizon
    assert header.base_timestamp == NOW + 86_400_000
    assert header.max_timestamp == NOW + 9
    assert list(read_records(batch)) == records


def test_compaction_keeps_the_offsets_of_a_batch() -> None:
    batch = build_batch([Record(105, NOW, b"key", b"value")], base_offset=100, last_offset=120)
    header = read_header(batch)
    assert (header.base_offset, header.last_offset, header.records_count) == (100, 120, 1)
    assert [record.offset for record in read_records(batch)] == [105]


@compressions
def test_an_empty_batch_keeps_offsets_and_producer(compression: Compression) -> None:
    batch = build_batch(
        [],
        base_offset=100,
        last_offset=120,
        compression=compression,
        max_timestamp=NOW,
        producer_id=9,
        producer_epoch=1,
        base_sequence=50,
    )
    assert len(batch) == HEADER_BYTES
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert (header.last_offset, header.last_sequence) == (120, 70)
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW)
    assert header.records_count == 0
    assert list(read_records(batch)) == []
    assert list(skim_records(batch)) == []


@compressions
def test_a_batch_of_no_records_may_say_so_compressed(compression: Compression) -> None:
    assert list(read_records(batch_of(b"", records_count=0, compression=compression))) == []


def test_header_keys_that_are_not_utf_8_survive() -> None:
    body = b"\x00\x00\x00\x01\x01" + zigzag(1) + sized(b"\xff\xfe") + sized(b"value")
    (record,) = read_records(batch_of(sized(body)))
    assert record.headers == (("\udcff\udcfe", b"value"),)
    assert build_batch([record])[HEADER_BYTES:] == sized(body)


def test_numbers_need_not_be_written_in_the_fewest_bytes() -> None:
    body = b"\x00" + b"\x80\x00" + b"\x82\x80\x00" + b"\x81\x80\x00" + b"\x80\x80\x00" + b"\x80\x00"
    batch = batch_of(b"\x9c\x80\x80\x00" + body)
    assert list(read_records(batch)) == [Record(1, NOW, None, b"")]
    assert list(skim_records(batch)) == [(1, 0, -1, 0)]


@compressions
def test_too_few_records_are_corrupt(compression: Compression) -> None:
    batch = batch_of(MINIMAL * 2, records_count=3, compression=compression)
    assert_corrupt(batch, "3 records in 14 bytes")


@compressions
def test_too_many_records_are_corrupt(compression: Compression) -> None:
    batch = batch_of(MINIMAL * 2, records_count=1, compression=compression)
    assert_corrupt(batch, "7 bytes after the last record")
    batch = batch_of(MINIMAL, records_count=0, compression=compression)
    assert_corrupt(batch, "7 bytes after the last record")


@pytest.mark.parametrize("count", [-1, 2**31 - 1, -(2**31)])
def test_an_absurd_count_is_corrupt(count: int) -> None:
    assert_corrupt(batch_of(MINIMAL, records_count=count), f"{count} records in 7 bytes")


@dataclass(frozen=True)
class Malformed:
    why: str
    body: bytes


MALFORMED = [
    Malformed("ends", b"\x00\x00\x00" + zigzag(2**31 - 1) + b"\x01\x00"),
    Malformed("ends", b"\x00\x00\x00\x01" + zigzag(2**31 - 1) + b"\x00"),
    Malformed("ends|headers in", b"\x00\x00\x00\x01" + zigzag(1) + b"\x00"),
    Malformed("ends at", b"\x00\x00\x00\x01\x01\x00spare"),
    Malformed("a size of -1", b"\x00\x00\x00\x01\x01" + zigzag(-1)),
    Malformed("5 headers in 2 bytes", b"\x00\x00\x00\x01\x01" + zigzag(5) + b"\x00\x01"),
    Malformed("headers in", b"\x00\x00\x00\x01\x01" + zigzag(2**31 - 1) + b"\x00\x01"),
    Malformed("a size of -1", b"\x00\x00\x00\x01\x01\x02" + zigzag(-1) + b"\x01"),
    Malformed("ends", b"\x00\x00\x00\x01\x01\x02" + zigzag(500) + b"\x01"),
    Malformed("more than 5 bytes", b"\x00\x00" + b"\x80" * 5 + b"\x00\x01\x01\x00"),
    Malformed("more than 32 bits", b"\x00\x00" + b"\xff" * 4 + b"\x10\x01\x01\x00"),
    Malformed("more than 10 bytes", b"\x00" + b"\x80" * 10 + b"\x00\x00\x01\x01\x00"),
    Malformed("more than 64 bits", b"\x00" + b"\xff" * 9 + b"\x02\x00\x01\x01\x00"),
]


@pytest.mark.parametrize("malformed", MALFORMED, ids=lambda malformed: malformed.why)
@pytest.mark.parametrize("followers", [0, 100])
def test_a_malformed_record_is_corrupt(malformed: Malformed, followers: int) -> None:
    payload = sized(malformed.body) + MINIMAL * followers
    assert_corrupt(batch_of(payload, records_count=1 + followers), malformed.why)


def test_any_negative_size_is_null_as_java_reads_it() -> None:
    body = b"\x00\x00\x00" + zigzag(-2) + zigzag(-7) + b"\x02\x00" + zigzag(-3)
    (found,) = read_records(batch_of(sized(body)))
    assert (found.key, found.value, found.headers) == (None, None, (("", None),))
    assert list(skim_records(batch_of(sized(body)))) == [(0, 0, -1, -1)]


def test_a_record_has_headers_up_to_a_limit() -> None:
    def record(headers_count: int) -> bytes:
        body = b"\x00\x00\x00\x01\x01" + zigzag(headers_count) + b"\x00\x01" * headers_count
        return batch_of(sized(body))

    (found,) = read_records(record(HEADERS_MAX))
    assert found.headers == (("", None),) * HEADERS_MAX
    assert_corrupt(record(HEADERS_MAX + 1), f"{HEADERS_MAX + 1} headers")


def test_the_records_of_a_batch_have_headers_up_to_a_limit() -> None:
    def batch(records_count: int) -> bytes:
        headers = zigzag(HEADERS_MAX) + b"\x00\x01" * HEADERS_MAX
        records = (
            sized(b"\x00\x00" + zigzag(number) + b"\x01\x01" + headers)
            for number in range(records_count)
        )
        return batch_of(b"".join(records), records_count=records_count)

    allowed = BATCH_HEADERS_MAX // HEADERS_MAX
    assert len(list(skim_records(batch(allowed)))) == allowed
    assert_corrupt(batch(allowed + 1), "headers in a batch")


@pytest.mark.parametrize("length", [-7, -1, 0, 5, 7, 100, 2**31 - 1])
def test_a_record_length_that_lies_is_corrupt(length: int) -> None:
    assert_corrupt(batch_of(zigzag(length) + MINIMAL[1:] + b"more"))


@pytest.mark.parametrize("delta", [2**63 - 1, -(2**63)])
def test_a_timestamp_beyond_64_bits_is_corrupt(delta: int) -> None:
    body = b"\x00" + zigzag(delta) + b"\x00\x01\x01\x00"
    assert len(list(read_records(batch_of(sized(body), base_timestamp=0)))) == 1
    batch = batch_of(sized(body), base_timestamp=1 if delta > 0 else -1)
    with pytest.raises(CorruptBatch, match="a timestamp of"):
        list(read_records(batch))


def test_every_truncation_of_the_records_is_corrupt() -> None:
    headers = (("key", b"value"), ("", None))
    payload = build_batch([Record(70, NOW, b"key", b"value" * 20, headers)])[HEADER_BYTES:]
    for size in range(len(payload)):
        assert_corrupt(batch_of(payload[:size]))


@pytest.mark.parametrize("compression", list(Compression)[1:])
def test_records_inflate_only_to_their_bound(compression: Compression) -> None:
    batch = build_batch([Record(0, NOW, None, bytes(40 * 2**20))], compression=compression)
    tracemalloc.start()
    try:
        with pytest.raises(BatchTooLarge):
            read_records(batch)
        with pytest.raises(BatchTooLarge):
            skim_records(batch, bytes_max=100_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * 2**20
    assert list(skim_records(batch, bytes_max=50 * 2**20)) == [(0, 0, -1, 40 * 2**20)]


def test_a_lie_about_sizes_allocates_nothing() -> None:
    bodies = (
        b"\x00\x00\x00" + zigzag(2**31 - 1) + b"\x01\x00",
        b"\x00\x00\x00\x01\x01" + zigzag(2**31 - 1) + b"\x00\x01",
    )
    batches = [batch_of(sized(body)) for body in bodies]
    batches.append(batch_of(MINIMAL, records_count=2**31 - 1))
    tracemalloc.start()
    try:
        for batch in batches:
            assert_corrupt(batch)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_an_offset_outside_of_its_batch_is_a_bug_of_the_caller() -> None:
    for offset in (99, 100 + 2**31):
        with pytest.raises(AssertionError):
            build_batch([Record(offset, NOW, None, b"")], base_offset=100)


payloads = st.none() | st.binary(max_size=10) | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), payloads), max_size=4).map(tuple)
deltas = st.integers(0, 3) | st.integers(0, 200) | st.integers(0, 2**28)
timestamps = st.integers(NOW - 100, NOW + 100) | st.integers(-1, 10) | st.integers(0, INT64_MAX)


@st.composite
def batches_of_records(draw: st.DrawFn) -> tuple[int, list[Record]]:
    """A base offset, and records with gaps before, between and within limits."""
    base_offset = offset = draw(st.integers(0, 2**62))
    records = []
    for _ in range(draw(st.integers(0, 6))):
        offset += draw(deltas)
        records.append(
            Record(offset, draw(timestamps), draw(payloads), draw(payloads), draw(headers))
        )
        offset += 1
    return base_offset, records


@given(
    batch=batches_of_records(),
    compression=st.sampled_from(list(Compression)),
    producer=st.tuples(
        st.integers(-1, INT64_MAX), st.integers(-1, 2**15 - 1), st.integers(-1, 2**31 - 1)
    ),
    delete_horizon=st.none() | st.integers(0, 2**48),
    flags=st.tuples(st.booleans(), st.booleans()),
)
@settings(deadline=None, max_examples=300)
def test_any_records_come_back_from_their_batch(
    batch: tuple[int, list[Record]],
    compression: Compression,
    producer: tuple[int, int, int],
    delete_horizon: int | None,
    flags: tuple[bool, bool],
) -> None:
    base_offset, records = batch
    encoded = build_batch(
        records,
        base_offset=base_offset,
        compression=compression,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        delete_horizon=delete_horizon,
        is_transactional=flags[0],
        is_control=flags[1],
    )
    header = read_header(encoded)
    check_crc(encoded, 0, header)
    assert header.size == len(encoded)
    assert header.base_offset == base_offset
    assert header.compression is (compression if records else Compression.NONE)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == producer
    assert (header.is_transactional, header.is_control) == flags
    assert header.has_delete_horizon == (delete_horizon is not None)
    if records:
        assert header.last_offset == records[-1].offset
        assert header.max_timestamp == max(record.timestamp for record in records)
    assert list(read_records(encoded, header=header)) == records
    assert list(skim_records(encoded)) == [
        (
            record.offset - base_offset,
            record.timestamp - header.base_timestamp,
            -1 if record.key is None else len(record.key),
            -1 if record.value is None else len(record.value),
        )
        for record in records
    ]


def outcome(batch: bytes | bytearray) -> list[tuple[int, int]] | None:
    """Sizes of key and value of each record, or None for a corrupt batch."""
    with suppress(CorruptBatch):
        return [
            (
                -1 if record.key is None else len(record.key),
                -1 if record.value is None else len(record.value),
            )
            for record in read_records(batch, bytes_max=10_000)
        ]
    return None


def skimmed(batch: bytes | bytearray) -> list[tuple[int, int]] | None:
    with suppress(CorruptBatch):
        return [sizes for _, _, *sizes in skim_records(batch, bytes_max=10_000)]  # type: ignore[misc]
    return None


@compressions
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 400), st.binary(min_size=1, max_size=3)), min_size=1, max_size=4
    )
)
@settings(deadline=None, max_examples=300)
def test_damaged_batches_are_read_or_corrupt(
    compression: Compression, changes: list[tuple[int, bytes]]
) -> None:
    headers = (("one", b"1"), ("none", None))
    records = [Record(n * n, NOW + n, b"key", b"value" * n, headers) for n in range(6)]
    damaged = bytearray(build_batch(records, compression=compression))
    for position, replacement in changes:
        position %= len(damaged)
        damaged[position : position + len(replacement)] = replacement
    outcome(damaged)
    skimmed(damaged)


@given(payload=st.binary(max_size=60), count=st.integers(0, 8))
@settings(deadline=None, max_examples=300)
def test_random_bytes_are_records_or_corrupt(payload: bytes, count: int) -> None:
    batch = batch_of(payload, records_count=count, base_timestamp=0)
    assert outcome(batch) == skimmed(batch)


@given(body=st.binary(min_size=1, max_size=40))
@settings(deadline=None, max_examples=300)
def test_random_bytes_of_the_right_length_are_a_record_or_corrupt(body: bytes) -> None:
    batch = batch_of(sized(b"\x00\x00\x00" + body), base_timestamp=0)
    assert outcome(batch) == skimmed(batch)
