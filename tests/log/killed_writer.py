"""A process that writes to a data directory until it is killed, and one that kills it: `make kill`.

    python -m tests.log.killed_writer DIR          write, and say so: a line for each batch, when it
                                                   is in the log
    python -m tests.log.killed_writer --kills N    kill that N times, and look each time

The kernel keeps what a killed process has written. So nothing of what the writer said may be
missing, and what it was writing when it died is there as a whole or not at all.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

from pyk.disk import RealDisk
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.types import TopicPartition, Uuid
from pyk.wire.batch import BatchHeader, peek_header
from pyk.wire.records import Record, build_batch
from tests.log.history import headers_of

PARTITION = TopicPartition("killed", 0)
PRODUCER_ID = 7
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
LINES_MAX = 300


class Acknowledged(NamedTuple):
    base_offset: int
    crc: int


class Found(NamedTuple):
    """What was looked at after a kill."""

    acknowledged: int
    batches: int
    segments: int
    dropped_bytes: int


def opened(path: Path) -> DataDirectory:
    return DataDirectory.open(RealDisk(), path, lambda topic: CONFIG)


def write_until_killed(path: Path) -> None:
    rng = Random()
    directory = opened(path)
    log = directory.logs.get(PARTITION)
    if log is None:
        log = directory.create(PARTITION, Uuid(b"\1" * 16), CONFIG)
    for data in batches(log, rng):
        appended = log.append(data, leader_epoch=0, now_ms=0)
        assert not appended.is_repeated
        line = f"{appended.base_offset} {peek_header(data).crc}\n"
        os.write(sys.stdout.fileno(), line.encode())
        log.advance_high_watermark(rng.randint(log.high_watermark, log.end_offset))
        if rng.random() < 0.05:
            log.flush()
        if rng.random() < 0.02:
            directory.checkpoint()


def batches(log: Log, rng: Random) -> Iterator[bytearray]:
    """Of one producer, who goes on where it was."""
    known = log.producers.get(PRODUCER_ID)
    sequence = known.last_sequence + 1 if known else 0
    for number in count():
        sizes = [rng.choice((1, 100, 5_000)) for _ in range(rng.randint(1, 5))]
        records = [Record(i, number, None, rng.randbytes(size)) for i, size in enumerate(sizes)]
        yield bytearray(
            build_batch(records, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence)
        )
        sequence += len(records)


def kill_one(path: Path, rng: Random) -> list[Acknowledged]:
    """Start a writer and kill it after it has said a few things. All that it has said."""
    command = [sys.executable, "-m", "tests.log.killed_writer", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(rng.randint(0, LINES_MAX))]
        writer.kill()
        # What it has said since is in the pipe. Its last line is whole: it was one small write.
        lines += writer.stdout.readlines()
    assert writer.returncode == -signal.SIGKILL
    return [Acknowledged(*map(int, line.split())) for line in lines]


def look(path: Path, acknowledged: list[Acknowledged]) -> Found:
    """Open what was left, and hold it against what was acknowledged since it was made. Raise
    AssertionError."""
    directory = opened(path)
    assert not directory.failed
    assert not directory.was_clean
    log = directory.logs.get(PARTITION)
    if log is None:
        assert not acknowledged
        return Found(0, 0, 0, 0)
    headers = headers_of(log)
    crcs = {header.base_offset: header.crc for header in headers}
    missing = [one for one in acknowledged if crcs.get(one.base_offset) != one.crc]
    assert not missing, f"{missing} were acknowledged and are gone"
    sequences = [header.base_sequence for header in headers]
    assert sequences == [header.base_offset for header in headers], "a batch is there twice"
    if headers:
        check_repeated(log, headers[-1])
    # It is not closed: the next writer has to recover it, too.
    segments = len(list(log.directory.glob("*.log")))
    return Found(len(acknowledged), len(headers), segments, log.dropped_bytes)


def check_repeated(log: Log, last: BatchHeader) -> None:
    """The producer does not know that its last batch has arrived, and sends it again."""
    piece = log.read(last.base_offset, 1, log.end_offset)
    assert piece is not None
    data = bytearray(os.pread(piece.records.file.fileno(), last.size, piece.records.position))
    again = log.append(data, leader_epoch=0, now_ms=0)
    assert again.is_repeated
    assert (again.base_offset, log.end_offset) == (last.base_offset, last.next_offset)


def kill_repeatedly(path: Path, kills: int, rng: Random) -> list[Found]:
    acknowledged: list[Acknowledged] = []
    found = []
    for _ in range(kills):
        acknowledged += kill_one(path, rng)
        found.append(look(path, acknowledged))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Write until killed, or kill who does.")
    parser.add_argument("directory", type=Path, nargs="?")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    if options.directory is not None:
        write_until_killed(options.directory)
        return
    began, rng = time.perf_counter(), Random(options.seed)
    found: list[Found] = []
    while len(found) < options.kills:
        with tempfile.TemporaryDirectory() as path:
            found += kill_repeatedly(Path(path), min(10, options.kills - len(found)), rng)
    print(
        f"{len(found):,} kills from seed {options.seed}, with up to"
        f" {max(one.batches for one in found):,} batches in"
        f" {max(one.segments for one in found):,} segments:"
        f" all that was acknowledged was there"
        f" ({sum(one.dropped_bytes > 0 for one in found)} torn ends,"
        f" {time.perf_counter() - began:.0f} s)"
    )


if __name__ == "__main__":
    main()
