"""Indexes that cannot be read for a moment, for want of descriptors say, after a clean restart."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.log.segment import file_name
from pyk.wire.prefixed import ControlType
from tests.log.history import headers_of
from tests.log.test_log import ANN, BOB, HOME, add, batch, marker
from tests.simulated_disk import SimulatedDisk

CONFIG = LogConfig(index_interval_bytes=1)
"""Each batch but the first has index entries."""


class Unreadable(SimulatedDisk):
    """Files of which the names end so cannot be read as a whole."""

    suffix = "none"

    def read(self, path: Path) -> bytes:
        if path.name.endswith(self.suffix):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return super().read(path)


def reopened(disk: SimulatedDisk, log: Log) -> Log:
    log.advance_high_watermark(log.end_offset)
    log.close()
    return Log.open(disk, HOME, CONFIG, high_watermark=log.end_offset)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("is_flushed", [False, True])
def test_nobody_reads_an_index_to_append(suffix: str, is_flushed: bool) -> None:
    """It would fail when the batch is in the log already, and a repeated one would come again."""
    disk = Unreadable()
    log = Log.open(disk, HOME, CONFIG)
    add(log, *(batch(10 + n, producer_id=ANN, sequence=n) for n in range(5)))
    log = reopened(disk, log)
    disk.suffix = suffix
    for n in range(5, 10):
        assert add(log, batch(10 + n, producer_id=ANN, sequence=n)).base_offset == n
        assert add(log, batch(10 + n, producer_id=ANN, sequence=n)).is_repeated
    if is_flushed:
        log.flush()
    disk.suffix = "none"
    for again in (log, reopened(disk, log)):
        assert [header.base_offset for header in headers_of(again)] == list(range(10))
        assert [again.find_timestamp(10 + n) for n in range(10)] == [(10 + n, n) for n in range(10)]
    entries = {name: disk.size(HOME / name) for name in disk.names(HOME) if "index" in name}
    assert sorted(entries.values()) == [9 * 8, 9 * 12]


def test_a_marker_is_refused_before_it_is_in_the_log() -> None:
    """Once it is, the transaction has ended, and nobody would index it as aborted."""
    disk = Unreadable()
    log = Log.open(disk, HOME, CONFIG)
    add(log, batch(producer_id=BOB, sequence=0, is_transactional=True))
    add(log, marker(BOB, ControlType.ABORT))
    log = reopened(disk, log)
    add(log, batch(producer_id=ANN, sequence=0, is_transactional=True))
    disk.suffix = ".txnindex"
    with pytest.raises(KafkaError) as refusal:
        add(log, marker(ANN, ControlType.ABORT))
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    log.advance_high_watermark(log.end_offset)
    assert (log.end_offset, log.last_stable_offset) == (3, 2)
    disk.suffix = "none"
    add(log, marker(ANN, ControlType.ABORT))
    for again in (log, reopened(disk, log)):
        assert [each[:3] for each in again.aborted(0, 4)] == [(BOB, 0, 1), (ANN, 2, 3)]


def test_a_damaged_index_is_built_anew_before_a_marker_is_in_the_log() -> None:
    disk = SimulatedDisk()
    log = Log.open(disk, HOME, CONFIG)
    add(log, batch(producer_id=BOB, sequence=0, is_transactional=True))
    add(log, marker(BOB, ControlType.ABORT))
    log.advance_high_watermark(log.end_offset)
    log.close()
    disk.flip_bit(HOME / file_name(0, ".txnindex"), 1, 7)
    log = Log.open(disk, HOME, CONFIG, high_watermark=log.end_offset)
    add(log, batch(producer_id=ANN, sequence=0, is_transactional=True))
    add(log, marker(ANN, ControlType.ABORT))
    assert [each[:3] for each in log.aborted(0, 4)] == [(BOB, 0, 1), (ANN, 2, 3)]
