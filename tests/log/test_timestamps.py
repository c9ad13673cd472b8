"""Searches by time: what they find, what they make of batches that cannot be read, and threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from pyk.log.batches import CHEAP_BYTES
from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.index import TimedOffset
from pyk.log.log import Log
from pyk.log.segments import OPENED_MAX
from pyk.log.timestamps import CHEAP_SEGMENTS, OPENING_COSTS, TimestampSearch
from pyk.wire.batch import encode_batch
from pyk.wire.compression import Compression
from pyk.wire.records import RECORDS_BYTES_MAX, Record, build_batch
from tests.log.test_aborted_segments import CountingDisk
from tests.log.test_log import HOME, add, batch
from tests.simulated_disk import SimulatedDisk

CONFIG = LogConfig(segment_bytes=10**8, index_interval_bytes=200)


def opened(config: LogConfig = CONFIG) -> Log:
    return Log.open(SimulatedDisk(), HOME, config)


def large(
    *timestamps: int,
    value: bytes = b"v",
    compression: Compression = Compression.NONE,
    key: bytes | None = None,
) -> bytearray:
    records = [Record(i, timestamp, key, value) for i, timestamp in enumerate(timestamps)]
    return bytearray(build_batch(records, compression=compression))


def not_gzip(timestamp: int) -> bytearray:
    """Its CRC is right, and its records do not inflate."""
    data = encode_batch(
        b"this is not gzip",
        base_offset=0,
        partition_leader_epoch=-1,
        attributes=Compression.GZIP,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=1,
    )
    return bytearray(data)


def in_threads(log: Log, timestamp: int) -> tuple[TimedOffset | None, int]:
    """What is found, and how often it took a thread."""
    found, threads = log.begin_find_timestamp(timestamp), 0
    while isinstance(found, TimestampSearch):
        found.run()
        threads += 1
        found = log.end_find_timestamp(found)
    return found, threads


def test_a_batch_that_does_not_inflate_counts_with_its_header() -> None:
    log = opened()
    add(log, batch(10), not_gzip(20), batch(30))
    found = [log.find_timestamp(timestamp) for timestamp in (10, 15, 25)]
    assert found == [(10, 0), (20, 1), (30, 2)]
    assert log.find_newest() == (30, 2)


def test_so_does_the_newest_batch_of_all() -> None:
    log = opened()
    add(log, batch(10), not_gzip(20))
    assert log.find_newest() == (20, 1)
    assert log.find_timestamp(11) == (20, 1)


def test_so_does_one_whose_records_are_cut_off() -> None:
    log = opened()
    torn = large(10, 20, 30, value=b"v" * 50)
    del torn[-57:]
    torn = bytearray(
        encode_batch(
            torn[61:],
            base_offset=0,
            partition_leader_epoch=-1,
            attributes=0,
            last_offset_delta=2,
            base_timestamp=10,
            max_timestamp=30,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            records_count=3,
        )
    )
    add(log, torn, batch(40))
    assert log.find_timestamp(5) == (10, 0)
    assert log.find_timestamp(25) == (30, 0), "its third record is not there"
    assert log.find_timestamp(35) == (40, 3)


@pytest.mark.parametrize("is_allowed", [False, True])
def test_records_are_found_in_what_the_topic_takes(is_allowed: bool) -> None:
    value = bytes(RECORDS_BYTES_MAX // 2)
    log = opened(replace(CONFIG, max_message_bytes=4 * len(value) if is_allowed else 10**6))
    add(log, large(10, 20, 30, value=value, compression=Compression.ZSTD))
    assert log.find_timestamp(15) == ((20, 1) if is_allowed else (30, 0))


def test_what_is_small_is_found_without_a_thread() -> None:
    log = opened()
    add(log, *(batch(at, at + 1, compression=Compression.ZSTD) for at in range(100)))
    assert [in_threads(log, at) for at in (0, 50, 99, 101)] == [
        ((0, 0), 0), ((50, 99), 0), ((99, 197), 0), (None, 0),
    ]  # fmt: skip


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_a_large_batch_is_read_in_a_thread(codec: Compression) -> None:
    log = opened()
    add(log, large(*range(5000), value=b"v" * 20, compression=codec))
    assert in_threads(log, 4321) == ((4321, 4321), 1)


def test_many_headers_are_read_in_a_thread() -> None:
    log = opened()
    add(log, batch(1000), *(batch(1) for _ in range(CHEAP_BYTES // 60)), batch(2000))
    assert in_threads(log, 1500) == ((2000, CHEAP_BYTES // 60 + 1), 1)


def test_others_have_a_turn_while_many_segments_are_opened() -> None:
    disk = SimulatedDisk()
    log = Log.open(disk, HOME, CONFIG)
    for at in range(3 * CHEAP_SEGMENTS):
        add(log, batch(at))
        log.roll()
    log.close()
    log = Log.open(disk, HOME, CONFIG, high_watermark=log.end_offset)
    last = 3 * CHEAP_SEGMENTS - 1
    assert in_threads(log, last) == ((last, last), 3)
    assert in_threads(log, last) == ((last, last), 0), "they are open now"


def test_others_have_a_turn_while_many_segments_are_looked_at_again() -> None:
    """What is known of them is enough by then. They are not all kept open."""
    disk, count = CountingDisk(), 2 * CHEAP_SEGMENTS * OPENING_COSTS
    log = Log.open(disk, HOME, CONFIG)
    for at in range(count):
        add(log, batch(at))
        log.roll()
    log.close()
    disk.opened = 0
    for _ in range(2):
        assert in_threads(log, count - 1) == ((count - 1, count - 1), 2)
    assert disk.opened < 9
    log = Log.open(disk, HOME, CONFIG, high_watermark=log.end_offset)
    assert in_threads(log, count - 1)[0] == (count - 1, count - 1)
    for offset in range(count):
        assert log.read(offset, 1000, log.end_offset) is not None
    assert len(log._segments._opened) <= OPENED_MAX


def test_what_is_truncated_during_a_search_is_not_found() -> None:
    log = opened()
    add(log, batch(10), large(*range(5000), value=b"v" * 20))
    search = log.begin_find_timestamp(100)
    assert isinstance(search, TimestampSearch)
    log.truncate(1)
    search.run()
    assert log.end_find_timestamp(search) is None


def test_what_is_deleted_during_a_search_is_not_found() -> None:
    log = opened()
    add(log, large(*range(5000), value=b"v" * 20), batch(200))
    log.advance_high_watermark(log.end_offset)
    search = log.begin_find_timestamp(100)
    assert isinstance(search, TimestampSearch)
    log.advance_start(5000)
    search.run()
    assert log.end_find_timestamp(search) == (200, 5000)


def test_segments_that_are_compacted_during_a_search_are_searched_again() -> None:
    config = replace(
        CONFIG, cleanup_policy=frozenset({CleanupPolicy.COMPACT}), min_cleanable_dirty_ratio=0.0
    )
    disk = SimulatedDisk()
    log = Log.open(disk, HOME, config)
    add(log, batch(1), large(*range(1000, 6000), key=b"k"))
    log.roll()
    add(log, batch(3, 7000))
    log.roll()
    add(log, batch(8000))
    log.advance_high_watermark(log.end_offset)
    search = log.begin_find_timestamp(5999)
    assert isinstance(search, TimestampSearch)
    log.flush()
    compaction = log.begin_compaction(10_000)
    assert compaction is not None
    log.end_compaction(compaction, compaction.run())
    search.found = None
    assert log.end_find_timestamp(search) == (5999, 5000)


def test_a_segment_that_is_removed_during_a_search_does_not_come_back() -> None:
    """An empty one in its place would be taken for where the log ends, after a crash."""
    disk = SimulatedDisk()
    log = Log.open(disk, HOME, replace(CONFIG, file_delete_delay_ms=0))
    # The newest record of the first segment is deleted already.
    add(log, large(9000, *range(5000), value=b"v" * 20))
    log.roll()
    add(log, batch(200))
    log.advance_high_watermark(log.end_offset)
    log.advance_start(1)
    search = log.begin_find_newest()
    assert isinstance(search, TimestampSearch)
    log.flush()
    log.release()
    log.advance_start(5001)
    assert log.retire(now_ms=0) == 1
    log.sweep(now_ms=0)
    before = disk.names(HOME)
    search.run()
    assert log.end_find_timestamp(search) == (200, 5001)
    assert disk.names(HOME) == before


def test_the_newest_record_is_found_where_newer_ones_were_deleted() -> None:
    log = opened()
    add(log, batch(900, 20), batch(30), batch(10))
    log.roll()
    add(log, batch(5))
    log.advance_high_watermark(log.end_offset)
    log.advance_start(1)
    assert log.find_newest() == (30, 2)
    log.advance_start(3)
    assert log.find_newest() == (10, 3)
    log.advance_start(4)
    assert log.find_newest() == (5, 4)
    log.advance_start(5)
    assert log.find_newest() is None


def test_the_newest_record_is_found_where_compaction_has_emptied_the_newest_batch() -> None:
    config = replace(
        CONFIG, cleanup_policy=frozenset({CleanupPolicy.COMPACT}), min_cleanable_dirty_ratio=0.0
    )
    disk = SimulatedDisk()
    log = Log.open(disk, HOME, config)
    add(log, batch(1), batch(904, producer_id=1, sequence=0), batch(4), batch(2))
    log.roll()
    add(log, batch(3))
    log.advance_high_watermark(log.end_offset)
    log.flush()
    compaction = log.begin_compaction(10_000)
    assert compaction is not None
    log.end_compaction(compaction, compaction.run())
    assert log.find_newest() == (4, 2)


def test_a_search_by_time_reads_no_keys_and_values(tmp_path: Path) -> None:
    """A batch of the most records that fit: their times are read, and no objects made of them."""
    log = opened()
    add(log, large(*range(50_000), value=b"", compression=Compression.ZSTD))
    search = log.begin_find_timestamp(49_999)
    assert isinstance(search, TimestampSearch)
    search.run()
    assert log.end_find_timestamp(search) == (49_999, 49_999)
