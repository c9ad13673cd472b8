"""A partition is deleted and made anew while its old log is still worked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from pyk.disk import Disk, RealDisk
from pyk.log.config import CleanupPolicy, LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.types import TopicPartition, Uuid
from tests.log.test_log import add, batch, records_of
from tests.simulated_disk import ROOT, SimulatedDisk

PARTITION = TopicPartition("orders", 0)
OLD, NEW = Uuid(b"\1" * 16), Uuid(b"\2" * 16)
COMPACTED = LogConfig(
    segment_bytes=600,
    file_delete_delay_ms=10,
    cleanup_policy=frozenset(CleanupPolicy),
    min_cleanable_dirty_ratio=0,
    retention_ms=-1,
)


@pytest.fixture(params=["simulated", "real"])
def directory(request: pytest.FixtureRequest, tmp_path: Path) -> DataDirectory:
    disk: Disk = SimulatedDisk() if request.param == "simulated" else RealDisk()
    path = ROOT / "data" if request.param == "simulated" else tmp_path
    return DataDirectory.open(disk, path, lambda _: COMPACTED)


@pytest.fixture
def old(directory: DataDirectory) -> Log:
    log = directory.create(PARTITION, OLD, COMPACTED)
    fill(log, 40)
    return log


def fill(log: Log, count: int) -> None:
    add(log, *(batch(n) for n in range(count)))
    log.advance_high_watermark(log.end_offset)
    log.flush()


def made_anew(directory: DataDirectory) -> tuple[Log, list[int]]:
    """The partition of the same name after it was deleted, and what is in it."""
    directory.delete(PARTITION)
    log = directory.create(PARTITION, NEW, COMPACTED)
    fill(log, 30)
    return log, offsets(log)


def offsets(log: Log) -> list[int]:
    found, offset = [], log.start_offset
    while (piece := log.read(offset, 10_000, log.end_offset)) is not None:
        found += [record.offset for record in records_of(piece)]
        offset = piece.end_offset
    return found


def after_a_restart(directory: DataDirectory) -> Log:
    directory.close()
    again = DataDirectory.open(directory._disk, directory.path, lambda _: COMPACTED)
    assert not again.failed
    return again.logs[PARTITION]


@pytest.mark.parametrize("is_written", [False, True])
def test_a_compaction_of_the_old_log_changes_nothing_of_the_new_one(
    directory: DataDirectory, old: Log, is_written: bool
) -> None:
    compaction = old.begin_compaction(now_ms=0)
    assert compaction is not None
    result = compaction.run() if is_written else None
    new, before = made_anew(directory)
    if result is None:
        result = compaction.run()
    assert result.rewritten
    old.end_compaction(compaction, result)
    assert offsets(new) == before
    assert offsets(after_a_restart(directory)) == before


def test_what_is_still_done_for_the_old_log_changes_nothing_of_the_new_one(
    directory: DataDirectory, old: Log
) -> None:
    flush, writeback = old.begin_flush(), old.begin_writeback()
    new, before = made_anew(directory)
    old.config = replace(COMPACTED, retention_ms=0)
    assert old.retire(now_ms=10**9) > 0
    flush.run()
    writeback.run()
    old.end_flush(flush)
    old.epochs.truncate_from_end(0)
    old.roll()
    old.close()
    old.sweep(now_ms=0)
    old.sweep(now_ms=10)
    assert offsets(new) == before
    assert offsets(after_a_restart(directory)) == before


def test_the_old_log_can_be_read_until_its_files_are_removed(
    directory: DataDirectory, old: Log
) -> None:
    old.release()
    made_anew(directory)
    assert offsets(old) == list(range(40))
    directory.sweep(0)
    directory.sweep(10)
    old.release()
    with pytest.raises(FileNotFoundError):
        offsets(old)


def test_a_compaction_that_nobody_wants_any_more_is_told_so(
    directory: DataDirectory, old: Log
) -> None:
    compaction = old.begin_compaction(now_ms=0)
    assert compaction is not None
    assert old.is_worth(compaction)
    directory.delete(PARTITION)
    assert not old.is_worth(compaction)
    assert old.begin_compaction(now_ms=0) is None


def test_no_descriptor_is_held_for_a_log_that_is_only_open(tmp_path: Path) -> None:
    directory = DataDirectory.open(RealDisk(), tmp_path, lambda _: COMPACTED)
    log = directory.create(PARTITION, OLD, COMPACTED)
    fill(log, 40)
    compaction = log.begin_compaction(now_ms=0)
    assert compaction is not None
    log.end_compaction(compaction, compaction.run())
    log.flush()
    log.release()
    del compaction
    links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
    held = [os.readlink(link) for link in links if os.path.exists(link)]
    assert not [path for path in held if f"{tmp_path}/orders-0" in path]


def test_nothing_of_a_log_is_swept_once_it_is_dropped_and_its_directory_gone(
    directory: DataDirectory, old: Log
) -> None:
    old.advance_start(old.high_watermark)
    assert old.retire(10**12)
    assert old.begin_sweep(0) is None
    directory.delete(PARTITION)
    directory.sweep(0)
    directory.sweep(10**12)
    assert old.begin_sweep(10**12) is None
