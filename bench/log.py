"""Segments beside bare writes of the same bytes, and how fast and how cheaply logs open."""

from __future__ import annotations

import os
import random
import resource
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter

from bench.table import Row
from pyk.log.disk import RealDisk
from pyk.log.segments import SegmentConfig, Segments
from pyk.wire.batch import read_header, stamp_offset
from pyk.wire.records import Record, build_batch

TITLE = "Logs: on the disk of the current directory"
DISK = RealDisk()
NOW = 1_700_000_000_000
ROUNDS = 5


def rows() -> Sequence[Row]:
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home:
        return [
            appending(Path(home), 16 * 1024, 128 * 1024**2),
            appending(Path(home), 1024**2, 256 * 1024**2),
            reading(Path(home)),
            opening_segments(Path(home), 1_000),
            *opening_logs(Path(home), 10_000),
        ]


def a_batch(size: int) -> bytearray:
    value = bytes(size - 80)
    return bytearray(build_batch([Record(offset=0, timestamp=NOW, key=None, value=value)]))


def appending(home: Path, size: int, total: int) -> Row:
    """Stamped, indexed and written, against nothing but written."""
    data = a_batch(size)
    count = total // len(data)
    ours, bare = [], []
    for turn in range(ROUNDS):
        bare.append(timed(lambda: write_bare(home / "bare", data, count)))
        (home / "bare").unlink()
        log = Segments.open(DISK, home / f"append-{size}-{turn}", SegmentConfig())
        ours.append(timed(lambda log=log: append_all(log, data, count)))  # type: ignore[misc]
        log.clear(0)
        log.sweep()
    figures = {"pyk": min(ours) / count * 1e6, "os.write": min(bare) / count * 1e6}
    goal = "os.write at least 0.6" if size < 1024**2 else "os.write at least 0.9"
    return Row(f"append {size // 1024:,} KB", "us", figures, goal)


def write_bare(path: Path, data: bytearray, count: int) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    for _ in range(count):
        os.write(descriptor, data)
    os.close(descriptor)


def append_all(log: Segments, data: bytearray, count: int) -> None:
    for offset in range(count):
        stamp_offset(data, 0, offset, 0)
        log.append(data, read_header(data), NOW)


def reading(home: Path) -> Row:
    """Slices of up to 1 MB at random offsets of a log of 1 GB in 16 segments."""
    log = Segments.open(DISK, home / "reads", SegmentConfig(segment_bytes=64 * 1024**2))
    count = 1024**3 // (16 * 1024)
    append_all(log, a_batch(16 * 1024), count)
    wanted = [random.Random(1).randrange(count) for _ in range(5_000)]
    took = timed(lambda: [log.read(offset, 1024**2) for offset in wanted])
    log.clear(0)
    log.sweep()
    return Row("read at a random offset, 1 MB", "us", {"pyk": took / len(wanted) * 1e6})


def opening_segments(home: Path, count: int) -> Row:
    log = Segments.open(DISK, home / "many", SegmentConfig())
    data = a_batch(1024)
    for offset in range(count):
        stamp_offset(data, 0, offset, 0)
        log.append(data, read_header(data), NOW)
        log.roll()
    log.flush()
    log.release()
    took = timed(lambda: Segments.open(DISK, home / "many", SegmentConfig()))
    return Row(f"open a log of {count:,} segments", "ms", {"pyk": took * 1e3})


def opening_logs(home: Path, count: int) -> list[Row]:
    """Cleanly closed, as a broker with that many partitions finds them."""
    data = a_batch(1024)
    for number in range(count):
        log = Segments.open(DISK, home / f"topic-{number}", SegmentConfig())
        log.append(data, read_header(data), NOW)
        log.flush()
    before_memory, before_files = resident_bytes(), open_files()
    opened: list[Segments] = []

    def open_all() -> None:
        for number in range(count):
            log = Segments.open(DISK, home / f"topic-{number}", SegmentConfig())
            log.release()
            opened.append(log)

    took = timed(open_all)
    memory = (resident_bytes() - before_memory) / 1024**2
    return [
        Row(f"open {count:,} logs", "s", {"pyk": took}),
        Row("memory they take", "MB", {"pyk": memory}),
        Row("descriptors they hold", "", {"pyk": float(open_files() - before_files)}),
    ]


def timed(run: Callable[[], object]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
