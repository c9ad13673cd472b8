"""Logs are read without their broker, and while it goes on with them."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from pyk.disk import RealDisk
from pyk.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, write_offsets
from pyk.log.config import LogConfig
from pyk.spark.bounds import Bounds, Interval
from pyk.spark.logs import DataLost
from pyk.spark.options import InvalidOption, ReadOptions
from pyk.spark.plan import plan
from pyk.types import TopicPartition
from pyk.wire.batch import TimestampType
from pyk.wire.compression import Compression
from pyk.wire.prefixed import ControlType
from pyk.wire.records import Record, build_batch
from tests.spark.stored import (
    NOW,
    Writer,
    damage,
    offsets,
    options,
    read,
    segments,
    transactions,
)

SPLITS = [1, 2, 3, 7, 40, 1000]


@pytest.mark.parametrize("splits", SPLITS)
@pytest.mark.parametrize("is_closed", [True, False])
def test_every_record_is_read_once_however_the_log_is_cut(
    writer: Writer, splits: int, is_closed: bool
) -> None:
    if is_closed:
        writer.close()
    wanted = options(writer.root, minPartitions=str(splits))
    assert read(wanted) == writer.records()


def test_a_segment_is_cut_where_its_index_has_batches(tmp_path: Path) -> None:
    writer = Writer(tmp_path, LogConfig(index_interval_bytes=200))
    for _ in range(200):
        writer.put()
    for is_indexed in (False, True):
        assert (segments(writer)[0].with_suffix(".index")).exists() == is_indexed
        splits = plan(options(tmp_path, minPartitions="20"))
        assert 15 <= len(splits) <= 30
        sizes = [split.size for split in splits]
        assert max(sizes) < 2 * sum(sizes) / len(sizes)
        writer.close()


def test_small_segments_go_together_but_never_partitions(tmp_path: Path) -> None:
    for name in ("t-0", "t-1"):
        writer = Writer(tmp_path, name=name)
        for _ in range(50):
            writer.put()
    splits = plan(options(tmp_path))
    assert [split.partition.partition for split in splits] == [0, 1]
    assert all(len(split.tiles) > 2 for split in splits)


def test_records_are_as_they_were_sent(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    sent = [
        Record(0, -1, None, None),
        Record(1, NOW, b"", b"", (("twice", b"1"), ("twice", None), ("", b""))),
        Record(2, 0, b"k" * 300, b"v" * 70_000),
    ]
    for codec in Compression:
        writer.append(build_batch(sent, compression=codec))
    batch = build_batch(sent, timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=NOW + 5)
    writer.append(batch)
    writer.append(build_batch([], last_offset=4, producer_id=9, producer_epoch=0, base_sequence=0))
    found = read(options(tmp_path))
    assert found == writer.records()
    assert [each.timestamp for each in found[-3:]] == [NOW + 5] * 3
    assert [replace_offset(each) for each in found[:3]] == sent


def replace_offset(record: Record) -> Record:
    return Record(
        record.offset % 3, record.timestamp, record.key, record.value, tuple(record.headers)
    )


@pytest.mark.parametrize("asked", [(0, 300), (7, 8), (7, 200), (150, 151), (298, 300), (31, 31)])
def test_offsets_bound_what_is_read(writer: Writer, asked: tuple[int, int]) -> None:
    start, end = asked
    wanted = options(
        writer.root,
        startingOffsets=f'{{"t": {{"0": {start}}}}}',
        endingOffsets=f'{{"t": {{"0": {end}}}}}',
    )
    assert offsets(read(wanted)) == list(range(start, end))
    bounds = Bounds(offset=Interval(start, end))
    assert offsets(read(options(writer.root), bounds)) == list(range(start, end))


def test_segments_outside_of_the_bounds_are_not_opened(writer: Writer) -> None:
    writer.close()
    files = segments(writer)
    inside = [int(file.stem) for file in files][2:4]
    wanted = range(inside[0] + 1, inside[1] + 2)
    for file in files:
        if int(file.stem) not in (*inside, int(files[-1].stem)):
            file.write_bytes(b"nothing that could be read" * 10)
    bounds = Bounds(offset=Interval(wanted.start, wanted.stop))
    assert offsets(read(options(writer.root), bounds)) == list(wanted)


def test_what_is_older_than_the_bound_is_not_read(writer: Writer) -> None:
    writer.close()
    files = segments(writer)
    base = int(files[-2].stem)
    oldest = NOW + 10 * (base + 20)
    damage(files[-2], 70, b"\xff")
    for file in files[:-2]:
        # The last batches stay, which have the latest times.
        damage(file, 0, b"\xff" * 100)
    found = offsets(read(options(writer.root), Bounds(timestamp_ms=Interval(start=oldest))))
    assert base + 10 < min(found) <= base + 20
    assert found == list(range(min(found), 300))


def test_times_that_go_back_are_found_wherever_they_are(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    for number in range(80):
        timestamp = NOW + (number * 7919) % 1000
        writer.append(build_batch([Record(0, timestamp, None, b"x" * 50)]))
    for is_closed in (False, True):
        if is_closed:
            writer.close()
        for oldest in range(NOW - 5, NOW + 1010, 50):
            expected = [each for each in writer.records() if each.timestamp >= oldest]
            bounds = Bounds(timestamp_ms=Interval(start=oldest))
            found = read(options(tmp_path), bounds)
            assert [each for each in found if each.timestamp >= oldest] == expected


@pytest.mark.parametrize(("early", "shift"), [(0, 7), (9, 0)])
def test_an_index_of_offsets_that_lies_is_not_believed(
    writer: Writer, early: int, shift: int
) -> None:
    expected = writer.records()
    writer.close()
    for path in writer.log.directory.glob("*.index"):
        told = struct.iter_unpack(">II", path.read_bytes())
        lies = [(max(offset - early, 0), place + shift) for offset, place in told]
        path.write_bytes(b"".join(struct.pack(">II", *entry) for entry in lies))
    wanted = options(writer.root, minPartitions="20")
    assert read(wanted) == expected
    for start in range(100, 140):
        bounds = Bounds(offset=Interval(start, 200))
        assert offsets(read(wanted, bounds)) == list(range(start, 200))


def test_an_index_of_times_that_lies_is_not_believed(writer: Writer) -> None:
    writer.close()
    for path in writer.log.directory.glob("*.timeindex"):
        early = [(time - 10**6, n) for time, n in struct.iter_unpack(">qI", path.read_bytes())]
        path.write_bytes(b"".join(struct.pack(">qI", *entry) for entry in early))
    found = read(options(writer.root), Bounds(timestamp_ms=Interval(start=NOW + 1500)))
    assert set(offsets(found)) >= set(range(150, 300))


def test_batches_with_later_append_times_are_left_out(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    for number in range(10):
        batch = build_batch(
            [Record(0, NOW, None, b"x")],
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            max_timestamp=NOW + number,
        )
        writer.append(batch)
    bounds = Bounds(timestamp_ms=Interval(NOW + 3, NOW + 6))
    assert offsets(read(options(tmp_path), bounds)) == [3, 4, 5]


@pytest.mark.parametrize("is_closed", [True, False])
def test_times_name_the_first_offset_at_or_after_them(writer: Writer, is_closed: bool) -> None:
    if is_closed:
        writer.close()
    for start, end in ((0, 299), (5, 17), (100, 101), (299, 299)):
        times = {"startingTimestamp": str(NOW + 10 * start - 9)}
        times["endingOffsetsByTimestamp"] = f'{{"t": {{"0": {NOW + 10 * end}}}}}'
        assert offsets(read(options(writer.root, **times))) == list(range(start, end))


def test_a_start_that_no_record_is_as_late_as_is_an_error_unless_told_otherwise(
    writer: Writer,
) -> None:
    late = {"startingTimestamp": str(NOW * 2)}
    with pytest.raises(InvalidOption, match="t-0 has no record at or after"):
        read(options(writer.root, **late))
    assert read(options(writer.root, **late, startingOffsetsByTimestampStrategy="latest")) == []
    assert offsets(read(options(writer.root, endingTimestamp=str(NOW * 2)))) == list(range(300))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("splits", [1, 5, 60])
def test_only_what_is_committed_is_read_however_transactions_lie_over_splits(
    tmp_path: Path, seed: int, splits: int
) -> None:
    writer = Writer(tmp_path)
    transactions(writer, seed)
    wanted = options(tmp_path, minPartitions=str(splits))
    everything = replace(wanted, is_committed=False)
    assert offsets(read(wanted)) == writer.committed(), "beside a running broker"
    assert read(everything) == writer.records()
    writer.log.flush()
    writer.checkpoint()
    transactions(writer, seed + 100, turns=20)
    assert offsets(read(wanted)) == writer.committed(), "partly flushed"
    write_offsets(RealDisk(), tmp_path / RECOVERY_POINTS, {})
    assert offsets(read(wanted)) == writer.committed(), "with nothing known to be flushed"
    writer.close()
    assert offsets(read(wanted)) == writer.committed(), "closed"
    for snapshot in writer.log.directory.glob("*.snapshot"):
        snapshot.write_bytes(b"damaged")
    assert offsets(read(wanted)) == writer.committed(), "without snapshots"
    assert read(everything) == writer.records()


def test_an_open_transaction_hides_what_comes_after_it(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.put(2)
    writer.put(2, producer=1)
    writer.put(2)
    assert offsets(read(options(tmp_path))) == [0, 1]
    with pytest.raises(DataLost, match="from 0 to before 2, and not 5"):
        read(options(tmp_path, endingOffsets='{"t": {"0": 5}}'))
    writer.end(1, ControlType.ABORT)
    assert offsets(read(options(tmp_path))) == [0, 1, 4, 5]


def test_what_was_deleted_by_request_is_not_shown(writer: Writer) -> None:
    start = {TopicPartition("t", 0): 100}
    write_offsets(RealDisk(), writer.root / LOG_START_OFFSETS, start)
    assert offsets(read(options(writer.root))) == list(range(100, 300))
    early = {"startingOffsets": '{"t": {"0": 10}}'}
    with pytest.raises(DataLost, match="from 100 to before 300, and not 10"):
        read(options(writer.root, **early))
    found = read(options(writer.root, **early, failOnDataLoss="false"))
    assert offsets(found) == list(range(100, 300))


def test_an_empty_partition_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    Writer(tmp_path, name="t-1")
    assert read(options(tmp_path)) == []


def test_what_is_not_there_is_named(writer: Writer, tmp_path: Path) -> None:
    root = writer.root
    for wanted, told in (
        (options(root / "nowhere"), "nowhere is none"),
        (options(root / "t-0"), "has no partitions"),
        (options(root, subscribe="t,u"), "has no topic u"),
        (options(root, path=f"{root},{root}"), "has t-0 twice"),
        (options(root, startingOffsets='{"t": {"0": 1, "1": 1}}'), "not so with t-1"),
        (options(root, endingOffsetsByTimestamp="{}"), "not so with t-0"),
    ):
        with pytest.raises(InvalidOption, match=told):
            plan(wanted)


def test_patterns_leave_internal_topics_out_and_names_do_not(tmp_path: Path) -> None:
    for name in ("t-0", "tu-0", "__consumer_offsets-3"):
        Writer(tmp_path, name=name).put(1)

    def topics(**more: str) -> list[str]:
        wanted = ReadOptions.parse({"path": str(tmp_path), **more})
        return [split.partition.topic for split in plan(wanted)]

    assert topics(subscribePattern=".*") == ["t", "tu"]
    assert topics(subscribePattern="u$") == ["tu"]
    assert topics(subscribePattern="^t$") == ["t"]
    assert topics(subscribe="__consumer_offsets") == ["__consumer_offsets"]
    assert topics(assign='{"tu": [0]}') == ["tu"]
