"""Record batches: Kafka reads what pyk builds and builds what pyk reads, with every codec."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compat_tests.kafka import oracle as kafka
from compat_tests.kafka.oracle import Oracle
from pyk.wire.batch import TimestampType, check_crc, read_header
from pyk.wire.compression import Compression
from pyk.wire.prefixed import ControlType, decode_control_type, encode_end_marker
from pyk.wire.records import Record, build_batch, read_records

CODECS = [(codec, cast("kafka.Compression", codec.name.lower())) for codec in Compression]
RECORDS = [
    Record(offset=5, timestamp=1_700_000_000_000, key=b"k", value=b"v" * 70_000),
    Record(offset=6, timestamp=1_700_000_000_007, key=None, value=None),
    Record(offset=9, timestamp=1_699_999_999_999, key=b"", value=b"", headers=(("h", None),)),
    Record(
        offset=10, timestamp=1_700_000_000_001, key=b"k2", value=bytes(range(256)) * 99,
        headers=(("a", b"1"), ("a", b"2"), ("ключ", b"")),
    ),
]  # fmt: skip

a_record = st.tuples(
    st.integers(0, 2**41),
    st.none() | st.binary(max_size=40),
    st.none() | st.binary(max_size=300) | st.binary(max_size=8).map(lambda b: b * 5_000),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3),
)


def theirs(record: Record) -> kafka.Record:
    return kafka.Record(
        offset=record.offset,
        timestamp=record.timestamp,
        key=record.key,
        value=record.value,
        headers=record.headers,
    )


@pytest.mark.parametrize(("codec", "name"), CODECS)
def test_kafka_reads_what_pyk_builds(
    codec: Compression, name: kafka.Compression, oracle: Oracle
) -> None:
    batch = oracle.read_batch(
        build_batch(
            RECORDS,
            base_offset=5,
            compression=codec,
            partition_leader_epoch=3,
            producer_id=77,
            producer_epoch=2,
            base_sequence=40,
            is_transactional=True,
        )
    )
    assert list(batch.records) == [theirs(record) for record in RECORDS]
    assert (batch.compression, batch.partition_leader_epoch) == (name, 3)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 2, 40)
    assert (batch.transactional, batch.control, batch.last_offset) == (True, False, 10)
    assert batch.max_timestamp == 1_700_000_000_007


@pytest.mark.parametrize(("codec", "name"), CODECS)
def test_pyk_reads_what_kafka_builds(
    codec: Compression, name: kafka.Compression, oracle: Oracle
) -> None:
    built = oracle.build_batch(
        name, [theirs(record) for record in RECORDS], base_offset=5, producer_id=77,
        producer_epoch=2, base_sequence=40, transactional=True, partition_leader_epoch=3,
    )  # fmt: skip
    header = read_header(built)
    check_crc(built, 0, header)
    assert list(read_records(built)) == RECORDS
    assert (header.compression, header.base_offset, header.last_offset) == (codec, 5, 10)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 2, 40)
    assert (header.is_transactional, header.is_control) == (True, False)
    assert (header.partition_leader_epoch, header.max_timestamp) == (3, 1_700_000_000_007)


@pytest.mark.parametrize(("codec", "name"), CODECS)
def test_any_records_pass_both_ways(
    codec: Compression, name: kafka.Compression, oracle: Oracle
) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.lists(a_record, min_size=1, max_size=20))
    def both_ways(values: list[tuple[int, bytes | None, bytes | None, list[object]]]) -> None:
        records = [
            Record(offset=number, timestamp=time, key=key, value=value, headers=tuple(headers))  # type: ignore[arg-type]
            for number, (time, key, value, headers) in enumerate(values)
        ]
        built = oracle.build_batch(name, [theirs(record) for record in records])
        assert list(read_records(built)) == records
        ours = build_batch(records, compression=codec)
        assert list(oracle.read_batch(ours).records) == [theirs(record) for record in records]
        if codec is Compression.NONE:
            assert ours == built

    both_ways()


def test_append_time_and_delete_horizon_are_read_alike(oracle: Oracle) -> None:
    appended = build_batch(
        RECORDS, base_offset=5, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=42
    )
    batch = oracle.read_batch(appended)
    assert batch.timestamp_type == "LogAppendTime"
    assert [record.timestamp for record in batch.records] == [42] * 4
    assert [record.timestamp for record in read_records(appended)] == [42] * 4
    cleaned = build_batch(RECORDS, base_offset=5, delete_horizon=1_800_000_000_000)
    assert oracle.read_batch(cleaned).delete_horizon_ms == 1_800_000_000_000
    assert list(oracle.read_batch(cleaned).records) == [theirs(record) for record in RECORDS]


def test_an_empty_batch_keeps_its_range(oracle: Oracle) -> None:
    empty = build_batch([], base_offset=5, last_offset=9, producer_id=1, producer_epoch=0)
    batch = oracle.read_batch(empty)
    assert (batch.base_offset, batch.last_offset, list(batch.records)) == (5, 9, [])


@pytest.mark.parametrize("outcome", ControlType)
def test_the_end_of_a_transaction_is_marked_alike(outcome: ControlType, oracle: Oracle) -> None:
    theirs = oracle.build_end_transaction_marker(
        base_offset=11, timestamp=42, producer_id=7, producer_epoch=3,
        partition_leader_epoch=2, commit=outcome is ControlType.COMMIT, coordinator_epoch=9,
    )  # fmt: skip
    key, value = encode_end_marker(outcome, coordinator_epoch=9)
    ours = build_batch(
        [Record(offset=11, timestamp=42, key=key, value=value)],
        base_offset=11,
        partition_leader_epoch=2,
        producer_id=7,
        producer_epoch=3,
        is_transactional=True,
        is_control=True,
    )
    assert ours == theirs
    (record,) = read_records(theirs)
    assert decode_control_type(record.key) == outcome
