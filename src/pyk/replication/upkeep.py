"""What logs need now and then: retention, compaction, checkpoints, forgetting idle producers.

Each log has a boundary of its own: what is wrong with one is told once, counted, and the others get
their turn. Only logs whose topic and configuration are known are open, and only open ones are
touched. One that nobody has used since a clean start is opened when it has something to do.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Self
from weakref import ReferenceType, ref

import trio

from pyk.config.broker import BrokerConfig
from pyk.errors import KafkaError
from pyk.log.compaction import Result
from pyk.log.dormant import DormantLog, is_compaction_due, is_retention_due
from pyk.log.log import Compaction, Log
from pyk.log.segments import CorruptLog
from pyk.offload import Elsewhere, Interrupted, in_thread, interruptibly
from pyk.replication.topic_logs import TopicLogs
from pyk.turns import in_turns
from pyk.types import TopicPartition
from pyk.wire.compression import CorruptBatch

logger = logging.getLogger(__name__)

BACKOFF_MS_MIN: Final = 100
"""Without any rest the cleaner would look at logs and do nothing else."""

DAMAGE_IS_READ_AGAIN_MS: Final = 3_600_000

_SEGMENTS_AT_ONCE = 16
"""Segments that retention removes before others get their turn."""
_PEEKED_AT_ONCE = 64
"""Dormant logs that a thread looks at before it hears whether it is still wanted."""


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


class Damaged(NamedTuple):
    """A log that cannot be compacted as long as it begins with the same segment."""

    log: ReferenceType[Log]
    """It may be deleted, and its files are to go then."""
    start_offset: int
    found_ms: int
    what: str


class Upkeep:
    """For all logs of a data directory, one after the other."""

    def __init__(
        self,
        logs: TopicLogs,
        now_ms: Callable[[], int],
        care: Callable[[], Care],
        offload: Elsewhere = in_thread,
    ) -> None:
        """`care` is asked each time: the configuration may have changed."""
        self.failures = 0
        """How often something could not be done for a log."""
        self._logs = logs
        self._directory = logs.directory
        self._checkpoints = logs.checkpoints
        self._now_ms = now_ms
        self._care = care
        self._offload = offload
        self._told: dict[tuple[str, str], str] = {}
        """What was told last of a log and what was to be done for it."""
        self._damaged: dict[str, Damaged] = {}
        """What compaction has found, by the names of logs: they are not read again for that."""

    async def run(self) -> None:
        """Until cancelled."""
        async with trio.open_nursery() as nursery:
            start = nursery.start_soon
            start(self._every, "the checkpoints", self._checkpoint_seconds, self._checkpoints.write)
            start(self._every, "deleted logs", self._checkpoint_seconds, self._remove_deleted)
            start(self._every, "retention", self._retention_seconds, self._retire_all)
            start(self._every, "compaction", self._compaction_seconds, self._compact_all)
            start(self._every, "recovery", self._checkpoint_seconds, self._logs.open_unrecovered)
            start(self._logs.delete_logs)

    async def _every(
        self, what: str, seconds: Callable[[], float], run: Callable[[], Awaitable[None]]
    ) -> None:
        while True:
            await trio.sleep(seconds())
            await self._contain("all logs", what, run)

    def _checkpoint_seconds(self) -> float:
        return self._care().checkpoint_seconds

    def _retention_seconds(self) -> float:
        return self._care().retention_seconds

    def _compaction_seconds(self) -> float:
        return self._care().compaction_seconds

    async def _contain(self, name: str, what: str, run: Callable[[], Awaitable[None]]) -> None:
        """The boundary: only SyncFailed and Cancelled get beyond it."""
        key = (name, what)
        try:
            await run()
        except (OSError, KafkaError, CorruptLog, CorruptBatch, Interrupted) as failed:
            self.failures += 1
            why = str(failed)
            if self._told.get(key) != why:
                self._told[key] = why
                # The text, since a failure holds the log through its frames.
                logger.warning("maintenance: %s of %s failed: %s", what, name, why)
        except Exception as failed:
            self.failures += 1
            if self._told.get(key) != repr(failed):
                self._told[key] = repr(failed)
                logger.exception("maintenance: %s of %s failed", what, name)
        else:
            self._told.pop(key, None)

    async def _remove_deleted(self) -> None:
        await self._offload(self._directory.retry_sync)
        removal = self._directory.begin_removal(self._now_ms())
        if removal is not None:
            outcomes = await self._offload(removal.run)
            for failure in self._directory.end_removal(outcomes):
                raise failure

    async def _retire_all(self) -> None:
        for partition in await self._dormant_with(is_retention_due):
            await self._logs.open_dormant(partition)
        await self._for_each("retention", self._retire)

    async def _retire(self, log: Log) -> None:
        now_ms, expiration_ms = self._now_ms(), self._care().producer_expiration_ms
        while not log.is_dropped:
            retirement = log.begin_retirement(now_ms, _SEGMENTS_AT_ONCE)
            if retirement is None:
                break
            await self._offload(retirement.run)
            log.end_retirement(retirement)
        log.producers.expiration_ms = expiration_ms
        log.producers.expire(now_ms)
        sweep = log.begin_sweep(now_ms)
        if sweep is not None:
            log.end_sweep(await self._offload(sweep.run))
        failure = log.untold_failure()
        if failure is not None and not log.is_dropped:
            raise failure

    async def _compact_all(self) -> None:
        if self._care().compacts:
            for partition in await self._dormant_with(is_compaction_due):
                await self._logs.open_dormant(partition)
            await self._for_each("compaction", self._compact)

    async def _compact(self, log: Log) -> None:
        compaction = await in_turns(log.prepare_compaction(self._now_ms()))
        if compaction is None:
            return
        done, name, start_offset = None, log.directory.name, compaction.plan.start_offset
        try:
            self._check_sound(name, log, start_offset)
            result = await interruptibly(self._offload, partial(_run, log, compaction))
            for rewritten in result.rewritten:
                swap = log.begin_swap(compaction, rewritten)
                if swap is not None:
                    await self._offload(swap.run)
                    log.end_swap(compaction, swap)
                    await self._offload(swap.run)
            done = result._replace(rewritten=[])
        except Interrupted:
            pass  # Truncated or deleted meanwhile: nobody wants it any more.
        except CorruptBatch as failure:
            found = Damaged(ref(log), start_offset, self._now_ms(), str(failure))
            self._damaged.setdefault(name, found)
            raise
        finally:
            # What was not swapped in by now is done again.
            log.end_compaction(compaction, done)

    def _check_sound(self, name: str, log: Log, start_offset: int) -> None:
        """Raise CorruptBatch if there was one the last time, which must still be there unless it
        was the disk that could not be read for a moment."""
        known = self._damaged.get(name)
        if known is None:
            return
        is_recent = self._now_ms() < known.found_ms + DAMAGE_IS_READ_AGAIN_MS
        if known.log() is log and known.start_offset == start_offset and is_recent:
            raise CorruptBatch(known.what)
        del self._damaged[name]

    async def _for_each(self, what: str, act: Callable[[Log], Awaitable[None]]) -> None:
        for partition in list(self._directory.logs):
            log = self._directory.logs.get(partition)
            if log is not None:
                await self._contain(log.directory.name, what, partial(act, log))
            await trio.lowlevel.checkpoint()

    async def _dormant_with(
        self, is_due: Callable[[DormantLog, int], bool]
    ) -> Sequence[TopicPartition]:
        """The dormant logs that have something to do: looked at in a thread, and not opened."""
        dormant, now_ms = self._directory.dormant, self._now_ms()
        found: list[TopicPartition] = []
        for start in range(0, len(dormant), _PEEKED_AT_ONCE):
            logs = self._logs.peek(dormant[start : start + _PEEKED_AT_ONCE])
            due = await self._offload(partial(_due, logs, is_due, now_ms))
            found += [log.partition for log in due]
        return found


def _due(
    logs: Sequence[DormantLog], is_due: Callable[[DormantLog, int], bool], now_ms: int
) -> list[DormantLog]:
    found = []
    for log in logs:
        try:
            wanted = is_due(log, now_ms)
        except OSError:
            # For whoever opens it to tell.
            wanted = True
        if wanted:
            found.append(log)
    return found


def _run(log: Log, compaction: Compaction, checkpoint: Callable[[], None]) -> Result:
    def is_wanted() -> None:
        checkpoint()
        if not log.is_worth(compaction):
            raise Interrupted

    return compaction.run(is_wanted)
