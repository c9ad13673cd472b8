"""Readers of committed records ask for aborted transactions with each fetch: what that opens."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.log import Log
from pyk.wire.prefixed import ControlType
from tests.log.test_log import ANN, HOME, add, batch, marker
from tests.simulated_disk import SimulatedDisk, SimulatedFile

SEGMENTS = 40
CONFIG = LogConfig()


class CountingDisk(SimulatedDisk):
    opened = 0

    def open(self, path: Path, *, must_exist: bool = False) -> SimulatedFile:
        self.opened += 1
        return super().open(path, must_exist=must_exist)


def abort(log: Log, sequence: int) -> tuple[int, int]:
    """Where an aborted transaction begins and where it ends."""
    begin = add(log, batch(producer_id=ANN, sequence=sequence, is_transactional=True))
    end = add(log, marker(ANN, ControlType.ABORT))
    return begin.base_offset, end.base_offset


def reopened(log: Log, disk: CountingDisk, config: LogConfig = CONFIG) -> Log:
    log.advance_high_watermark(log.end_offset)
    log.close()
    return Log.open(disk, HOME, config, high_watermark=log.end_offset)


@pytest.fixture
def disk() -> CountingDisk:
    return CountingDisk()


@pytest.fixture
def log(disk: CountingDisk) -> Log:
    return Log.open(disk, HOME, CONFIG)


def test_segments_without_aborted_transactions_are_not_opened(disk: CountingDisk, log: Log) -> None:
    for _ in range(SEGMENTS):
        add(log, batch())
        log.roll()
    log = reopened(log, disk)
    disk.opened = 0
    assert log.aborted(0, log.end_offset) == []
    assert disk.opened == 0


def test_those_that_have_some_are(disk: CountingDisk, log: Log) -> None:
    wanted = []
    for number in range(SEGMENTS):
        add(log, batch())
        if number in (20, 30):
            wanted.append(abort(log, number // 10 - 2))
        log.roll()
    log = reopened(log, disk)
    disk.opened = 0
    assert [each[1:3] for each in log.aborted(0, log.end_offset)] == wanted
    assert disk.opened <= 2 * 4
    assert [each[1:3] for each in log.aborted(25, log.end_offset)] == wanted[1:]
    assert [each[1:3] for each in log.aborted(0, 22)] == wanted[:1]


def test_what_is_aborted_later_is_found(disk: CountingDisk, log: Log) -> None:
    add(log, batch())
    log.roll()
    log = reopened(log, disk)
    wanted = abort(log, 0)
    assert [each[1:3] for each in log.aborted(0, log.end_offset)] == [wanted]
    again = Log.open(disk.kill9(), HOME, CONFIG, recovery_point=0, high_watermark=log.end_offset)
    assert again.aborted(0, log.end_offset) == log.aborted(0, log.end_offset)


def test_what_was_aborted_is_found_in_the_segment_that_several_have_become(
    disk: CountingDisk,
) -> None:
    config = replace(
        CONFIG, cleanup_policy=frozenset({CleanupPolicy.COMPACT}), min_cleanable_dirty_ratio=0.0
    )
    log = Log.open(disk, HOME, config)
    add(log, batch(1))
    log.roll()
    # Its data stays for a while, emptied, since it is the last of its producer.
    first, last = abort(log, 0)
    log.roll()
    add(log, batch(2))
    log.advance_high_watermark(log.end_offset)
    log.flush()
    compaction = log.begin_compaction(10_000)
    assert compaction is not None
    log.end_compaction(compaction, compaction.run())
    assert [each[1:3] for each in log.aborted(0, log.end_offset)] == [(first, last)]
    again = reopened(log, disk, config)
    assert [each[1:3] for each in again.aborted(0, again.end_offset)] == [(first, last)]
