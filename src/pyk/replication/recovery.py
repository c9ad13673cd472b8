"""The start after a crash: logs are recovered in threads, some at a time, while the process hears
signals and says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import trio

from pyk.log.log import Log
from pyk.log.opening import LogOpening
from pyk.log.recovery import Recovery
from pyk.offload import Elsewhere, interruptibly
from pyk.replication.topic_logs import TopicLogs


async def recover_logs(
    logs: TopicLogs, threads: int, offload: Elsewhere, recovery: Recovery
) -> None:
    """Open the logs that were not closed, and count how far that is. Those that are damaged are in
    `failed`, and those that the disk refuses can be tried again. Raise OSError."""
    directory = logs.directory
    partitions = directory.to_recover
    sizes = await offload(lambda: [directory.size(partition) for partition in partitions])
    recovery.logs_total = len(partitions)
    recovery.bytes_total = sum(sizes)
    todo = iter(list(zip(partitions, sizes, strict=True)))

    async def work() -> None:
        for partition, size in todo:
            opening = directory.begin_opening(partition)
            logs.end_opening(opening, await interruptibly(offload, partial(_attempt, opening)))
            recovery.logs += 1
            recovery.bytes += size

    try:
        async with trio.open_nursery() as nursery:
            for _ in range(min(threads, len(partitions))):
                nursery.start_soon(work)
    finally:
        # Also if it was interrupted: the next start goes on from there.
        with trio.CancelScope(shield=True):
            await offload(directory.end_recovery)


def _attempt(opening: LogOpening, checkpoint: Callable[[], None]) -> Log | Exception | None:
    return opening.attempt(lambda _: checkpoint())
