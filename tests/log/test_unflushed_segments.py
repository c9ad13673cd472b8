"""A producer fills segments faster than the disk makes them durable: few files are open then."""

from __future__ import annotations

import weakref
from pathlib import Path
from random import Random

import pytest

from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.log.segments import FLUSHED_AT_ONCE, OPENED_MAX
from pyk.log.snapshots import PENDING_MAX
from pyk.wire.prefixed import ControlType
from tests.faults.failing_disk import FailingDisk, Fault, Operation
from tests.log.history import headers_of
from tests.log.test_log import ANN, HOME, add, batch, marker
from tests.simulated_disk import SimulatedDisk, SimulatedFile

SEGMENTS = 10 * FLUSHED_AT_ONCE
OPEN_MAX = 2 * OPENED_MAX + PENDING_MAX + 3 * FLUSHED_AT_ONCE + 10
"""Those that were filled first, those that were read last, snapshots, the three files of each
segment that is flushed, and what else a log has."""


class CountedFile(SimulatedFile):
    __slots__ = ("__weakref__",)


class DescriptorDisk(SimulatedDisk):
    """Knows how many files are open."""

    def __init__(self) -> None:
        super().__init__()
        self._open = weakref.WeakSet[CountedFile]()
        self.most = 0

    def open(self, path: Path, *, must_exist: bool = False) -> SimulatedFile:
        file = CountedFile(self, super().open(path, must_exist=must_exist)._content)
        self._open.add(file)
        self.most = max(self.most, len(self._open))
        return file

    def replaced(self) -> DescriptorDisk:
        return DescriptorDisk()


@pytest.fixture
def disk() -> DescriptorDisk:
    return DescriptorDisk()


class OutOfDescriptors:
    """One file cannot be opened, after so many others."""

    def __init__(self, opens: int) -> None:
        self.opens = opens

    def __call__(self, operation: Operation) -> Fault | None:
        self.opens -= operation.kind == "open"
        return Fault.EMFILE if operation.kind == "open" and self.opens == -1 else None


def filled(disk: SimulatedDisk, count: int = SEGMENTS) -> Log:
    log = Log.open(disk, HOME, LogConfig())
    for number in range(count):
        add(log, batch(number))
        log.roll()
    add(log, batch(count))
    log.advance_high_watermark(log.end_offset)
    return log


def test_many_segments_are_filled_read_and_flushed_with_few_descriptors(
    disk: DescriptorDisk,
) -> None:
    log = filled(disk)
    assert log.has_unflushed_segments
    for offset in range(log.end_offset):
        assert log.read(offset, 1000, log.high_watermark) is not None
    log.flush()
    assert log.flushed_end == log.end_offset
    assert disk.most <= OPEN_MAX


def test_a_flush_is_about_the_first_of_many_segments(disk: DescriptorDisk) -> None:
    log = filled(disk)
    ends = []
    while log.flushed_end < log.end_offset:
        flush = log.begin_flush()
        assert len(flush.flushed) <= FLUSHED_AT_ONCE
        flush.run()
        log.end_flush(flush)
        ends.append(log.flushed_end)
        assert flush.is_complete == (log.flushed_end == log.end_offset)
    assert ends == [*range(FLUSHED_AT_ONCE, SEGMENTS + 1, FLUSHED_AT_ONCE), SEGMENTS + 1]


def test_what_is_flushed_in_portions_survives_a_power_loss(disk: DescriptorDisk) -> None:
    log = filled(disk)
    flush = log.begin_flush()
    flush.run()
    log.end_flush(flush)
    durable = log.flushed_end
    assert 0 < durable < log.end_offset
    again = Log.open(disk.power(Random(1)), HOME, LogConfig(), recovery_point=durable)
    assert again.end_offset >= durable


def test_a_flush_of_some_does_not_count_for_what_was_appended_since(disk: DescriptorDisk) -> None:
    log = Log.open(disk, HOME, LogConfig(flush_ms=100))
    for number in range(2 * FLUSHED_AT_ONCE):
        add(log, batch(number))
        log.roll()
    flush = log.begin_flush()
    flush.run()
    log.end_flush(flush)
    assert log.is_flush_due(10**9), "half of them are not durable"
    log.flush()
    assert not log.is_flush_due(10**9)


@pytest.mark.parametrize("opens", [0, 1, 140, 3 * FLUSHED_AT_ONCE - 1])
def test_a_flush_without_enough_descriptors_forgets_no_segment(opens: int) -> None:
    disk = FailingDisk()
    log = filled(disk, OPENED_MAX + 2 * FLUSHED_AT_ONCE)
    # The logs of those that were filled first are open, of the others none.
    while log.flushed_end <= OPENED_MAX:
        flush = log.begin_flush()
        flush.run()
        log.end_flush(flush)
    durable = log.flushed_end
    disk.plan = OutOfDescriptors(opens)
    with pytest.raises(OSError, match="Too many open files"):
        log.begin_flush()
    disk.plan = None
    assert log.flushed_end == durable < log.end_offset
    log.flush()
    assert log.flushed_end == log.end_offset
    again = Log.open(disk.synced(), HOME, LogConfig(), recovery_point=0)
    assert headers_of(again) == headers_of(log)


@pytest.mark.parametrize("is_aborted", [False, True])
def test_many_segments_are_recovered_with_few_descriptors(
    disk: DescriptorDisk, is_aborted: bool
) -> None:
    log = Log.open(disk, HOME, LogConfig())
    for sequence in range(SEGMENTS):
        if is_aborted:
            add(log, batch(producer_id=ANN, sequence=sequence, is_transactional=True))
            add(log, marker(ANN, ControlType.ABORT))
        else:
            add(log, batch(sequence))
        log.roll()
    killed = disk.kill9()
    assert isinstance(killed, DescriptorDisk)
    again = Log.open(killed, HOME, LogConfig(), recovery_point=0, high_watermark=log.end_offset)
    assert killed.most <= OPENED_MAX + 10, "those that were read last are open"
    end = log.end_offset
    assert again.flushed_end == again.end_offset == end
    expected = log.aborted(0, end)
    assert len(expected) == (SEGMENTS if is_aborted else 0)
    assert again.aborted(0, end) == expected
    durable = Log.open(killed.synced(), HOME, LogConfig(), high_watermark=end)
    assert headers_of(durable) == headers_of(log)
    assert durable.aborted(0, end) == expected
