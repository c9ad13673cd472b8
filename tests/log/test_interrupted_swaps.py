"""A disk that fails, or stops, while segments are removed or compacted ones take their place."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from pyk.errors import KafkaError
from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.log import Log
from pyk.wire.prefixed import ControlType
from tests.log.test_dropped_logs import offsets
from tests.log.test_log import ANN, HOME, add, batch, marker
from tests.simulated_disk import SimulatedDisk

CONFIG = LogConfig(
    segment_bytes=600,
    cleanup_policy=frozenset({CleanupPolicy.COMPACT}),
    min_cleanable_dirty_ratio=0,
)


class FailsOnce(SimulatedDisk):
    """Renaming fails once, after as many times as are left."""

    renames_left = -1

    def rename(self, path: Path, to: Path) -> None:
        if self.renames_left == 0:
            self.renames_left = -1
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        self.renames_left -= 1
        super().rename(path, to)


def interrupted(renames_left: int) -> tuple[FailsOnce, Log, bool]:
    """A log of which nobody has read since it was compacted, and whether the disk has failed."""
    disk = FailsOnce()
    log = Log.open(disk, HOME, CONFIG)
    # Of 200 records of five keys, few are left, and a second compaction joins segments.
    for _ in range(2):
        add(log, *(batch(n) for n in range(100)))
        log.advance_high_watermark(log.end_offset)
        log.flush()
        compaction = log.begin_compaction(now_ms=0)
        assert compaction is not None
        result = compaction.run()
        log.end_compaction(compaction, result._replace(rewritten=result.rewritten[:0]))
        log.cleaned_until = 0
    compaction = log.begin_compaction(now_ms=0)
    assert compaction is not None
    result = compaction.run()
    disk.renames_left = renames_left
    has_failed = False
    try:
        log.end_compaction(compaction, result)
    except OSError:
        has_failed = True
    return disk, log, has_failed


def compacted(renames_left: int) -> tuple[FailsOnce, Log, list[int], bool]:
    """A log, what it must show, and whether the disk has failed."""
    disk, log, has_failed = interrupted(renames_left)
    return disk, log, offsets(log), has_failed


def test_nothing_is_left_out_wherever_the_disk_fails() -> None:
    _, log, expected, has_failed = compacted(10**6)
    assert not has_failed
    end = log.end_offset
    failures = 0
    for renames_left in range(200):
        disk, log, found, has_failed = compacted(renames_left)
        if not has_failed:
            break
        failures += 1
        assert set(found) >= set(expected), renames_left
        assert found == sorted(found)
        again = Log.open(disk, HOME, CONFIG)
        assert offsets(again) == found
        assert again.end_offset == end
    assert failures > 10


@pytest.mark.parametrize("renames_left", range(0, 12, 3))
def test_a_compaction_after_one_that_failed_finishes_it(renames_left: int) -> None:
    _, log, _, has_failed = compacted(renames_left)
    assert has_failed
    compaction = log.begin_compaction(now_ms=0)
    assert compaction is not None
    log.end_compaction(compaction, compaction.run())
    assert offsets(log) == compacted(10**6)[2]


def of_small_segments(disk: SimulatedDisk) -> Log:
    """Five keys with one record each, and a segment for each of them."""
    log = Log.open(disk, HOME, CONFIG)
    for number in range(1, 6):
        add(log, batch(number))
        log.roll()
    log.advance_high_watermark(log.end_offset)
    log.flush()
    return log


def test_a_compaction_after_a_swap_that_was_interrupted_loses_no_records() -> None:
    failures = 0
    for renames_left in range(100):
        disk = FailsOnce()
        log = of_small_segments(disk)
        compaction = log.begin_compaction(now_ms=0)
        assert compaction is not None
        result = compaction.run()
        disk.renames_left = renames_left
        try:
            log.end_compaction(compaction, result)
        except OSError:
            failures += 1
        else:
            break
        again = log.begin_compaction(now_ms=0)
        if again is not None:
            log.end_compaction(again, again.run())
        assert offsets(log) == [0, 1, 2, 3, 4], renames_left
    assert failures > 10


@pytest.mark.parametrize("meanwhile", ["read", "truncate", "clear", "retire", "compact"])
def test_other_things_happen_while_a_swap_is_made_durable(meanwhile: str) -> None:
    disk = SimulatedDisk()
    log = of_small_segments(disk)
    expected, end = [0, 1, 2, 3, 4], log.end_offset
    compaction = log.begin_compaction(now_ms=0)
    assert compaction is not None
    result = compaction.run()
    swap = log.begin_swap(compaction, result.rewritten[0])
    assert swap is not None
    operations = disk.operations
    if meanwhile == "read":
        assert offsets(log) == expected
        assert log.retire(now_ms=0) == 0
        assert disk.operations == operations, "it is left to those that swap"
    elif meanwhile == "truncate":
        log.truncate(3)
        expected, end = [0, 1, 2], 3
    elif meanwhile == "clear":
        log.clear(7)
        expected, end = [], 7
    elif meanwhile == "retire":
        log.advance_start(5)
        log.end_compaction(compaction, None)
        assert log.retire(now_ms=0) > 0
        expected = []
    else:
        log.end_compaction(compaction, None)
        another = log.begin_compaction(now_ms=0)
        if another is not None:
            log.end_compaction(another, another.run())
    swap.run()
    log.end_swap(compaction, swap)
    swap.run()
    log.end_compaction(compaction, result._replace(rewritten=[]))
    assert offsets(log) == expected
    assert log.end_offset == end
    for left in (disk.kill9(), disk.synced()):
        again = Log.open(left, HOME, CONFIG, recovery_point=0, high_watermark=end)
        assert offsets(again) == expected
        assert again.end_offset == end


def test_a_log_that_begins_again_finishes_a_swap_first() -> None:
    disk, log, has_failed = interrupted(4)
    assert has_failed
    assert [name for name in disk.names(HOME) if name.endswith(".swap")]
    log.clear(1000)
    assert not [name for name in disk.names(HOME) if name.endswith(".swap")]
    add(log, batch(1))
    log.close()
    assert offsets(Log.open(disk, HOME, CONFIG)) == [1000]


def with_aborted(disk: SimulatedDisk) -> Log:
    """Of three segments, each with a transaction that was aborted."""
    log = Log.open(disk, HOME, LogConfig(retention_ms=-1))
    for sequence in range(3):
        add(log, batch(producer_id=ANN, sequence=sequence, is_transactional=True))
        add(log, marker(ANN, ControlType.ABORT))
        log.roll()
    log.advance_high_watermark(log.end_offset)
    log.flush()
    return log


@pytest.mark.parametrize("is_released", [False, True])
def test_a_segment_that_could_not_be_removed_is_there_as_before(is_released: bool) -> None:
    for renames_left in range(12):
        disk = FailsOnce()
        log = with_aborted(disk)
        aborted = log.aborted(0, log.end_offset)
        log.advance_start(4)
        disk.renames_left = renames_left
        if renames_left == 8:
            assert log.retire(now_ms=0) == 2
            break
        with pytest.raises(OSError, match="Input/output"):
            log.retire(now_ms=0)
        if is_released:
            log.release()
        # Those that are gone by then are, and the next one is there.
        log.start_offset = start = 2 * (renames_left // 4)
        assert offsets(log) == list(range(start, 6))
        assert log.aborted(start, 6) == aborted[start // 2 :]
        log.start_offset = 4
        assert log.retire(now_ms=0) == 2 - start // 2
        log.sweep(now_ms=0)
        log.sweep(now_ms=10**9)
        assert min(int(name[:20]) for name in disk.names(HOME) if name.endswith("index")) == 4


def test_a_log_starts_where_its_segments_do_if_only_some_could_be_removed() -> None:
    disk = FailsOnce()
    log = of_small_segments(disk)
    log.config = LogConfig(retention_bytes=0)
    disk.renames_left = 7
    with pytest.raises(OSError, match="Input/output"):
        log.retire(now_ms=0)
    assert log.start_offset == 2
    assert offsets(log) == [2, 3, 4]
    with pytest.raises(KafkaError):
        log.read(0, 1000, log.end_offset)
    assert [entry.start_offset for entry in log.epochs.entries] == [2]


def test_what_a_crash_leaves_of_segments_that_go_shows_nothing_that_was_aborted() -> None:
    disk = SimulatedDisk()
    log = with_aborted(disk)
    aborted = log.aborted(0, log.end_offset)
    log.advance_start(4)
    left: list[SimulatedDisk] = []
    disk.watch = lambda: left.extend([disk.kill9(), *(disk.power(Random(n)) for n in range(9))])
    assert log.retire(now_ms=0) == 2
    disk.watch = None
    starts = set()
    for survivor in [*left, disk.kill9()]:
        again = Log.open(survivor, HOME, CONFIG, recovery_point=6, high_watermark=6)
        start = again.start_offset
        starts.add(start)
        assert offsets(again) == list(range(start, 6))
        assert again.aborted(start, 6) == aborted[start // 2 :]
    assert starts == {0, 2, 4}
