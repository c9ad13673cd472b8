"""What maintenance takes of everybody's time: all logs are asked now and then whether it is due."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from pyk.log.compaction import JOINED_AT_ONCE, OPENED_AT_ONCE
from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.log import Log
from pyk.log.segments import OPENED_MAX
from tests.log.test_aborted_segments import CountingDisk
from tests.log.test_log import HOME, add, batch
from tests.simulated_disk import SimulatedDisk

SEGMENTS = 40
NOW_MS = 10**6
COMPACTED = LogConfig(
    cleanup_policy=frozenset({CleanupPolicy.COMPACT}),
    min_compaction_lag_ms=100,
    min_cleanable_dirty_ratio=0.0,
)
AGED = LogConfig(retention_ms=100)


def of_many_segments(
    disk: CountingDisk, config: LogConfig, newest_ms: int, count: int = SEGMENTS
) -> Log:
    log = Log.open(disk, HOME, config)
    for _ in range(count):
        add(log, batch(newest_ms))
        log.roll()
    log.advance_high_watermark(log.end_offset)
    log.close()
    disk.opened = 0
    return log


def test_producers_are_looked_at_by_the_thread_that_compacts() -> None:
    log = Log.open(SimulatedDisk(), HOME, COMPACTED)
    add(log, *(batch(number, producer_id=number, sequence=0) for number in range(9)))
    log.roll()
    log.advance_high_watermark(log.end_offset)
    log.flush()
    compaction = log.begin_compaction(NOW_MS)
    assert compaction is not None
    assert list(map(id, compaction.producers)) == list(map(id, log.producers))


class MeasuringDisk(CountingDisk):
    asked = 0

    def size(self, path: Path) -> int:
        self.asked += 1
        return super().size(path)


def test_sizes_of_segments_are_asked_for_when_a_log_is_opened() -> None:
    disk = MeasuringDisk()
    end = of_many_segments(disk, COMPACTED, NOW_MS - 200).end_offset
    config = replace(COMPACTED, retention_bytes=1, min_compaction_lag_ms=0)
    log = Log.open(disk, HOME, config, high_watermark=end)
    log.release()
    disk.asked = 0
    size = sum(len(data) for path, data in disk.contents().items() if path.suffix == ".log")
    assert log.size == size
    assert log.begin_compaction(NOW_MS) is not None
    assert disk.asked == 0
    log = Log.open(disk, HOME, replace(AGED, retention_bytes=1), high_watermark=end)
    disk.asked = 0
    assert log.retire(NOW_MS) > 0
    assert disk.asked == 0


def test_segments_are_not_opened_again_to_see_whether_they_are_old_enough() -> None:
    disk = CountingDisk()
    log = of_many_segments(disk, COMPACTED, NOW_MS - 200)
    assert log.begin_compaction(NOW_MS) is not None
    assert disk.opened == 0
    log = of_many_segments(CountingDisk(), COMPACTED, NOW_MS - 50)
    assert log.begin_compaction(NOW_MS) is None


def test_others_have_a_turn_while_many_are_opened_for_the_first_time() -> None:
    disk = CountingDisk()
    log = of_many_segments(disk, COMPACTED, NOW_MS - 200, 2 * OPENED_AT_ONCE + 1)
    log = Log.open(disk, HOME, COMPACTED, high_watermark=log.end_offset)
    for _ in range(2):
        disk.opened = 0
        assert log.begin_compaction(NOW_MS) is None
        assert disk.opened <= 3 * OPENED_AT_ONCE, "each has two indexes"
        log.release()
    assert log.begin_compaction(NOW_MS) is not None


def test_others_have_a_turn_while_many_are_asked_how_long_they_have_waited() -> None:
    config = replace(
        COMPACTED,
        min_compaction_lag_ms=0,
        max_compaction_lag_ms=10**9,
        min_cleanable_dirty_ratio=1.0,
    )
    disk, count = CountingDisk(), 2 * OPENED_AT_ONCE + 1
    log = of_many_segments(disk, config, NOW_MS - 200, count)
    log = Log.open(disk, HOME, config, high_watermark=log.end_offset)
    for _ in range(3):
        disk.opened = 0
        assert log.begin_compaction(NOW_MS + 10**9 - 300) is None
        assert disk.opened <= 3 * (OPENED_AT_ONCE + 1), "each has two indexes"
        assert len(log._segments._opened) <= OPENED_MAX
    disk.opened = 0
    assert log.begin_compaction(NOW_MS + 10**9 - 300) is None
    assert disk.opened == 0, "all is known"
    assert log.begin_compaction(NOW_MS + 10**9) is not None


@pytest.mark.parametrize("newest_ms", [NOW_MS - 200, NOW_MS - 50])
def test_nor_to_see_whether_they_are_too_old(newest_ms: int) -> None:
    disk = CountingDisk()
    log = of_many_segments(disk, AGED, newest_ms)
    assert log.retire(NOW_MS) == (SEGMENTS if newest_ms < NOW_MS - 100 else 0)
    assert disk.opened == 0


def test_what_compaction_has_left_of_them_is_asked_again() -> None:
    log = Log.open(SimulatedDisk(), HOME, COMPACTED)
    # The newest record goes, since an older one of its key comes later.
    add(log, batch(1), batch(NOW_MS), batch(2))
    log.roll()
    add(log, batch(0), batch(3))
    log.roll()
    log.advance_high_watermark(log.end_offset)
    log.close()
    compaction = log.begin_compaction(NOW_MS + 1000)
    assert compaction is not None
    log.end_compaction(compaction, compaction.run())
    log.config = AGED
    assert log.retire(NOW_MS) == 1


def test_many_small_segments_become_one_a_few_at_a_time() -> None:
    disk, count = CountingDisk(), 3 * JOINED_AT_ONCE
    log = of_many_segments(disk, COMPACTED, NOW_MS - 200, count)
    compaction = log.begin_compaction(NOW_MS)
    assert compaction is not None
    result = compaction.run()
    assert len(result.rewritten) == 3
    for each in result.rewritten:
        operations = disk.operations
        swap = log.begin_swap(compaction, each)
        assert swap is not None
        log.end_swap(compaction, swap)
        # Each has three files and a snapshot. The new one has four, which are renamed twice.
        assert disk.operations - operations <= 4 * JOINED_AT_ONCE + 8
    operations = disk.operations
    log.end_compaction(compaction, result._replace(rewritten=[]))
    assert disk.operations == operations
    assert len([name for name in disk.names(HOME) if name.endswith(".snapshot")]) <= 4
