"""Kafka's DumpLogSegments reads what pyk has compacted, and finds nothing to complain about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from compat_tests.kafka import jars
from pyk.disk import RealDisk
from pyk.wire.compression import Compression
from pyk.wire.prefixed import ControlType
from tests.log.compacted import CONFIG, NOW, RETENTION_MS, Filled, batches, data_records

COMPLAINTS = re.compile(
    r"mismatch|not found|out of order|error|exception|corrupt|invalid|isvalid: false", re.IGNORECASE
)


@pytest.fixture
def compacted(tmp_path: Path) -> Filled:
    """Transactions, tombstones and every codec, compacted until all kinds of batches are there:
    whole, shrunken, emptied, and with a delete horizon."""
    filled = Filled(RealDisk(), replace(CONFIG, segment_bytes=4000), tmp_path / "topic-0")
    for number in range(120):
        codec = list(Compression)[number % 5]
        value = None if number % 11 == 0 else b"value-%d" % number
        pairs = [(b"key-%d" % (number % 30 + n * 17), value) for n in range(3)]
        producer = number % 3
        filled.put(*pairs, producer=producer, in_transaction=producer > 0, codec=codec)
        if number % 4 == 3:
            outcome = ControlType.ABORT if number % 16 < 8 else ControlType.COMMIT
            filled.end(1 + number // 4 % 2, outcome)
        if number % 40 == 39:
            filled.end(1, ControlType.COMMIT)
            filled.end(2, ControlType.ABORT)
            filled.log.roll()
            filled.compact(NOW + number * RETENTION_MS // 100)
    return filled


def dumped(*arguments: str) -> str:
    return jars.run_java("org.apache.kafka.tools.DumpLogSegments", *arguments)


def test_what_is_left_is_dumped_as_it_was_written(compacted: Filled) -> None:
    headers = [header for header, _ in batches(compacted.log)]
    assert any(header.has_delete_horizon for header in headers)
    assert any(header.has_delete_horizon and header.is_control for header in headers)
    assert any(not header.records_count for header in headers)
    assert any(0 < header.records_count <= header.last_offset_delta for header in headers)
    logs = [str(compacted.home / f"{base:020}.log") for base in compacted.log.bases]
    found = dumped("--files", ",".join(logs), "--deep-iteration", "--print-data-log")
    assert not COMPLAINTS.search(found), found
    lines = re.findall(
        r"\| offset: (\d+) CreateTime: (\d+) keySize: \d+ valueSize: (-?\d+).*? key: (\S+)", found
    )
    assert lines == [
        (
            str(record.offset),
            str(record.timestamp),
            str(-1 if record.value is None else len(record.value)),
            (record.key or b"").decode(),
        )
        for record in data_records(compacted.log)
    ]
    horizons = re.findall(r"deleteHorizonMs: OptionalLong\[(\d+)\]", found)
    expected = [header.base_timestamp for header in headers if header.has_delete_horizon]
    assert list(map(int, horizons)) == expected


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_the_indexes_are_sane(suffix: str, compacted: Filled) -> None:
    paths = [str(compacted.home / f"{base:020}{suffix}") for base in compacted.log.bases[:-1]]
    files = ",".join(paths)
    if suffix == ".txnindex":
        shown = dumped("--files", files)
        entries = [
            (entry.producer_id, entry.first_offset, entry.last_offset)
            for base in compacted.log.bases
            for entry in compacted.log.at(base).aborted.entries
        ]
        found = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+)", shown)
        assert [tuple(map(int, each)) for each in found] == entries
        assert entries
        return
    checked = dumped("--files", files, "--index-sanity-check")
    assert checked.count("passed sanity check") == len(paths)
    shown = dumped("--files", files)
    assert not COMPLAINTS.search(shown), shown
