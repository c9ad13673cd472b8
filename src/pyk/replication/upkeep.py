"""What logs need now and then: retention, compaction, checkpoints, forgetting idle producers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import trio

from pyk.disk import Disk
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.log.segments import CorruptLog
from pyk.offload import Elsewhere, in_thread
from pyk.wire.compression import CorruptBatch

CHECKPOINT_SECONDS = 5.0
COMPACTION_SECONDS = 15.0

logger = logging.getLogger(__name__)


class Upkeep:
    """For all logs of a data directory, one after the other."""

    def __init__(
        self,
        disk: Disk,
        directory: DataDirectory,
        now_ms: Callable[[], int],
        retention_seconds: float,
        offload: Elsewhere = in_thread,
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._now_ms = now_ms
        self._retention_seconds = retention_seconds
        self._offload = offload

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._every, CHECKPOINT_SECONDS, self._checkpoint)
            nursery.start_soon(self._every, self._retention_seconds, self._retire_all)
            nursery.start_soon(self._compact_forever)

    async def _every(self, seconds: float, run: Callable[[], Awaitable[None]]) -> None:
        while True:
            await trio.sleep(seconds)
            try:
                await run()
            except (OSError, CorruptLog) as failed:
                logger.warning("the upkeep of logs failed: %s", failed)

    async def _checkpoint(self) -> None:
        checkpoint = self._directory.begin_checkpoint()
        if checkpoint is not None:
            await self._offload(checkpoint.run)
            self._directory.end_checkpoint(checkpoint)

    async def _retire_all(self) -> None:
        now_ms = self._now_ms()
        for log in self._logs():
            log.retire(now_ms)
            log.producers.expire(now_ms)
            await trio.lowlevel.checkpoint()
        self._directory.sweep(now_ms)

    async def _compact_forever(self) -> None:
        while True:
            await trio.sleep(COMPACTION_SECONDS)
            for log in self._logs():
                await self._compact(log)

    async def _compact(self, log: Log) -> None:
        compaction = log.begin_compaction(self._now_ms())
        if compaction is None:
            return
        result = None
        try:
            result = await self._offload(partial(compaction.run, self._disk))
        except (OSError, CorruptBatch) as failed:
            logger.warning("%s was not compacted: %s", log.directory.name, failed)
        finally:
            log.end_compaction(compaction, result)

    def _logs(self) -> list[Log]:
        return list(self._directory.logs.values())
