"""What logs need now and then: retention, compaction, checkpoints, forgetting idle producers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, Self

import trio

from pyk.config.broker import BrokerConfig
from pyk.declared import NamedTuple
from pyk.disk import Disk
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.log.segments import CorruptLog
from pyk.offload import Elsewhere, in_thread
from pyk.wire.compression import CorruptBatch

logger = logging.getLogger(__name__)

BACKOFF_MS_MIN: Final = 100
"""Without any rest the cleaner would look at logs and do nothing else."""


class Care(NamedTuple):
    """How often what is done, by the broker's configuration. The defaults are Kafka's."""

    checkpoint_seconds: float = 5.0
    retention_seconds: float = 300.0
    compaction_seconds: float = 15.0
    compacts: bool = True
    producer_expiration_ms: int = 86_400_000

    @classmethod
    def of(cls, config: BrokerConfig) -> Self:
        return cls(
            checkpoint_seconds=config.replica_high_watermark_checkpoint_interval_ms / 1000,
            retention_seconds=config.log_retention_check_interval_ms / 1000,
            compaction_seconds=max(config.log_cleaner_backoff_ms, BACKOFF_MS_MIN) / 1000,
            compacts=config.log_cleaner_enable,
            producer_expiration_ms=config.producer_id_expiration_ms,
        )


class Upkeep:
    """For all logs of a data directory, one after the other."""

    def __init__(
        self,
        disk: Disk,
        directory: DataDirectory,
        now_ms: Callable[[], int],
        care: Callable[[], Care],
        offload: Elsewhere = in_thread,
    ) -> None:
        """`care` is asked each time: the configuration may have changed."""
        self._disk = disk
        self._directory = directory
        self._now_ms = now_ms
        self._care = care
        self._offload = offload

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            start = nursery.start_soon
            start(self._every, lambda: self._care().checkpoint_seconds, self._checkpoint)
            start(self._every, lambda: self._care().retention_seconds, self._retire_all)
            start(self._every, lambda: self._care().compaction_seconds, self._compact_all)

    async def _every(
        self, seconds: Callable[[], float], run: Callable[[], Awaitable[None]]
    ) -> None:
        while True:
            await trio.sleep(seconds())
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
        now_ms, expiration_ms = self._now_ms(), self._care().producer_expiration_ms
        for log in self._logs():
            log.retire(now_ms)
            log.producers.expiration_ms = expiration_ms
            log.producers.expire(now_ms)
            await trio.lowlevel.checkpoint()
        self._directory.sweep(now_ms)

    async def _compact_all(self) -> None:
        for log in self._logs() if self._care().compacts else ():
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
