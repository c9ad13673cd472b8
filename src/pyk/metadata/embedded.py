"""A store in one file on this machine, for a cluster of one broker. It needs no other process.

    commit: decide -> append -> apply, at once and in turn    then wait for a sync, shared by all
                                                              that wait when it begins

- Nobody is told of anything that is not durable: readers and watches wait for it, too.
- A sync that failed is the end: `SyncFailed` reaches all who wait, and leaves by the block. If a
  record cannot even be appended, whoever commits gets the `OSError`, and nothing has happened.
- A lease that was open when the store was closed begins anew when it is opened.
- The changes of the last revisions are kept in memory for watches. Older ones, and those before
  the snapshot that the store was opened with, are compacted.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

from pyk.disk import Disk, SyncFailed
from pyk.metadata.journal import APPENDED_BYTES_MIN, Journal, written_of
from pyk.metadata.state import (
    History,
    LeaseEnded,
    LeaseGranted,
    Record,
    State,
    Transaction,
    check_keys,
    within,
)
from pyk.metadata.store import (
    Changes,
    Commit,
    Compare,
    Entry,
    LeaseId,
    LeaseNotFound,
    Operation,
    Snapshot,
)
from pyk.offload import Offload, in_thread
from pyk.turns import Work, in_turns

HISTORY_MAX: Final = 10_000
"""How many revisions a watch may be behind."""
WRITTEN_AT_ONCE: Final = 1_000
"""Operations, before others may have their turn."""

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_embedded(
    disk: Disk,
    directory: Path,
    offload: Offload = in_thread,
    *,
    appended_bytes_min: int = APPENDED_BYTES_MIN,
    history_max: int = HISTORY_MAX,
) -> AsyncIterator[EmbeddedStore]:
    """The store in a directory that it has for itself; a new one if there is none.

    Raise DamagedStore, and DirectoryInUse.
    """
    opened = Journal.open(disk, directory, appended_bytes_min=appended_bytes_min)
    journal, state, records = opened
    store = EmbeddedStore(journal, state, records, offload, history_max)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.sync_forever)
            nursery.start_soon(store.expire_forever)
            yield store
            nursery.cancel_scope.cancel()
    finally:
        journal.close()


def _written(operations: Sequence[Operation]) -> Work[list[Any]]:
    written = []
    for start in range(0, len(operations), WRITTEN_AT_ONCE):
        written += written_of(operations[start : start + WRITTEN_AT_ONCE])
        yield
    return written


class EmbeddedStore:
    """See `store.Store` for what it promises."""

    def __init__(
        self,
        journal: Journal,
        state: State,
        records: Sequence[Record],
        offload: Offload,
        history_max: int,
    ) -> None:
        self._journal = journal
        self._state = state
        self._offload = offload
        self._history_max = history_max
        self._history = History(state.revision + 1)
        for record in records:
            self._apply(record)
        self._recorded = 0
        self._durable = 0
        """How many of the records are on the disk, of those since the store was opened."""
        self._durable_revision = state.revision
        self._turn = trio.Lock()
        """Fair, so transactions happen in the order in which they came."""
        self._work = trio.Event()
        self._progress = trio.Event()
        self._failure: SyncFailed | None = None
        now = trio.current_time()
        self._deadlines = {lease: now + held.ttl for lease, held in state.leases.items()}
        self._granted = trio.Event()

    async def get(self, key: str) -> Entry | None:
        entry = self._state.entries.get(key)
        await self._settle(self._recorded)
        return entry

    async def range(self, prefix: str) -> Snapshot:
        snapshot = Snapshot(self._state.revision, self._state.range(prefix))
        await self._settle(self._recorded)
        return snapshot

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> Commit:
        check_keys(operations)
        written = None
        if len(operations) > WRITTEN_AT_ONCE:
            # Before its turn: while many are compared and applied all others wait.
            await trio.lowlevel.checkpoint()
            written = await in_turns(_written(operations))
        async with self._turn:
            succeeded = self._state.holds(compares)
            if succeeded:
                self._state.check_leases(operations)
            if succeeded and self._state.would_change(operations):
                self._record(Transaction(tuple(operations)), written)
            outcome = Commit(succeeded, self._state.revision)
            recorded = self._recorded
        await self._settle(recorded)
        return outcome

    @asynccontextmanager
    async def watch(
        self, prefix: str, from_revision: int
    ) -> AsyncIterator[AsyncGenerator[Changes, None]]:
        if from_revision < 1:
            raise ValueError("a watch begins at a revision, and the first is 1")
        async with aclosing(self._changes(prefix, from_revision)) as changes:
            yield changes

    async def compact(self, revision: int) -> None:
        if revision > self._state.revision:
            raise ValueError(f"revision {revision} is yet to come")
        self._history.compact(revision)
        self._wake_up()
        await trio.lowlevel.checkpoint()

    async def grant_lease(self, ttl: float) -> LeaseId:
        if not 0 < ttl < math.inf:
            raise ValueError("a lease lasts for some time")
        async with self._turn:
            lease = LeaseId(self._state.last_lease + 1)
            self._record(LeaseGranted(lease, ttl))
            self._deadlines[lease] = trio.current_time() + ttl
            self._granted.set()
            recorded = self._recorded
        await self._settle(recorded)
        return lease

    async def keep_alive(self, lease: LeaseId) -> None:
        if lease not in self._deadlines:
            raise LeaseNotFound(lease)
        self._deadlines[lease] = trio.current_time() + self._state.leases[lease].ttl
        await trio.lowlevel.checkpoint()

    async def revoke_lease(self, lease: LeaseId) -> None:
        async with self._turn:
            self._end(lease)
            recorded = self._recorded
        await self._settle(recorded)

    async def sync_forever(self) -> None:
        """Bring to the disk what is recorded, until cancelled. Raise SyncFailed."""
        try:
            while True:
                await self._work.wait()
                self._work = trio.Event()
                recorded, revision = self._recorded, self._state.revision
                await self._offload(partial(self._journal.sync, self._journal.lines))
                self._note_durable(recorded, revision)
                if self._journal.is_rewrite_due:
                    await self._rewrite()
        except SyncFailed as failure:
            self._fail(failure)
            raise

    async def expire_forever(self) -> None:
        """End leases that were not kept alive, until cancelled."""
        while True:
            with trio.move_on_at(min(self._deadlines.values(), default=math.inf)):
                await self._granted.wait()
            self._granted = trio.Event()
            async with self._turn:
                now = trio.current_time()
                for lease in [lease for lease, end in self._deadlines.items() if end <= now]:
                    self._end(lease)

    async def _changes(self, prefix: str, revision: int) -> AsyncGenerator[Changes, None]:
        while True:
            while revision <= self._durable_revision:
                changes = within(self._history.at(revision), prefix)
                revision += 1
                if changes is not None:
                    await trio.lowlevel.checkpoint()
                    yield changes
            await self._wait_for_progress()

    def _record(self, record: Record, written: list[Any] | None = None) -> None:
        # Not async, so nothing can come between deciding, writing and applying.
        self._check()
        try:
            self._journal.append(record, written)
        except SyncFailed as failure:
            self._fail(failure)
            raise
        self._apply(record)
        self._recorded += 1
        self._work.set()

    def _apply(self, record: Record) -> None:
        changes = self._state.apply(record)
        if changes is not None:
            self._history.append(changes)
            # Not one by one, each of which would move all the others.
            if len(self._history) > self._history_max * 1.1:
                self._history.compact(changes.revision - self._history_max + 1)

    def _end(self, lease: LeaseId) -> None:
        if lease not in self._state.leases:
            raise LeaseNotFound(lease)
        self._record(LeaseEnded(lease))
        self._deadlines.pop(lease, None)

    async def _rewrite(self) -> None:
        async with self._turn:
            try:
                await self._offload(partial(self._journal.rewrite, self._state))
            except OSError as error:
                logger.warning("the metadata's file stays as long as it is: %s", error)
                return
            self._note_durable(self._recorded, self._state.revision)

    def _note_durable(self, recorded: int, revision: int) -> None:
        self._durable = recorded
        self._durable_revision = revision
        self._wake_up()

    def _wake_up(self) -> None:
        self._progress.set()
        self._progress = trio.Event()

    async def _settle(self, recorded: int) -> None:
        """Return when so many records are durable. Raise SyncFailed."""
        while self._durable < recorded:
            await self._wait_for_progress()
        await trio.lowlevel.checkpoint()

    async def _wait_for_progress(self) -> None:
        self._check()
        await self._progress.wait()

    def _check(self) -> None:
        if self._failure is not None:
            raise SyncFailed(str(self._failure)) from self._failure

    def _fail(self, failure: SyncFailed) -> None:
        self._failure = failure
        self._wake_up()
