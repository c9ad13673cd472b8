"""Kafka's DumpLogSegments reads pyk's segments and indexes, and finds nothing to complain about."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compat_tests.kafka import jars
from pyk.disk import RealDisk
from pyk.log.segment import Segment
from pyk.wire.batch import read_header
from pyk.wire.compression import Compression
from pyk.wire.records import Record, build_batch

COMPLAINTS = re.compile(
    r"mismatch|not found|out of order|error|exception|corrupt|invalid|isvalid: false", re.IGNORECASE
)


def written(directory: Path, codec: Compression, base_offset: int = 0) -> list[Record]:
    """A sealed segment of many batches with times that go back and forth."""
    segment = Segment(RealDisk(), directory, base_offset, index_interval_bytes=512)
    everything: list[Record] = []
    for number in range(60):
        start = segment.next_offset + (3 if number == 30 else 0)
        records = [
            Record(
                offset=start + index,
                timestamp=1_700_000_000_000 + number * 10 - (number % 7) * 25 + index,
                key=b"key-%d" % number,
                value=b"value-%d" % index * 20,
                headers=(("h", b"1"),),
            )
            for index in range(1 + number % 4)
        ]
        data = build_batch(
            records, base_offset=start, compression=codec, partition_leader_epoch=number // 20
        )
        segment.append(data, read_header(data))
        everything += records
    segment.seal()
    segment.flush()
    return everything


def dumped(*arguments: str) -> str:
    return jars.run_java("org.apache.kafka.tools.DumpLogSegments", *arguments)


@pytest.mark.parametrize("codec", Compression)
def test_the_records_are_dumped_as_they_were_written(codec: Compression, tmp_path: Path) -> None:
    records = written(tmp_path, codec)
    log = str(tmp_path / "00000000000000000000.log")
    found = dumped("--files", log, "--deep-iteration", "--print-data-log")
    assert not COMPLAINTS.search(found), found
    lines = re.findall(r"\| offset: (\d+) CreateTime: (\d+).*? key: (\S+) payload: (\S+)", found)
    assert lines == [
        (
            str(record.offset),
            str(record.timestamp),
            (record.key or b"").decode(),
            (record.value or b"").decode(),
        )
        for record in records
    ]
    assert set(re.findall(r"compresscodec: (\w+)", found)) == {codec.name.lower()}


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("base_offset", [0, 5_000_000_000])
def test_the_indexes_are_sane(suffix: str, base_offset: int, tmp_path: Path) -> None:
    written(tmp_path, Compression.NONE, base_offset)
    path = str(tmp_path / f"{base_offset:020}{suffix}")
    checked = dumped("--files", path, "--index-sanity-check")
    assert "passed sanity check" in checked
    verified = dumped("--files", path, "--verify-index-only")
    assert not COMPLAINTS.search(verified), verified
    shown = dumped("--files", path)
    assert not COMPLAINTS.search(shown), shown
    assert len(re.findall(r"offset: \d+", shown)) > 5
