from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyk.wire.batch import BatchHeader, TimestampType, check_crc, encode_batch, read_header
from pyk.wire.compression import BatchTooLarge, Compression, CorruptBatch
from pyk.wire.outline import outline_records, skim_times
from pyk.wire.records import Record, build_batch, read_records

NOW = 1_700_000_000_000

records_of_a_batch = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=st.integers(NOW - 10**9, NOW + 10**9),
        key=st.none() | st.binary(max_size=200),
        value=st.none() | st.binary(max_size=200),
        headers=st.lists(
            st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2
        ).map(tuple),
    ),
    min_size=1,
    max_size=12,
).map(lambda records: [at(record, 70 + 30 * n) for n, record in enumerate(records)])


def at(record: Record, offset: int) -> Record:
    return Record(offset, record.timestamp, record.key, record.value, record.headers)


def numbered(count: int) -> list[Record]:
    return [
        Record(offset=n, timestamp=NOW + n, key=b"%d" % n, value=b"v" * 100) for n in range(count)
    ]


@given(
    records=records_of_a_batch,
    codec=st.sampled_from(list(Compression)),
    timestamp_type=st.sampled_from(list(TimestampType)),
    horizon=st.none() | st.just(NOW + 50),
    data=st.data(),
)
@settings(deadline=None, max_examples=200)
def test_some_records_of_a_batch_are_the_same_in_a_smaller_one(
    records: list[Record],
    codec: Compression,
    timestamp_type: TimestampType,
    horizon: int | None,
    data: st.DataObject,
) -> None:
    batch = build_batch(
        records,
        base_offset=7,
        last_offset=5000,
        compression=codec,
        timestamp_type=timestamp_type,
        delete_horizon=horizon,
        partition_leader_epoch=3,
        producer_id=4,
        producer_epoch=5,
        base_sequence=6,
        is_transactional=True,
    )
    header = read_header(batch)
    records = list(read_records(batch))
    outline = outline_records(b"before" + batch, 6, header)
    assert outline.keys == [record.key for record in records]
    assert outline.tombstones == [n for n, record in enumerate(records) if record.value is None]
    kept = sorted(data.draw(st.sets(st.sampled_from(range(len(records))), min_size=1)))
    shrunk = outline.shrunk(kept)
    check_crc(shrunk, 0, read_header(shrunk))
    assert list(read_records(shrunk)) == [records[number] for number in kept]
    assert unchanging(read_header(shrunk)) == unchanging(header)
    latest = max(records[number].timestamp for number in kept)
    assert read_header(shrunk).max_timestamp == latest


def unchanging(header: BatchHeader) -> tuple[int, ...]:
    return (
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.attributes,
        header.base_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )


def test_an_outline_inflates_only_to_its_bound() -> None:
    batch = build_batch(numbered(100), compression=Compression.ZSTD)
    with pytest.raises(BatchTooLarge):
        outline_records(batch, 0, read_header(batch), bytes_max=1000)


@given(
    records=records_of_a_batch,
    codec=st.sampled_from(list(Compression)),
    timestamp_type=st.sampled_from(list(TimestampType)),
)
def test_times_and_offsets_are_those_of_the_records(
    records: list[Record], codec: Compression, timestamp_type: TimestampType
) -> None:
    batch = build_batch(
        records, base_offset=7, compression=codec, timestamp_type=timestamp_type, max_timestamp=NOW
    )
    found = list(skim_times(batch, 0, read_header(batch)))
    assert found == [(record.timestamp, record.offset) for record in read_records(batch)]


def test_every_truncation_of_the_records_is_corrupt() -> None:
    batch = build_batch(numbered(3))
    header = read_header(batch)
    payload = batch[61:]
    for size in range(len(payload)):
        with pytest.raises(CorruptBatch):
            outlined(payload[:size], header.records_count)


@given(payload=st.binary(max_size=60), count=st.integers(0, 8))
@settings(deadline=None, max_examples=500)
def test_random_bytes_have_an_outline_if_they_are_records(payload: bytes, count: int) -> None:
    try:
        keys = [record.key for record in read_records(batch_of(payload, count))]
    except CorruptBatch:
        try:
            outlined(payload, count)
        except CorruptBatch:
            return
    else:
        assert outlined(payload, count) == keys


@pytest.mark.parametrize("length", [-7, -1, 0, 3, 4, 100, 2**31 - 1])
def test_a_record_length_that_lies_is_corrupt(length: int) -> None:
    zigzag = length << 1 if length >= 0 else (-length << 1) - 1
    prefix = bytearray()
    while zigzag > 0x7F:
        prefix.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    prefix.append(zigzag)
    with pytest.raises(CorruptBatch):
        outlined(bytes(prefix) + b"\x00\x00\x00\x01\x01\x00", 1)


def outlined(payload: bytes, count: int) -> list[bytes | None]:
    batch = batch_of(payload, count)
    return outline_records(batch, 0, read_header(batch)).keys


def batch_of(payload: bytes, count: int) -> bytes:
    return encode_batch(
        payload,
        base_offset=0,
        partition_leader_epoch=0,
        attributes=0,
        last_offset_delta=0,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=count,
    )
