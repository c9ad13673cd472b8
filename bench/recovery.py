"""Recovery of logs of which nothing is known to be durable: how long a start takes, the memory on
top, and how long it holds the event loop of the process that waits for it."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

import trio

from bench.table import Row
from pyk.config.settings import BrokerSettings
from pyk.disk import RealDisk
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.recovery import Recovery
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.records import PartitionState
from pyk.offload import in_thread
from pyk.replication.recovery import recover_logs
from pyk.replication.topic_logs import TopicLogs
from pyk.types import TopicPartition, Uuid
from pyk.wire.batch import read_header, stamp_offset
from pyk.wire.records import Record, build_batch

TITLE = "Recovery after a crash: on the disk of the current directory, each in a process of its own"
DISK = RealDisk()
ID = Uuid(b"the topic's uuid")
THREADS = 2
GIB = 1024**3
LOADS = (
    # Bytes, partitions, bytes of a batch.
    (10 * GIB, 1, 4096),
    (10 * GIB, 100, 4096),
    (10 * GIB, 10_000, 4096),
    (GIB, 100, 221),
)


def rows() -> Sequence[Row]:
    return [row for load in LOADS for row in measured(*load)]


def measured(size: int, partitions: int, batch_bytes: int) -> list[Row]:
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-") as home:
        fill(Path(home), size, partitions, batch_bytes)
        command = [sys.executable, "-m", "bench.recovery", home, str(partitions)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, memory, held = map(float, output.split())
    what = f"{size / GIB:g} GiB in {partitions:,} partitions, batches of {batch_bytes:,} bytes"
    return [
        Row(what, "s", {"pyk": seconds}),
        Row("  memory on top", "MB", {"pyk": memory / 1e6}),
        Row("  longest that the loop waited", "ms", {"pyk": held * 1000}),
    ]


def fill(home: Path, size: int, partitions: int, batch_bytes: int) -> None:
    """Write the logs, as a broker leaves them that is killed before it has flushed anything."""
    directory = DataDirectory.open(DISK, home, lambda _: LogConfig())
    value = bytes(batch_bytes)
    overhead = len(build_batch([Record(0, 1, b"key", value)])) - batch_bytes
    batch = bytearray(build_batch([Record(0, 1, b"key", bytes(batch_bytes - overhead))]))
    header = read_header(batch)
    for number in range(partitions):
        log = directory.create(TopicPartition("t", number), ID, LogConfig())
        for _ in range(size // partitions // header.size):
            stamp_offset(batch, 0, log.end_offset, 0)
            log.append(batch, leader_epoch=0, now_ms=1)
        # Not flushed: only the descriptors are not needed any more.
        del directory.logs[TopicPartition("t", number)]


async def recover(home: Path, partitions: int) -> tuple[float, float]:
    """Seconds, and the longest that the loop waited meanwhile."""
    state = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
    topic = Topic("t", ID, (state,) * partitions, revision=1)
    settings = BrokerSettings()
    directory = DataDirectory.hold(DISK, home)
    directory.begin()
    image = ClusterImage(topics={"t": topic})
    logs = TopicLogs(directory, lambda _: settings.topic_config({}), image)
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            begun = perf_counter()
            await trio.sleep(0.001)
            longest = max(longest, perf_counter() - begun - 0.001)

    begun = perf_counter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await recover_logs(logs, THREADS, in_thread, Recovery())
        nursery.cancel_scope.cancel()
    assert not directory.failed
    assert len(directory.logs) == partitions
    return perf_counter() - begun, longest


def main() -> None:
    home, partitions = Path(sys.argv[1]), int(sys.argv[2])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, longest = trio.run(recover, home, partitions)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(seconds, (after - before) * 1024, longest)


if __name__ == "__main__":
    main()
