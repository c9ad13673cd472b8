"""How many rows there are at once, and which times they can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyk.log.config import LogConfig
from pyk.log.stored_log import LogDamaged
from pyk.spark.bounds import EVERYTHING
from pyk.spark.columns import BYTES_MAX, ROWS_MAX, TIMESTAMP_MS_MAX, Columns, filled
from pyk.spark.options import ReadOptions
from pyk.spark.plan import plan
from pyk.spark.splits import Policy
from pyk.wire.compression import Compression
from pyk.wire.records import Record, build_batch
from tests.spark.stored import NOW, Writer, offsets, options, read

MEGABYTE = b"x" * 1024 * 1024


def columns_of(root: Path, *, has_headers: bool) -> list[Columns]:
    wanted = ReadOptions.parse({"path": str(root), "subscribe": "t"})
    return [
        columns
        for split in plan(wanted)
        for columns in filled(
            split, EVERYTHING.timestamp_ms, Policy(print), has_headers=has_headers
        )
    ]


@pytest.mark.parametrize(
    "record",
    [
        Record(0, NOW, MEGABYTE, None),
        Record(0, NOW, None, MEGABYTE),
        Record(0, NOW, None, None, (("name", MEGABYTE),)),
        Record(0, NOW, MEGABYTE[1::3], MEGABYTE[1::3], ((MEGABYTE[1::3].decode(), None),)),
    ],
)
def test_keys_values_and_headers_are_what_is_too_much(tmp_path: Path, record: Record) -> None:
    writer = Writer(tmp_path, LogConfig())
    for _ in range(30):
        writer.append(build_batch([record], compression=Compression.ZSTD))
    found = columns_of(tmp_path, has_headers=True)
    assert sum(map(len, found)) == 30
    assert len(found) >= 4
    assert max(columns.size for columns in found) <= BYTES_MAX


def test_headers_that_nobody_asked_for_are_not_held(tmp_path: Path) -> None:
    writer = Writer(tmp_path, LogConfig())
    record = Record(0, NOW, None, None, (("name", MEGABYTE),))
    for _ in range(30):
        writer.append(build_batch([record], compression=Compression.ZSTD))
    (found,) = columns_of(tmp_path, has_headers=False)
    assert (len(found), found.size, found.headers) == (30, 0, [])


def test_a_batch_that_is_too_much_by_itself_is_alone(tmp_path: Path) -> None:
    writer = Writer(tmp_path, LogConfig())
    large = [Record(n, NOW, MEGABYTE, None) for n in range(12)]
    small = [Record(0, NOW, b"k", None)]
    for records in (small, large, small, large):
        writer.append(build_batch(records, compression=Compression.ZSTD))
    found = columns_of(tmp_path, has_headers=False)
    assert [len(columns) for columns in found] == [1, 12, 1, 12]


def test_many_small_rows_are_not_held_for_ever(tmp_path: Path) -> None:
    writer = Writer(tmp_path, LogConfig())
    for _ in range(50):
        writer.put(1000)
    found = columns_of(tmp_path, has_headers=False)
    assert sum(map(len, found)) == 50_000
    assert max(map(len, found)) < ROWS_MAX + 1000


@pytest.mark.parametrize("time", [TIMESTAMP_MS_MAX + 1, 2**63 - 1, -TIMESTAMP_MS_MAX - 1])
def test_a_time_that_spark_cannot_have_is_damage_of_its_batch(tmp_path: Path, time: int) -> None:
    writer = Writer(tmp_path)
    writer.put(2)
    writer.append(build_batch([Record(0, NOW, b"k", b"v"), Record(1, time, b"k", b"v")]))
    writer.put(2)
    with pytest.raises(LogDamaged, match=f"offset 3 has the time {time}, which Spark cannot have"):
        read(options(tmp_path))
    reports: list[str] = []
    assert offsets(read(options(tmp_path, damage="skip"), reports=reports)) == [0, 1, 4, 5]
    assert len(reports) == 1


def test_the_last_time_that_spark_can_have_is_read(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    times = [TIMESTAMP_MS_MAX, -TIMESTAMP_MS_MAX]
    for time in times:
        writer.append(build_batch([Record(0, time, b"k", b"v")]))
    assert [record.timestamp for record in read(options(tmp_path))] == times
