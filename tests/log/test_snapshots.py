"""Snapshots of producers: written with the next flush, in its thread, and known before."""

from __future__ import annotations

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from pyk.disk import RealDisk, SyncFailed
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.log.producers import Producer, Producers
from pyk.log.segment import file_name
from pyk.log.snapshots import (
    QUICK_PRODUCERS,
    Snapshot,
    Snapshots,
    decode_snapshot,
    encode_snapshot,
)
from pyk.types import Buffer
from pyk.wire.batch import ControlType, read_header
from tests.log.test_log import ANN, BOB, HOME, add, batch, marker, names
from tests.simulated_disk import SimulatedDisk, SimulatedFile

CONFIG = LogConfig()


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return Log.open(disk, HOME, CONFIG)


def content(disk: SimulatedDisk, offset: int) -> bytes:
    return disk.read(HOME / file_name(offset, ".snapshot"))


def with_many_producers(log: Log) -> int:
    """So many that writing them would hold others up. Where the log ends then."""
    numbers = range(100, 100 + QUICK_PRODUCERS + 1)
    add(log, *(batch(producer_id=number, sequence=0) for number in numbers))
    return log.end_offset


def test_rolling_writes_nothing_of_many_producers(disk: SimulatedDisk, log: Log) -> None:
    """The loop would be held in proportion to how many there are."""
    end = with_many_producers(log)
    log.roll()
    assert content(disk, end) == b""
    log.flush()
    assert content(disk, end) == encode_snapshot(log.producers)


def test_those_of_few_producers_are_written_at_once(disk: SimulatedDisk, log: Log) -> None:
    add(log, batch(producer_id=ANN, sequence=0))
    log.roll()
    assert content(disk, 1) == encode_snapshot(log.producers)


def test_what_comes_after_a_snapshot_is_not_in_it(disk: SimulatedDisk, log: Log) -> None:
    end = with_many_producers(log)
    log.roll()
    known = encode_snapshot(log.producers)
    flush = log.begin_flush()
    add(log, batch(producer_id=ANN, sequence=0), batch(producer_id=BOB, sequence=0))
    flush.run()
    log.end_flush(flush)
    assert content(disk, end) == known


def test_truncating_goes_back_to_a_snapshot_that_is_not_written_yet(
    disk: SimulatedDisk, log: Log
) -> None:
    add(log, batch(producer_id=ANN, sequence=0))
    end = with_many_producers(log)
    log.roll()
    add(log, batch(producer_id=ANN, sequence=1), batch())
    log.advance_high_watermark(log.end_offset)
    log.truncate(end)
    producer = log.producers.get(ANN)
    assert producer is not None
    assert producer.last_sequence == 0
    assert names(disk, ".snapshot") == [end]


def test_a_snapshot_that_is_truncated_away_is_not_written(disk: SimulatedDisk, log: Log) -> None:
    with_many_producers(log)
    log.roll()
    flush = log.begin_flush()
    log.truncate(1)
    flush.run()
    log.end_flush(flush)
    log.flush()
    assert names(disk, ".snapshot") == []
    assert names(disk.synced(), ".snapshot") == []


def test_a_crash_before_it_is_written_costs_replaying(disk: SimulatedDisk, log: Log) -> None:
    end = with_many_producers(log)
    log.roll()
    again = Log.open(disk.kill9(), HOME, CONFIG, recovery_point=0, high_watermark=end)
    assert again.producers == log.producers


@pytest.mark.parametrize("are_many", [False, True])
def test_segments_go_once_what_they_say_of_producers_is_durable_elsewhere(
    disk: SimulatedDisk, log: Log, are_many: bool
) -> None:
    """Retention that empties a log begins a new segment, whose snapshot is all that is left."""
    add(log, batch(producer_id=ANN, sequence=0))
    end = with_many_producers(log) if are_many else log.end_offset
    log.advance_high_watermark(end)
    log.config = LogConfig(retention_bytes=0)
    assert log.retire(now_ms=10) == 1
    for survivor in (disk.kill9(), disk.synced()):
        again = Log.open(survivor, HOME, CONFIG, recovery_point=0, high_watermark=end)
        assert again.start_offset == end
        assert again.producers == log.producers


def test_retention_leaves_what_is_to_be_synced_to_a_thread(disk: SimulatedDisk, log: Log) -> None:
    for sequence in range(40):
        add(log, batch(producer_id=ANN, sequence=sequence))
        log.roll()
    log.advance_high_watermark(log.end_offset)
    log.config = LogConfig(retention_bytes=0)
    operations = disk.operations
    retirement = log.begin_retirement(now_ms=10, at_most=16)
    assert retirement is not None
    assert retirement.segments == 0
    assert disk.operations == operations, "nothing is written or synced, and nothing goes"
    retirement.run()
    assert disk.operations == operations + 2, "one snapshot, and the names"
    log.end_retirement(retirement)
    retirement = log.begin_retirement(now_ms=10, at_most=16)
    assert retirement is not None
    assert retirement.segments == 16


