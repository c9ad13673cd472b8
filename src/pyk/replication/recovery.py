"""The start after a crash: logs are recovered in threads, some at a time, while the process hears
signals and says how far it is."""

from __future__ import annotations

import trio

from pyk.log.directory import DataDirectory
from pyk.log.recovery import Recovery
from pyk.offload import Elsewhere, interruptibly
from pyk.types import TopicPartition


async def recover_logs(
    directory: DataDirectory, threads: int, offload: Elsewhere, recovery: Recovery
) -> None:
    """Open the logs that were not closed, and count how far that is. Those that are damaged are in
    `failed`, and those that the disk refuses can be tried again. Raise OSError."""
    partitions = directory.to_recover
    sizes = await offload(lambda: [directory.size(partition) for partition in partitions])
    recovery.logs_total = len(partitions)
    recovery.bytes_total = sum(sizes)
    todo = iter(list(zip(partitions, sizes, strict=True)))

    async def work() -> None:
        for partition, size in todo:
            await _recover(directory, partition, offload)
            recovery.logs += 1
            recovery.bytes += size

    try:
        async with trio.open_nursery() as nursery:
            for _ in range(max(threads, 1)):
                nursery.start_soon(work)
    finally:
        # Also if it was interrupted: the next start goes on from there.
        directory.end_recovery()


async def _recover(directory: DataDirectory, partition: TopicPartition, offload: Elsewhere) -> None:
    opening = directory.begin_opening(partition)
    directory.end_opening(opening, await interruptibly(offload, opening.attempt))
