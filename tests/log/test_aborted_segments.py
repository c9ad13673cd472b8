"""Readers of committed records ask for aborted transactions with each fetch: what that opens."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.log import Compaction, Log
from pyk.turns import Work
from pyk.wire.prefixed import ControlType
from tests.faults.failing_disk import FailingDisk, Fault
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


def with_many(disk: SimulatedDisk) -> Log:
    """A log to be compacted, with something aborted in each of its segments."""
    config = replace(
        CONFIG,
        cleanup_policy=frozenset({CleanupPolicy.COMPACT, CleanupPolicy.DELETE}),
        min_cleanable_dirty_ratio=0.0,
    )
    log = Log.open(disk, HOME, config)
    for sequence in range(5):
        abort(log, sequence)
        log.roll()
    log.advance_high_watermark(log.end_offset)
    log.flush()
    return log


def finished(work: Work[Compaction | None]) -> tuple[int, Compaction | None]:
    """In how many turns, and what comes of it."""
    turns = 1
    while True:
        try:
            next(work)
        except StopIteration as end:
            return turns, end.value
        turns += 1


def test_what_was_aborted_is_gathered_in_turns_before_a_compaction(disk: CountingDisk) -> None:
    log = with_many(disk)
    turns, compaction = finished(log.prepare_compaction(10_000))
    assert turns == 6
    assert compaction is not None
    assert compaction.aborted == log.aborted(0, log.end_offset)
    assert len(compaction.aborted) == 5


@pytest.mark.parametrize("meanwhile", ["nothing", "read", "truncate"])
def test_those_of_one_segment_are_gathered_in_turns_too(meanwhile: str) -> None:
    """There may be tens of thousands."""
    disk = CountingDisk()
    log = with_many(disk)
    base, config = log.end_offset, log.config
    for sequence in range(5, 2500):
        abort(log, sequence)
    log.roll()
    log = reopened(log, disk, config)
    expected = Log.open(disk, HOME, config, high_watermark=log.end_offset).aborted(0, 10**6)
    work = log.prepare_compaction(10_000)
    for _ in range(6):
        next(work)
    if meanwhile == "read":
        assert log.aborted(0, log.end_offset) == expected
    elif meanwhile == "truncate":
        log.truncate(base + 2)
        assert len(log.aborted(0, log.end_offset)) == 6
    turns, compaction = finished(work)
    if meanwhile == "truncate":
        assert compaction is None
        assert len(log.aborted(0, log.end_offset)) == 6
    else:
        assert compaction is not None
        assert compaction.aborted == expected
        assert turns == (3 if meanwhile == "nothing" else 2)


@pytest.mark.parametrize("meanwhile", ["truncate", "drop", "retire", "compact"])
def test_other_things_happen_while_what_was_aborted_is_gathered(
    disk: CountingDisk, meanwhile: str
) -> None:
    log = with_many(disk)
    work = log.prepare_compaction(10_000)
    next(work)
    if meanwhile == "truncate":
        log.truncate(5)
    elif meanwhile == "drop":
        log.drop(HOME)
    elif meanwhile == "retire":
        log.advance_start(4)
        assert log.retire(10_000) == 0, "it would go from under the plan"
    else:
        assert log.begin_compaction(10_000) is None, "one at a time"
    _, compaction = finished(work)
    assert (compaction is None) == (meanwhile in ("truncate", "drop"))
    if meanwhile == "truncate":
        assert log.begin_compaction(10_000) is not None


def test_a_compaction_that_could_not_be_prepared_is_tried_again() -> None:
    disk = FailingDisk()
    log = with_many(disk)
    log.close()
    log = Log.open(disk, HOME, log.config, high_watermark=log.end_offset)
    disk.plan = lambda each: Fault.EIO if each.path.suffix == ".txnindex" else None
    with pytest.raises(OSError, match="Input/output"):
        log.begin_compaction(10_000)
    disk.plan = None
    work = log.prepare_compaction(10_000)
    next(work)
    work.close()
    assert log.begin_compaction(10_000) is not None