def test_retention_waits_for_a_snapshot_that_another_thread_writes(
    disk: SimulatedDisk, log: Log
) -> None:
    end = with_many_producers(log)
    log.roll()
    log.advance_high_watermark(end)
    log.config = LogConfig(retention_bytes=0)
    flush, asked = log.begin_flush(), 0

    def ask() -> None:
        nonlocal asked
        if content(disk, end) and asked == 0:
            asked += 1
            assert log.retire(now_ms=10) == 0

    disk.watch = ask
    flush.run()
    disk.watch = None
    log.end_flush(flush)
    assert asked
    assert log.retire(now_ms=10) == 1


def test_two_flushes_at_once_write_it_once(tmp_path: Path) -> None:
    producers = Producers()
    snapshots = Snapshots(RealDisk(), tmp_path, [])
    for number in range(QUICK_PRODUCERS + 1):
        producers.update(read_header(batch(producer_id=number, sequence=0)))
    snapshot = snapshots.take(7, list(producers))
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: snapshot.sync(), range(8)))
    data = (tmp_path / file_name(7, ".snapshot")).read_bytes()
    assert data == encode_snapshot(producers)
    assert snapshots.load(producers, 7, 0) == 7


def test_without_room_on_the_disk_it_is_as_good_as_none(disk: SimulatedDisk, log: Log) -> None:
    end = with_many_producers(log)
    log.flush()
    log.roll()
    disk.capacity = disk.used + 20
    log.flush()
    disk.capacity = None
    again = Log.open(disk.kill9(), HOME, CONFIG, high_watermark=end)
    assert again.producers == log.producers


class MeetsAnother(SimulatedFile):
    """While it is appended to, somebody else syncs the same snapshot."""

    meet: Callable[[], None]

    def append(self, data: Buffer) -> None:
        self.meet()
        super().append(data)


def test_who_comes_second_does_not_say_that_it_is_durable(disk: SimulatedDisk) -> None:
    """What is thought to be durable elsewhere, retention removes."""
    disk.make_directory(HOME)
    file = MeetsAnother(disk, disk.open(HOME / "snapshot")._content)
    snapshot = Snapshot(file, [Producer(ANN)])
    was_durable = []

    def sync() -> None:
        snapshot.sync()
        was_durable.append(snapshot.is_durable)

    file.meet = sync
    sync()
    assert was_durable == [False, True]
    assert disk.read(HOME / "snapshot") == encode_snapshot([Producer(ANN)])


def test_one_that_was_not_synced_can_be_again(disk: SimulatedDisk) -> None:
    disk.make_directory(HOME)
    snapshot = Snapshot(disk.open(HOME / "snapshot"), [Producer(ANN)])
    disk.fail_syncs = True
    with pytest.raises(SyncFailed):
        snapshot.sync()
    assert not snapshot.is_durable
    disk.fail_syncs = False
    snapshot.sync()
    assert snapshot.is_durable
    assert disk.read(HOME / "snapshot") == encode_snapshot([Producer(ANN)])


AGED = LogConfig(retention_ms=1000)
LATER_MS = 10**9


def with_an_old_segment(disk: SimulatedDisk) -> Log:
    """All that is left of its producer once that is retired is the snapshot at offset 1."""
    log = Log.open(disk, HOME, AGED)
    add(log, batch(1, producer_id=ANN, sequence=0))
    log.advance_high_watermark(log.end_offset)
    log.flush()
    log.roll()
    return log


def add_recent(log: Log) -> int:
    add(log, batch(LATER_MS))
    log.advance_high_watermark(log.end_offset)
    log.flush()
    return log.end_offset


def recovered(disk: SimulatedDisk, end: int) -> Log:
    return Log.open(disk, HOME, AGED, recovery_point=end, high_watermark=end)


@pytest.mark.parametrize("seed", range(20))
def test_segments_stay_until_a_torn_snapshot_was_made_anew(seed: int) -> None:
    """Power fails before it is synced, and the broker is killed after retention."""
    disk = SimulatedDisk()
    with_an_old_segment(disk)
    disk.sync_directory(HOME)
    disk = disk.power(Random(seed))
    log = recovered(disk, 1)
    if names(disk, ".log") != [0, 1]:
        log.roll()
    end = add_recent(log)
    assert log.retire(LATER_MS) == 1
    for survivor in (disk.kill9(), disk.synced()):
        assert recovered(survivor, end).producers == log.producers
    assert log.producers.get(ANN) is not None


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_snapshot_that_was_found_is_synced_before_segments_go(is_clean: bool) -> None:
    """Who wrote it was killed before it was synced. It may have been closed cleanly since."""
    disk = SimulatedDisk()
    with_an_old_segment(disk)
    disk = disk.kill9()
    log = recovered(disk, 0)
    log.advance_high_watermark(1)
    end = add_recent(log)
    if is_clean:
        log.close()
        log = Log.open(disk, HOME, AGED, high_watermark=end)
    assert log.retire(LATER_MS) == 1
    assert names(disk.synced(), ".log") == [1]
    assert recovered(disk.synced(), end).producers.get(ANN) is not None


