"""A data directory read as Spark's tasks read it, without Spark: one core, from files in memory.

With pyarrow the rows become Arrow's batches, as Spark gets them. It is not among what `make bench`
installs: without it that row is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

from bench.table import Row
from pyk.disk import RealDisk
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.spark.bounds import EVERYTHING
from pyk.spark.columns import filled
from pyk.spark.options import ReadOptions
from pyk.spark.plan import Split, plan
from pyk.spark.splits import Found, Policy, read_split
from pyk.wire.compression import Compression
from pyk.wire.records import Record, build_batch

TITLE = "Reading logs without a broker: records of 100 B, microseconds a row and core"
BATCHES = 1_000
BATCH_RECORDS = 150
ROUNDS = 5
GOAL = "3.3: 300,000 rows a second"
NOW = 1_700_000_000_000


def rows() -> Sequence[Row]:
    with TemporaryDirectory(prefix="pyk-bench-") as home:
        return [row for codec in (Compression.NONE, Compression.LZ4) for row in of(codec, home)]


def of(codec: Compression, home: str) -> list[Row]:
    root = Path(home) / codec.name.lower()
    fill(root, codec)
    options = ReadOptions.parse({"path": str(root), "subscribe": "t"})
    splits = plan(options)
    name = codec.name.lower()
    found = [
        Row(f"plan, {name}", "us", {"pyk": best(lambda: plan(options))}),
        Row(f"read and check, {name}", "us", {"pyk": best(lambda: list(batches(splits)))}),
        Row(f"to columns, {name}", "us", {"pyk": best(lambda: gather(splits, is_taken=False))}),
    ]
    if find_spec("pyarrow") is not None:
        taken = best(lambda: gather(splits, is_taken=True))
        found.append(Row(f"to Arrow, {name}", "us", {"pyk": taken}, GOAL))
    return found


def fill(root: Path, codec: Compression) -> None:
    log = Log.open(RealDisk(), root / "t-0", LogConfig(segment_bytes=8 * 1024 * 1024))
    records = [Record(n, NOW + n, b"k%06d" % n, b"%0100d" % n) for n in range(BATCH_RECORDS)]
    batch = build_batch(records, compression=codec)
    for _ in range(BATCHES):
        log.append(bytearray(batch), leader_epoch=0, now_ms=NOW)
    log.close()


def batches(splits: list[Split]) -> Iterator[Found]:
    for split in splits:
        yield from read_split(split, EVERYTHING.timestamp_ms, Policy(print))


def gather(splits: list[Split], *, is_taken: bool) -> None:
    for split in splits:
        for columns in filled(split, EVERYTHING.timestamp_ms, Policy(print), has_headers=False):
            if is_taken:
                columns.arrow()


def best(run: Callable[[], object]) -> float:
    """Of the processor's time, so that others who use the machine count less."""
    seconds = []
    for _ in range(ROUNDS):
        began = process_time()
        run()
        seconds.append(process_time() - began)
    return min(seconds) / (BATCHES * BATCH_RECORDS) * 1e6
