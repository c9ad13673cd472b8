"""Batches of kafka-python, aiokafka and kio are read here, and ours are read by them."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records import readers as kio_readers
from kio.records import schema as kio_schema
from kio.records import writers as kio_writers
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from pyk.wire.batch import check_crc, read_header
from pyk.wire.compression import Compression
from pyk.wire.records import Record, build_batch, read_records, skim_records

if TYPE_CHECKING:
    from collections.abc import Sequence

with warnings.catch_warnings():
    # All of kafka-python is imported with a part of it, and some of that is deprecated in 3.11.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import (
        default_records as kafka_python_records,
    )

NOW = 1_700_000_000_000


@dataclass(frozen=True)
class Library:
    """One with the classes that kafka-python once had and aiokafka took over."""

    name: str
    reader: Any
    builder: Any

    def read(self, batch: bytes) -> list[Record]:
        found = self.reader(batch)
        assert found.validate_crc()
        return [
            Record(record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
            for record in found
        ]

    def build(self, records: Sequence[Record], compression: Compression) -> bytes:
        builder = self.builder(
            magic=2,
            compression_type=int(compression),
            is_transactional=True,
            producer_id=77,
            producer_epoch=3,
            base_sequence=11,
            batch_size=2**20,
        )
        for record in records:
            headers = list(record.headers)
            builder.append(record.offset, record.timestamp, record.key, record.value, headers)
        return bytes(builder.build())


LIBRARIES = [
    Library(
        "kafka-python",
        kafka_python_records.DefaultRecordBatch,
        kafka_python_records.DefaultRecordBatchBuilder,
    ),
    Library(
        "aiokafka",
        aiokafka_records.DefaultRecordBatch,
        aiokafka_records.DefaultRecordBatchBuilder,
    ),
]

libraries = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
compressions = pytest.mark.parametrize("compression", Compression)

EXAMPLE = [
    Record(0, NOW, b"key", b"value" * 2_000),
    Record(1, NOW + 70, None, b""),
    Record(2, NOW - 9_000, b"", None),
    Record(3, NOW, b"k" * 70, b"v" * 70_000, (("one", b"1"), ("one", None), ("é", b""))),
    *(Record(n, NOW + n, b"key %d" % n, b"value %d" % n) for n in range(4, 500)),
]


def test_aiokafka_is_its_c_extension() -> None:
    assert "_crecords" in aiokafka_records.DefaultRecordBatch.__module__


@libraries
@compressions
def test_theirs_is_read_here(library: Library, compression: Compression) -> None:
    batch = library.build(EXAMPLE, compression)
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.compression is compression
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 11)
    assert (header.last_offset_delta, header.records_count) == (499, 500)
    assert (header.base_timestamp, header.max_timestamp) == (NOW, NOW + 499)
    assert list(read_records(batch)) == EXAMPLE
    assert len(list(skim_records(batch))) == 500


@libraries
@compressions
def test_ours_is_read_there(library: Library, compression: Compression) -> None:
    assert library.read(build_batch(EXAMPLE, compression=compression)) == EXAMPLE


@libraries
def test_uncompressed_batches_are_equal_to_the_byte(library: Library) -> None:
    theirs = library.build(EXAMPLE, Compression.NONE)
    ours = build_batch(
        EXAMPLE,
        partition_leader_epoch=read_header(theirs).partition_leader_epoch,
        producer_id=77,
        producer_epoch=3,
        base_sequence=11,
        is_transactional=True,
    )
    assert ours == theirs


@libraries
def test_what_compaction_leaves_is_read_there(library: Library) -> None:
    records = [Record(1_005, NOW, b"key", b"value"), Record(1_500, NOW + 3, b"other", None)]
    batch = build_batch(records, base_offset=1_000, last_offset=2_000, delete_horizon=NOW + 10**9)
    assert library.read(batch) == records
    assert library.reader(batch).next_offset == 2_001
    empty = build_batch([], base_offset=1_000, last_offset=2_000, max_timestamp=NOW, producer_id=5)
    assert library.read(empty) == []
    assert library.reader(empty).next_offset == 2_001


payloads = st.none() | st.binary(max_size=100)
records_of_a_producer = st.lists(
    st.tuples(
        st.integers(NOW - 100, NOW + 100) | st.integers(1, 2**62),
        payloads,
        payloads,
        st.lists(st.tuples(st.text(max_size=5), payloads), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=6,
).map(lambda rows: [Record(offset, *row) for offset, row in enumerate(rows)])


@libraries
@given(records=records_of_a_producer, compression=st.sampled_from(list(Compression)))
@settings(deadline=None, max_examples=150)
def test_any_records_are_the_same_in_both(
    library: Library, records: list[Record], compression: Compression
) -> None:
    assert list(read_records(library.build(records, compression))) == records
    assert library.read(build_batch(records, compression=compression)) == records


def kio_record(record: Record) -> kio_schema.Record:
    return kio_schema.Record(
        attributes=i8(0),
        timestamp=TZAwareMicros.parse(datetime.fromtimestamp(record.timestamp / 1_000, UTC)),
        offset=i64(record.offset),
        key=record.key,
        value=record.value,
        headers=tuple(
            kio_schema.RecordHeader(key=key.encode(), value=value) for key, value in record.headers
        ),
    )


def in_whole_seconds(records: Sequence[Record]) -> list[Record]:
    """Kio's reader drops the milliseconds."""
    return [
        Record(record.offset, NOW + 1_000 * n, record.key, record.value, record.headers)
        for n, record in enumerate(records)
    ]


def test_kio_builds_and_we_read() -> None:
    """Kio has no compression."""
    records = in_whole_seconds(EXAMPLE)
    new_batch = kio_schema.NewRecordBatch(
        producer_id=i64(77),
        producer_epoch=i16(3),
        partition_leader_epoch=i32(4),
        base_sequence=i32(11),
        records=tuple(map(kio_record, records)),
        attributes=i16(0),
    )
    buffer = io.BytesIO()
    kio_writers.write_batch(buffer, new_batch)
    batch = buffer.getvalue()
    check_crc(batch, 0, read_header(batch))
    assert list(read_records(batch)) == records
    assert batch == build_batch(
        records, partition_leader_epoch=4, producer_id=77, producer_epoch=3, base_sequence=11
    )


def test_we_build_and_kio_reads() -> None:
    records = in_whole_seconds(EXAMPLE)
    batch = build_batch(records, producer_id=77, producer_epoch=3, base_sequence=11)
    found, size = kio_readers.read_batch(batch, 0)
    assert size == len(batch)
    assert found.records == tuple(map(kio_record, records))