def test_what_a_full_disk_did_not_take_is_not_durable(disk: SimulatedDisk) -> None:
    disk.capacity = 1_000
    log = Log.open(disk, HOME, AGED)
    add(log, batch(1, producer_id=ANN, sequence=0))
    log.advance_high_watermark(log.end_offset)
    log.flush()
    disk.capacity = disk.used
    assert log.retire(LATER_MS) == 0
    assert "stay" in str(log.untold_failure())
    assert recovered(disk.kill9(), 1).producers.get(ANN) is not None
    disk.capacity = None
    assert log.retire(LATER_MS) == 1
    assert log.untold_failure() is None
    assert recovered(disk.kill9(), 1).producers.get(ANN) is not None


def test_what_a_full_disk_did_not_take_holds_back_no_other_segments(disk: SimulatedDisk) -> None:
    log = with_an_old_segment(disk)
    add(log, batch(1, producer_id=BOB, sequence=0))
    log.advance_high_watermark(log.end_offset)
    log.flush()
    disk.capacity = disk.used
    assert log.retire(LATER_MS) == 1
    assert log.start_offset == 1
    assert log.retire(LATER_MS) == 0
    assert recovered(disk.kill9(), 2).producers == log.producers


class WithoutSnapshots(SimulatedDisk):
    """There is no descriptor left for them."""

    refuses = True

    def open(self, path: Path, *, must_exist: bool = False) -> SimulatedFile:
        if self.refuses and path.suffix == ".snapshot":
            raise OSError(errno.EMFILE, "too many open files")
        return super().open(path, must_exist=must_exist)


@pytest.mark.parametrize("has_more", [False, True])
def test_retention_makes_a_snapshot_that_a_roll_could_not_make(has_more: bool) -> None:
    """From what is known if nothing was appended since, or else from the batches."""
    disk = WithoutSnapshots()
    log = with_an_old_segment(disk)
    if has_more:
        add_recent(log)
        add(log, batch(LATER_MS, producer_id=ANN, sequence=1))
    assert names(disk, ".snapshot") == []
    log.advance_start(1)
    assert log.retire(LATER_MS) == 0
    assert "stay" in str(log.untold_failure())
    disk.refuses = False
    assert log.retire(LATER_MS) == 1
    log.flush()
    end = log.end_offset
    assert recovered(disk.synced(), end).producers == log.producers
    known = decode_snapshot(content(disk, 1))
    assert [producer.last_sequence for producer in known] == [0]


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_snapshot_is_made_from_the_last_one_that_is_good(
    disk: SimulatedDisk, is_clean: bool
) -> None:
    """Of transactions and markers, too."""
    log = Log.open(disk, HOME, AGED)
    for sequence in range(8):
        add(log, batch(1, producer_id=ANN, sequence=sequence, is_transactional=True))
        add(log, batch(1, producer_id=BOB, sequence=sequence))
        if sequence % 3 == 1:
            outcome = ControlType.ABORT if sequence % 2 else ControlType.COMMIT
            add(log, marker(ANN, outcome))
        if sequence in (2, 5):
            log.roll()
    log.roll()
    base = log.end_offset
    end = add_recent(log)
    expected = content(disk, base)
    log.close()
    for offset in names(disk, ".snapshot")[1:3]:
        disk.flip_bit(HOME / file_name(offset, ".snapshot"), 10, 0)
    log = Log.open(disk, HOME, AGED, high_watermark=end) if is_clean else recovered(disk, end)
    assert log.retire(LATER_MS) == 3
    assert content(disk, base) == expected


@pytest.mark.parametrize("meanwhile", ["truncate", "clear"])
def test_what_was_found_out_of_batches_that_are_gone_is_not_written(meanwhile: str) -> None:
    disk = WithoutSnapshots()
    log = with_an_old_segment(disk)
    add_recent(log)
    disk.refuses = False
    retirement = log.begin_retirement(LATER_MS)
    assert retirement is not None
    retirement.run()
    if meanwhile == "truncate":
        log.truncate(0)
    else:
        log.clear(0)
    log.end_retirement(retirement)
    assert names(disk, ".snapshot") == []
    add(log, batch(1, producer_id=BOB, sequence=0))
    end = log.end_offset
    log.roll()
    add_recent(log)
    assert log.retire(LATER_MS) == 1
    assert [each.producer_id for each in decode_snapshot(content(disk, end))] == [BOB]


def test_a_clean_start_syncs_no_snapshot(disk: SimulatedDisk) -> None:
    log = with_an_old_segment(disk)
    end = add_recent(log)
    log.close()
    operations = disk.operations
    log = Log.open(disk, HOME, AGED, high_watermark=end)
    assert log.begin_retirement(now_ms=10) is None
    assert disk.operations == operations
    retirement = log.begin_retirement(LATER_MS)
    assert retirement is not None
    assert disk.operations == operations, "it is for the thread"
