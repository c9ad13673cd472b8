"""A log on a disk that may crash at any moment: `make crash`.

A random workload runs on a simulated disk. Before each operation of the disk the machine is taken
to die there, by kill -9 or by power loss, and a copy of the disk is opened again. What must be so:

- The recovered log is a prefix of what was written, and everything that was flushed is in it.
- It can be appended to, and opened cleanly after that.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from random import Random

from pyk.log.segments import SegmentConfig, Segments
from pyk.wire.batch import BatchHeader, read_header
from tests.log.simulated_disk import ROOT, SimulatedDisk
from tests.log.test_segment import batch, taken

HOME = ROOT / "topic-0"
NOW = 1_000


@dataclass
class Truth:
    """What a workload has done to a log, and what may be found after a crash."""

    written: list[BatchHeader] = field(default_factory=list)
    """In the log now, or if the last call was interrupted, before it."""
    attempted: list[BatchHeader] = field(default_factory=list)
    """What an append that is under way would add."""
    durable_end: int = 0
    start: int = 0
    """No record before it is owed to anybody."""
    recovery_point: int = 0
    recovered: int = 0
    """Crash points that were tried."""


def run(seed: int, steps: int = 30) -> Truth:
    """One workload with a crash before every operation. Raise AssertionError at a lost record."""
    rng = Random(seed)
    disk = SimulatedDisk()
    config = SegmentConfig(
        segment_bytes=rng.choice((300, 900, 10_000)), index_interval_bytes=rng.choice((1, 200))
    )
    truth = Truth()

    def crash_here() -> None:
        disk.watch = None
        for copy in (disk.kill9(), disk.power(rng)):
            check(copy, truth, config)
            truth.recovered += 1
        disk.watch = crash_here

    log = Segments.open(disk, HOME, config)
    disk.watch = crash_here
    for _ in range(steps):
        log = step(rng, disk, log, truth, config)
    return truth


def step(
    rng: Random, disk: SimulatedDisk, log: Segments, truth: Truth, config: SegmentConfig
) -> Segments:
    what = rng.choices(
        ("append", "flush", "truncate", "drop", "sweep", "roll", "reopen"), (12, 4, 2, 2, 1, 1, 1)
    )[0]
    if what == "append":
        data = batch(log.end_offset, *(rng.randrange(900) for _ in range(rng.choice((1, 3)))))
        truth.attempted = [read_header(data)]
        log.append(data, read_header(data), NOW)
        truth.written += truth.attempted
        truth.attempted = []
    elif what == "flush":
        truth.recovery_point = truth.durable_end = log.flush()
    elif what == "truncate":
        offset = rng.randint(log.start_offset, log.end_offset)
        kept = [header for header in truth.written if header.last_offset < offset]
        end = kept[-1].next_offset if kept else 0
        # From here on the records beyond are owed to nobody, and the checkpoint says so first.
        truth.durable_end = truth.recovery_point = min(truth.recovery_point, end)
        log.truncate(offset)
        truth.written = kept
    elif what == "drop":
        offset = rng.randint(log.start_offset, log.end_offset)
        truth.start = max(truth.start, offset)
        log.drop_before(offset)
    elif what == "sweep":
        log.sweep()
    elif what == "roll":
        log.roll()
    else:
        truth.recovery_point = truth.durable_end = log.flush()
        log = Segments.open(disk, HOME, config, rng.choice((None, truth.recovery_point)))
    return log


def check(disk: SimulatedDisk, truth: Truth, config: SegmentConfig) -> None:
    log = Segments.open(disk, HOME, config, truth.recovery_point)
    found = contents(log)
    possible = [*truth.written, *truth.attempted]
    known = {header.base_offset: header.crc for header in possible}
    for base, crc in found.items():
        assert known.get(base) == crc, f"offset {base} was never written so"
    bases = [header.base_offset for header in possible if header.base_offset >= log.start_offset]
    assert list(found) == bases[: len(found)], "there is a hole"
    owed = [
        header.base_offset
        for header in truth.written
        if truth.start <= header.base_offset and header.last_offset < truth.durable_end
    ]
    assert set(owed) <= set(found), f"durable offsets {set(owed) - set(found)} are gone"
    data = batch(log.end_offset, 5)
    log.append(data, read_header(data), NOW)
    log.flush()
    again = Segments.open(disk, HOME, config)
    assert list(contents(again)) == [*found, read_header(data).base_offset]


def contents(log: Segments) -> dict[int, int]:
    """Base offset and CRC of every batch, as a reader finds them."""
    found: dict[int, int] = {}
    offset = log.start_offset
    while headers := taken(log.read(offset, 10**6)):
        found |= {header.base_offset: header.crc for header in headers}
        offset = headers[-1].next_offset
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Crash a log at every point, and recover it.")
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    began, points, seed = time.perf_counter(), 0, options.seed
    while points < options.points:
        try:
            points += run(seed).recovered
        except BaseException as failed:
            failed.add_note(f"seed {seed}")
            raise
        seed += 1
    took = time.perf_counter() - began
    print(
        f"{points:,} crash points in {seed - options.seed:,} workloads from seed {options.seed}:"
        f" every log was a prefix with all that was flushed ({points / took:,.0f} a second)"
    )


if __name__ == "__main__":
    main()
