"""A disk that fails while compacted segments are put in their place."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.log import Log
from tests.log.test_dropped_logs import offsets
from tests.log.test_log import HOME, add, batch
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


def compacted(renames_left: int) -> tuple[FailsOnce, Log, list[int], bool]:
    """A log, what it must show, and whether the disk has failed."""
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
