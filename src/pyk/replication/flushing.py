"""What logs have in memory goes to the disk, beside appends and reads.

- Whoever must not be answered before a record is durable waits for a flush. One flush serves all
  who wait when it begins; those who come while it runs share the next one.
- Logs with `flush.ms` are flushed when that time has passed since something was appended.
- A segment that is full is flushed, and holds no descriptor any more until somebody reads it.
- Of logs that grow fast the system is told to begin early, so that neither a flush nor an append
  meets gigabytes that are still in memory.
- A sync that failed ends the broker: `SyncFailed` goes up through whoever waited.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from typing import Final
from weakref import WeakKeyDictionary

import trio

from pyk.disk import SyncFailed
from pyk.errors import KafkaError, storage_error
from pyk.log.config import INT64_MAX
from pyk.log.log import Log
from pyk.offload import Offload, in_thread
from pyk.turns import in_turns

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 1.0
"""What the disk has refused is not tried again before, however small `flush.ms` is."""


class Flusher:
    """One for all logs of a broker."""

    def __init__(self, offload: Offload = in_thread) -> None:
        self._offload = offload
        self._under_way: dict[Log, trio.Event] = {}
        self._growing: dict[Log, None] = {}
        self._deadlines: dict[Log, float] = {}
        """When logs are to be flushed, on trio's clock."""
        self._rolled: dict[Log, None] = {}
        """Those with a full segment to be flushed, until that is done."""
        self._woken = trio.Event()
        self._rolled_woken = trio.Event()
        self._failure: SyncFailed | None = None
        self._told: WeakKeyDictionary[Log, str] = WeakKeyDictionary()
        """Why logs cannot be flushed, as it was told last. Nothing here keeps the files of a log
        that was deleted."""

    async def wait_durable(self, log: Log, end_offset: int) -> None:
        """Return when everything before `end_offset` is durable, or was truncated. Raise KafkaError
        with KAFKA_STORAGE_ERROR, and SyncFailed."""
        while log.flushed_end < min(end_offset, log.end_offset):
            if self._failure is not None:
                raise SyncFailed(str(self._failure)) from self._failure
            under_way = self._under_way.get(log)
            if under_way is None:
                await self._flush(log)
            else:
                await under_way.wait()

    def note_append(self, log: Log) -> None:
        """Something was appended. If that has become much, the disk is to begin with it."""
        if log.is_writeback_due:
            self._growing[log] = None
            self._woken.set()
        if log.has_unflushed_segments and log not in self._rolled:
            self._rolled[log] = None
            self._rolled_woken.set()
        flush_ms = log.config.flush_ms
        if flush_ms != INT64_MAX and log not in self._deadlines:
            self._deadlines[log] = trio.current_time() + flush_ms / 1000
            self._woken.set()

    async def run(self) -> None:
        """Bring what gathers to the disk, until cancelled. Raise SyncFailed."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._flush_rolled)
            await self._flush_in_time()

    async def _flush_rolled(self) -> None:
        """One after the other: it is no hurry, and a disk has other things to do."""
        while True:
            await self._rolled_woken.wait()
            self._rolled_woken = trio.Event()
            await self._flush_those_rolled()

    async def _flush_those_rolled(self) -> None:
        for log in list(self._rolled):
            try:
                await self._contain(log, self._flush_segments)
            finally:
                del self._rolled[log]

    async def _flush_segments(self, log: Log) -> None:
        failure = log.untold_failure()
        if failure is not None:
            name = log.directory.name
            logger.warning("%s lacks a snapshot of its producers: %s", name, failure)
        # Others may fill while one is flushed.
        while log.has_unflushed_segments and not log.is_dropped:
            await self.wait_durable(log, log.rolled_end)
        log.release()

    async def _contain(self, log: Log, act: Callable[[Log], Awaitable[None]]) -> None:
        """The boundary of what nobody waits for: others' logs have their turn, whatever happens
        with this one. Only SyncFailed and Cancelled get beyond it."""
        try:
            await act(log)
        except (OSError, KafkaError) as failed:
            why = str(failed)
            if not log.is_dropped and self._told.get(log) != why:
                self._told[log] = why
                # The text, since a failure holds the log through its frames.
                logger.warning("%s cannot be flushed for now: %s", log.directory.name, why)
        except Exception as failed:
            if self._told.get(log) != repr(failed):
                self._told[log] = repr(failed)
                logger.exception("%s cannot be flushed", log.directory.name)
        else:
            self._told.pop(log, None)

    async def _flush_in_time(self) -> None:
        while True:
            with trio.move_on_at(min(self._deadlines.values(), default=math.inf)):
                await self._woken.wait()
            self._woken = trio.Event()
            await self._flush_those_due()

    async def _flush_those_due(self) -> None:
        while self._growing:
            log, _ = self._growing.popitem()
            await self._contain(log, self._write_back)
        now = trio.current_time()
        for log in [log for log, due in self._deadlines.items() if due <= now]:
            del self._deadlines[log]
            await self._contain(log, self._flush_by_time)

    async def _write_back(self, log: Log) -> None:
        await self._offload(log.begin_writeback().run)

    async def _flush_by_time(self, log: Log) -> None:
        try:
            await self.wait_durable(log, log.end_offset)
        except KafkaError:
            flush_ms = log.config.flush_ms
            if not log.is_dropped and flush_ms != INT64_MAX:
                # When there is space again it is flushed.
                pause = max(flush_ms / 1000, RETRY_SECONDS)
                self._deadlines[log] = trio.current_time() + pause
            raise

    async def _flush(self, log: Log) -> None:
        done = self._under_way[log] = trio.Event()
        try:
            if log.has_unflushed_segments:
                await in_turns(log.write_indexes())
            flush = log.begin_flush()
            await self._offload(flush.run)
            log.end_flush(flush)
        except SyncFailed as failure:
            self._failure = failure
            raise
        except OSError as error:
            raise storage_error(log.directory.name, error) from error
        finally:
            del self._under_way[log]
            done.set()
