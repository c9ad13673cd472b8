"""Record batches beside kafka-python and aiokafka (whose reader and builder are compiled C)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from bench.table import Row, microseconds
from pyk.wire.batch import check_crc, read_header
from pyk.wire.compression import Compression
from pyk.wire.records import Record, build_batch, read_records, skim_records

TITLE = "Record batches: 1,000 records of 100 B, microseconds a record"
COUNT = 1_000
RECORDS = [
    Record(offset=i, timestamp=1_700_000_000_000 + i // 7, key=None, value=b"%0100d" % i)
    for i in range(COUNT)
]


def rows() -> Sequence[Row]:
    batch = build_batch(RECORDS)
    squeezed = build_batch(RECORDS, compression=Compression.LZ4)
    return [
        per_record("read", lambda: list(read_records(batch)), reading(batch)),
        per_record("read, lz4", lambda: list(read_records(squeezed)), reading(squeezed)),
        per_record("skim (what a broker checks)", lambda: list(skim_records(batch)), {}),
        per_record("header and CRC only", lambda: check_crc(batch, 0, read_header(batch)), {}),
        per_record("build", lambda: build_batch(RECORDS), building()),
    ]


def per_record(
    what: str, pyk: Callable[[], object], others: dict[str, Callable[[], object]]
) -> Row:
    contestants = {"pyk": pyk, "kafka-python": None, "aiokafka (C)": None} | others
    best = microseconds(contestants)
    return Row(what, "us", {k: None if v is None else v / COUNT for k, v in best.items()})


def reading(batch: bytes) -> dict[str, Callable[[], object]]:
    return {
        "kafka-python": lambda: list(KafkaPythonBatch(batch)),
        "aiokafka (C)": lambda: list(AiokafkaBatch(batch)),
    }


def building() -> dict[str, Callable[[], object]]:
    options = {
        "magic": 2, "compression_type": 0, "is_transactional": 0, "producer_id": -1,
        "producer_epoch": -1, "base_sequence": -1, "batch_size": 10**7,
    }  # fmt: skip

    def build(builder: Any) -> object:
        made = builder(**options)
        for record in RECORDS:
            made.append(record.offset, record.timestamp, record.key, record.value, [])
        return made.build()

    return {
        "kafka-python": lambda: build(KafkaPythonBuilder),
        "aiokafka (C)": lambda: build(AiokafkaBuilder),
    }
