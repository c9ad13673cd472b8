"""Compaction of logs with many and with few keys: bytes read a second, and the memory it takes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from time import perf_counter

from bench.table import Row
from pyk.disk import RealDisk
from pyk.log.compaction import plan, rewrite
from pyk.log.config import LogConfig
from pyk.log.segments import Segments
from pyk.wire.batch import encode_batch, read_header

TITLE = "Compaction: on the disk of the current directory, each in a process of its own"
DISK = RealDisk()
NOW = 1_700_000_000_000
CONFIG = LogConfig(segment_bytes=256 * 1024**2, min_cleanable_dirty_ratio=0.0)
BATCH_RECORDS = 128


@dataclass(frozen=True, slots=True)
class Load:
    what: str
    records: int
    keys: int
    """Each comes once, in order. The rest of the records have random ones of them."""
    value_bytes: int


LOADS = {
    "distinct": Load("10 million keys, 2% twice, 100 bytes", 10_200_000, 10_000_000, 100),
    "few": Load("100,000 keys 50 times, 100 bytes", 5_000_000, 100_000, 100),
    "large": Load("500,000 keys twice, 1 KB", 1_000_000, 500_000, 1024),
}


def rows() -> Sequence[Row]:
    return [row for name in LOADS for row in measured(name)]


def measured(name: str) -> list[Row]:
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home:
        size = fill(Path(home), LOADS[name])
        command = [sys.executable, "-m", "bench.compaction", home]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, memory, left = map(float, output.split())
    what = LOADS[name].what
    return [
        Row(what, "MB/s", {"pyk": size / seconds / 1e6}),
        Row("  records a second", "k", {"pyk": LOADS[name].records / seconds / 1e3}),
        Row("  of its bytes are left", "%", {"pyk": left / size * 100}),
        Row("  memory on top", "MB", {"pyk": memory / 1e6}),
    ]


def fill(home: Path, load: Load) -> int:
    """Write the log. Its size."""
    log = Segments.open(DISK, home, CONFIG)
    keys = key_numbers(load)
    value = os.urandom(load.value_bytes)
    for base in range(0, load.records, BATCH_RECORDS):
        data = raw_batch(base, list(islice(keys, BATCH_RECORDS)), value)
        log.append(data, read_header(data), NOW)
    log.roll()
    log.flush()
    return log.size


def key_numbers(load: Load) -> Iterator[int]:
    rng = random.Random(1)
    again = (int(rng.random() * load.keys) for _ in range(load.records - load.keys))
    return chain(range(load.keys), again)


def raw_batch(base: int, numbers: Sequence[int], value: bytes) -> bytes:
    """What `build_batch` would make of keys of 16 bytes, but in a third of the time."""
    tail = varint(len(value)) + value + b"\x00"
    records = b"".join(
        [framed(delta, b"key-%012d" % number, tail) for delta, number in enumerate(numbers)]
    )
    return encode_batch(
        records,
        base_offset=base,
        partition_leader_epoch=0,
        attributes=0,
        last_offset_delta=len(numbers) - 1,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=len(numbers),
    )


def framed(delta: int, key: bytes, tail: bytes) -> bytes:
    place = DELTAS[delta]
    return varint(len(place) + 1 + len(key) + len(tail)) + place + b"\x20" + key + tail


def varint(n: int) -> bytes:
    n <<= 1
    return bytes([n]) if n < 0x80 else bytes([n & 0x7F | 0x80, n >> 7])


DELTAS = [b"\x00\x00" + varint(delta) for delta in range(BATCH_RECORDS)]


def main(home: Path) -> None:
    """Compact the log there, and print seconds, bytes of memory and bytes that are left."""
    log = Segments.open(DISK, home, CONFIG)
    end = log.end_offset
    planned = plan(log, cleaned_until=0, log_start_offset=0, last_stable_offset=end, now_ms=NOW)
    assert planned is not None
    before = resident_kb("VmRSS")
    began = perf_counter()
    result = rewrite(DISK, home, planned, [], {})
    took = perf_counter() - began
    memory = (resident_kb("VmHWM") - before) * 1024
    for each in result.rewritten:
        log.swap_in(each.bases)
    print(took, memory, log.size)


def resident_kb(name: str) -> int:
    """Memory of this process. What getrusage says begins with that of its parent."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
