"""The log of one partition: its batches, and what they say of producers, transactions and epochs.

    append  -> segments -> producers, aborted transactions
    read    <- segments, up to where the reader may see

What is derived from the batches is always what replaying them would give. Everything here is
synchronous: appends go to the page cache, and what waits for the disk (`begin_flush`, compaction)
is handed out to be run elsewhere. Who leads, and what is committed, others say.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from msgspec import Struct

from pyk.disk import Disk
from pyk.errors import ErrorCode, KafkaError, storage_error
from pyk.log.batch_survival import LastOfProducer
from pyk.log.checkpoints import LOG_START_OFFSETS
from pyk.log.compaction import Plan, Result, Rewritten, plan, remove_draft, rewrite
from pyk.log.config import INT64_MAX, LogConfig
from pyk.log.epochs import LeaderEpochs
from pyk.log.guards import UNGUARDED, Guard
from pyk.log.index import TimedOffset
from pyk.log.indexed_batches import Piece
from pyk.log.markers import read_marker
from pyk.log.movable_directory import MovableDirectory
from pyk.log.producers import Origin, Producer, Producers
from pyk.log.retention import first_kept_offset
from pyk.log.segment import Writeback
from pyk.log.segments import CorruptLog, Flush, Segments
from pyk.log.snapshots import Snapshot
from pyk.log.state import LogState, Verification
from pyk.log.timestamps import (
    TimestampSearch,
    begin,
    first_record,
    newest_record,
    run_through,
)
from pyk.log.transactions import AbortedTransaction
from pyk.types import Buffer
from pyk.wire.batch import BatchHeader, check_crc, iterate_batches, peek_header, stamp_offset

if TYPE_CHECKING:
    from pyk.turns import Work


class Appended(Struct, frozen=True):
    """Where a batch is in the log."""

    base_offset: int
    last_offset: int
    timestamp: int
    """The largest of its records'."""
    is_repeated: bool = False
    """It had been there already, and was not added again."""


class Compaction(NamedTuple):
    """What it takes to compact a log in a thread, beside everything else."""

    disk: Disk
    directory: Path
    plan: Plan
    aborted: list[AbortedTransaction]
    producers: list[Producer]

    def run(self, checkpoint: Callable[[], None] = lambda: None) -> Result:
        """Raise CorruptBatch if the log is damaged, OSError if the disk fails or is full, or if
        segments were removed meanwhile, and what `checkpoint` raises: nothing is left then."""
        producers = {
            p.producer_id: LastOfProducer(p.last_data_offset if p.batches else None, p.epoch)
            for p in self.producers
        }
        return rewrite(
            self.disk,
            self.directory,
            self.plan,
            self.aborted,
            producers,
            checkpoint=checkpoint,
        )


class Sweep(NamedTuple):
    """Files that nobody needs any more, to be removed in any thread: that takes long where they
    are large."""

    disk: Disk
    directory: Path
    names: list[str]
    snapshots: list[Snapshot]
    """What is to be written before more segments can go."""

    def run(self) -> list[str]:
        """Those that are gone. Raise OSError if not all are."""
        for snapshot in self.snapshots:
            snapshot.sync()
        gone = []
        for name in self.names:
            with suppress(FileNotFoundError):
                self.disk.remove(self.directory / name)
            gone.append(name)
        return gone


class Retirement(NamedTuple):
    """Segments that were removed, which must not come back after a crash. For any thread."""

    disk: Disk
    directory: Path
    segments: int
    """How many."""
    number: int
    snapshot: Snapshot | Verification | None = None
    """What is to be durable before more can go."""
    base: int = -1
    """Where the log would begin then."""

    def run(self) -> None:
        """Raise SyncFailed."""
        if self.snapshot is not None:
            self.snapshot.sync()
        self.disk.sync_directory(self.directory)


class Swap(NamedTuple):
    """A compacted segment that takes the place of others. For any thread, before and after."""

    disk: Disk
    directory: Path
    bases: Sequence[int]
    """Theirs."""

    def run(self) -> None:
        """Raise SyncFailed."""
        self.disk.sync_directory(self.directory)


class Log:
    """Made by `open`."""

    def __init__(
        self,
        disk: MovableDirectory,
        directory: Path,
        segments: Segments,
        state: LogState,
        start_offset: int,
        high_watermark: int,
    ) -> None:
        self.directory = directory
        self.start_offset = start_offset
        """Nobody is shown records before it, even if they are still there."""
        self.high_watermark = high_watermark
        self.cleaned_until = start_offset
        """Where the last compaction ended."""
        self._disk = disk
        self._segments = segments
        self._state = state
        self._unflushed_since: int | None = None
        """When the first of what is not durable was appended."""
        self._unbegun_since: int | None = None
        """The same of what no flush has begun with."""
        self._compaction: Compaction | None = None
        """The one that is under way."""
        self._retirements = 0
        self._without_snapshot = set[int]()
        """Bases of segments where no snapshot could be written: those before stay for now."""
        self._durable_base: int | None = None
        """Where the segments may begin after a crash, while their removal is not durable."""
        self.is_dropped = False
        """Whether the partition was deleted or moved aside. Who is still at work may end it."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: Path,
        config: LogConfig,
        *,
        recovery_point: int | None = None,
        start_offset: int = 0,
        high_watermark: int = 0,
        cleaned_until: int = 0,
        closed_end: int | None = None,
        checkpoint: Callable[[int], None] = lambda checked_bytes: None,
    ) -> Self:
        """The log in a directory, made if it is not there.

        After a clean shutdown `recovery_point` is None, and the log ended at `closed_end`, if that
        is known. Otherwise everything from there on is
        checked, and what was torn is dropped. `checkpoint` is told now and then of how many bytes
        more were checked, and may raise to stop. Raise CorruptLog if what was durable is damaged.
        """
        disk = MovableDirectory(disk, directory)
        segments = Segments.open(
            disk, directory, config, recovery_point, cleaned_until, checkpoint, closed_end
        )
        if segments.end_offset < start_offset:
            # What was deleted on request may not all have been durable: then a crash came, and it
            # was known to be committed, or all of the log was about to go. Or else it is damage.
            if recovery_point is None or (recovery_point and start_offset > high_watermark):
                raise CorruptLog(
                    f"{directory.name} ends at {segments.end_offset}, and {LOG_START_OFFSETS} says"
                    f" that it starts at {start_offset}"
                )
            segments.clear(start_offset)
        start_offset = max(start_offset, segments.start_offset)
        high_watermark = min(max(high_watermark, start_offset), segments.end_offset)
        state = LogState.open(
            disk,
            directory,
            segments,
            start_offset=start_offset,
            high_watermark=high_watermark,
            suspect=[] if recovery_point is None else segments.from_offset(recovery_point),
            checkpoint=checkpoint,
        )
        log = cls(disk, directory, segments, state, start_offset, high_watermark)
        if start_offset < cleaned_until <= log.end_offset:
            log.cleaned_until = cleaned_until
        if recovery_point is not None:
            log.flush()
            disk.sync_directory(directory)
        return log

    def drop(self, moved_to: Path) -> None:
        """The directory was renamed, and the log is not in use any more. What is still done for it
        happens there."""
        self._disk.moved_to(moved_to)
        self.is_dropped = True

    @property
    def epochs(self) -> LeaderEpochs:
        return self._state.epochs

    @property
    def producers(self) -> Producers:
        return self._state.producers

    @property
    def config(self) -> LogConfig:
        return self._segments.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._segments.config = config

    @property
    def end_offset(self) -> int:
        return self._segments.active.next_offset

    @property
    def flushed_end(self) -> int:
        """Everything before it is durable."""
        return self._segments.flushed_end

    def untold_failure(self) -> OSError | None:
        """Why there is no snapshot of producers, once: it costs time at the next start, retention
        may have to wait for it, and no client hears of it."""
        failure, self._state.snapshot_failure = self._state.snapshot_failure, None
        return failure

    @property
    def dropped_bytes(self) -> int:
        """What recovery has cut off."""
        return self._segments.dropped_bytes

    @property
    def size(self) -> int:
        return self._segments.size

    @property
    def starts_inside_a_segment(self) -> bool:
        """Whether there are still records before the start, or would be after a crash."""
        base = self._segments.start_offset
        if self._durable_base is not None:
            base = min(base, self._durable_base)
        return self.start_offset > base

    def segment_offset(self, offset: int) -> int:
        """Where the segment begins that would hold the offset."""
        return min(self._segments.from_offset(offset)[0], offset)

    @property
    def last_stable_offset(self) -> int:
        """Before it every transaction is decided, and the decision committed."""
        unstable = self.producers.first_unstable_offset
        if unstable is None:
            return self.high_watermark
        return max(min(unstable, self.high_watermark), self.start_offset)

    def append(
        self,
        data: bytearray | memoryview,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
        guard: Guard | None = UNGUARDED,
    ) -> Appended:
        """Give the batch, which was found valid, its place at the end. It is stamped in place.

        Raise KafkaError, and nothing is added: for what its producer may not do, or with
        KAFKA_STORAGE_ERROR for what the disk could not.
        """
        stamp_offset(data, 0, self._segments.active.next_offset, leader_epoch)
        header = peek_header(data)
        if header.producer_id >= 0:
            repeated = self._check(data, header, origin, transaction_version, guard)
            if repeated is not None:
                return repeated
        self._add(data, header, now_ms)
        return Appended(header.base_offset, header.last_offset, header.max_timestamp)

    def append_replicated(self, data: Buffer, now_ms: int) -> None:
        """Add batches as the leader has them. Raise CorruptBatch, or KafkaError if they do not go
        on from here, or for what the disk could not: those before stay."""
        view = memoryview(data)
        for position, header in iterate_batches(view, torn_tail_allowed=True):
            check_crc(view, position, header)
            if header.base_offset < self.end_offset:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{self.directory.name} ends at {self.end_offset}: no batch can be added"
                    f" at {header.base_offset}",
                )
            self._add(view[position : position + header.size], header, now_ms)

    def read(self, offset: int, bytes_max: int, end_offset: int) -> Piece | None:
        """Whole batches from the one that holds `offset`, none of which reaches `end_offset`.
        Raise KafkaError with OFFSET_OUT_OF_RANGE."""
        if not self.start_offset <= offset <= self.end_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.directory.name} has {self.start_offset} to {self.end_offset}, and not"
                f" {offset}",
            )
        last = self._segments.active.read_last(offset, end_offset)
        return last or self._segments.read(offset, bytes_max, end_offset)

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records between the two."""
        return self._state.aborted(start_offset, end_offset)

    def find_timestamp(self, timestamp: int) -> TimedOffset | None:
        """The first record at or after that time, by offset."""
        return run_through(first_record(self._segments, timestamp, lambda: self.start_offset))

    def find_newest(self) -> TimedOffset | None:
        """The first record of the largest timestamp."""
        return run_through(newest_record(self._segments, lambda: self.start_offset))

    def begin_find_timestamp(self, timestamp: int) -> TimedOffset | TimestampSearch | None:
        """As `find_timestamp`, or if it takes long, what is to be run in any thread. Then
        `end_find_timestamp` is told."""
        return begin(first_record(self._segments, timestamp, lambda: self.start_offset))

    def begin_find_newest(self) -> TimedOffset | TimestampSearch | None:
        """As `find_newest`, in the same way."""
        return begin(newest_record(self._segments, lambda: self.start_offset))

    def end_find_timestamp(self, search: TimestampSearch) -> TimedOffset | TimestampSearch | None:
        """What was found, or what is to be run next."""
        return search.end()

    def advance_high_watermark(self, offset: int) -> None:
        """Everything before `offset` is committed."""
        if offset > self.high_watermark:
            self.high_watermark = min(offset, self.end_offset)
        self._state.producers.on_high_watermark(self.high_watermark)

    def advance_start(self, offset: int) -> None:
        """Show no records before `offset`. To survive a crash it must be in a checkpoint."""
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.directory.name} is committed up to {self.high_watermark}: it cannot start"
                f" at {offset}",
            )
        if offset > self.start_offset:
            self.start_offset = offset
            self._state.start_at(offset)

    def begin_retirement(self, now_ms: int, at_most: int | None = None) -> Retirement | None:
        """Remove the segments that retention does not ask for, or some of them: none while they are
        being compacted, and none before the snapshot where the log begins then is known to be
        durable. Where that cannot be written, fewer go, and `untold_failure` says so. Removing the
        files is for `begin_sweep`. `end_retirement` is told when what this gives is done: until
        then the checkpoint says where the log starts. There may be more to retire then."""
        before = kept = self._segments.start_offset
        if self._compaction is None:
            kept = first_kept_offset(
                self._segments, self.start_offset, self.high_watermark, now_ms, at_most
            )
        if kept == self.end_offset > self._segments.bases[-1]:
            # All of it is to go, the active segment too: the log stays where it ends.
            self.roll()
        bases = self._segments.bases
        for base in reversed(bases[1 : bisect_right(bases, kept)]):
            if base in self._without_snapshot:
                continue
            snapshot = self._state.insecure_snapshot(base)
            kept = base
            if snapshot is None:
                break
            if snapshot.is_in_use:
                return None
            disk = self._disk.for_threads()
            return Retirement(disk, self.directory, 0, self._retirements, snapshot, base)
        else:
            # They are tried again the next time.
            self._without_snapshot.clear()
            return None
        gone: list[int] = []
        try:
            gone = self._segments.drop_before(kept)
        finally:
            # Also if the disk has failed and only some went.
            start = self._segments.start_offset
            if start > before:
                if self._durable_base is None:
                    self._durable_base = before
                self.start_offset = max(self.start_offset, start)
                self._state.start_at(self.start_offset)
        if not gone:
            return None
        self._state.keep_snapshots()
        self._retirements += 1
        return Retirement(self._disk.for_threads(), self.directory, len(gone), self._retirements)

    def end_retirement(self, retirement: Retirement) -> None:
        snapshot, base = retirement.snapshot, retirement.base
        if snapshot is not None and not self._state.end_verification(base, snapshot):
            self._without_snapshot.add(base)
        if retirement.number == self._retirements:
            self._durable_base = None

    def retire(self, now_ms: int, at_most: int | None = None) -> int:
        """Both, here and now. How many segments went."""
        segments = 0
        while not segments and (retirement := self.begin_retirement(now_ms, at_most)) is not None:
            retirement.run()
            self.end_retirement(retirement)
            segments = retirement.segments
        return segments

    def begin_sweep(self, now_ms: int) -> Sweep | None:
        """Files that were renamed away long enough ago. Then `end_sweep` is told."""
        if self.is_dropped:
            return None
        names, snapshots = self._segments.due_for_removal(now_ms), self._state.pending_snapshots
        if not names and not snapshots:
            return None
        return Sweep(self._disk.for_threads(), self.directory, names, snapshots)

    def end_sweep(self, gone: Iterable[str]) -> None:
        self._segments.forget_removed(gone)

    def sweep(self, now_ms: int) -> None:
        """Both, here and now."""
        due = self.begin_sweep(now_ms)
        if due is not None:
            self.end_sweep(due.run())

    def truncate(self, offset: int) -> None:
        """Forget every batch that reaches `offset` or beyond, durably. If that is before what is
        durable now, a checkpoint must have said so before."""
        if offset >= self.end_offset:
            return
        self._compaction = None
        self._segments.complete_swap()
        self._state.aborted_index(self._segments.from_offset(offset)[0])
        try:
            self._segments.truncate(offset)
        finally:
            # Whatever a disk that failed has left, this is in step with it.
            end = self.end_offset
            self.start_offset = min(self.start_offset, end)
            self.high_watermark = min(self.high_watermark, end)
            self.cleaned_until = min(self.cleaned_until, end)
            self._state.truncate(self.high_watermark)

    def clear(self, offset: int) -> None:
        """Forget everything and begin again at `offset`, durably."""
        self._compaction = None
        self._state.remove_snapshots()
        self._segments.clear(offset)
        self._state.clear()
        self.start_offset = self.high_watermark = self.cleaned_until = offset

    def begin_compaction(self, now_ms: int) -> Compaction | None:
        """As `prepare_compaction`, here and now."""
        work = self.prepare_compaction(now_ms)
        while True:
            try:
                next(work)
            except StopIteration as end:
                compaction: Compaction | None = end.value
                return compaction

    def prepare_compaction(self, now_ms: int) -> Work[Compaction | None]:
        """What to compact, if that is due: to be run anywhere. Then `end_compaction` is told. Raise
        OSError or CorruptBatch."""
        if not self.config.is_compacted or self._compaction is not None or self.is_dropped:
            return None
        # What was interrupted takes the place of more segments than a new plan would join.
        self._segments.complete_swap()
        planned = plan(
            self._segments,
            cleaned_until=self.cleaned_until,
            log_start_offset=self.start_offset,
            # What is compacted is durable, and what is not rewritten must be so already.
            last_stable_offset=min(self.last_stable_offset, self.flushed_end),
            now_ms=now_ms,
        )
        if planned is None:
            return None
        # There may be many producers: what each says is for the thread to ask.
        disk, producers = self._disk.for_threads(), list(self.producers)
        aborted: list[AbortedTransaction] = []
        compaction = Compaction(disk, self.directory, planned, aborted, producers)
        self._compaction = compaction
        is_begun = False
        try:
            # There may be tens of thousands of these, too.
            for part in self._state.aborted_parts(planned.start_offset, planned.end_offset):
                aborted += part
                yield
                if not self.is_worth(compaction):
                    return None
            is_begun = True
        finally:
            if not is_begun and self._compaction is compaction:
                self._compaction = None
        return compaction

    def is_worth(self, compaction: Compaction) -> bool:
        """Whether its result can still be used: the log may have been truncated or dropped."""
        return self._compaction is compaction and not self.is_dropped

    def begin_swap(self, compaction: Compaction, rewritten: Rewritten) -> Swap | None:
        """Put one segment that was written in its place, or remove it. What is to be run, then
        `end_swap`, and again what is to be run. Raise OSError."""
        bases = rewritten.bases
        if not self.is_worth(compaction):
            remove_draft(compaction.disk, self.directory, bases[0])
            return None
        self._state.on_compaction(bases)
        self._segments.begin_swap(bases)
        return Swap(compaction.disk, self.directory, bases)

    def end_swap(self, compaction: Compaction, swap: Swap) -> None:
        """Raise OSError: if some of it was done by then, the log is not read there until the rest
        is done, too."""
        if self.is_worth(compaction):
            self._segments.end_swap(swap.bases)
            self._state.keep_snapshots()

    def swap_in(self, compaction: Compaction, rewritten: Rewritten) -> None:
        """All of it, here and now."""
        swap = self.begin_swap(compaction, rewritten)
        if swap is not None:
            swap.run()
            self.end_swap(compaction, swap)
            swap.run()

    def end_compaction(self, compaction: Compaction, result: Result | None) -> None:
        """Put what is left of the result in its place. Without one, because the compaction failed,
        all stays as it is. Raise OSError."""
        try:
            for each in result.rewritten if result is not None else ():
                self.swap_in(compaction, each)
            if result is not None and self.is_worth(compaction):
                self.cleaned_until = result.end_offset
        finally:
            if self._compaction is compaction:
                self._compaction = None

    def roll(self) -> None:
        """Begin a new segment, if the last one has anything. Raise KafkaError with
        KAFKA_STORAGE_ERROR."""
        try:
            self._segments.roll()
        except OSError as error:
            raise storage_error(self.directory.name, error) from error
        self._state.take_snapshot(self._segments.active.base_offset)

    def is_flush_due(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms ask for it."""
        config = self._segments.config
        if config.flush_messages == INT64_MAX and config.flush_ms == INT64_MAX:
            return False
        # While a flush is under way nothing of it is durable: a batch that is repeated waits, too.
        if self.end_offset - self.flushed_end >= config.flush_messages:
            return True
        since = self._unflushed_since
        return since is not None and now_ms - since >= config.flush_ms

    @property
    def rolled_end(self) -> int:
        """Where the segments end that are full. As in Kafka they are flushed when the next begins:
        what is not durable is not compacted, and is checked again after a crash."""
        return self._segments.bases[-1]

    @property
    def is_writeback_due(self) -> bool:
        return self._segments.active.is_writeback_due

    @property
    def has_unflushed_segments(self) -> bool:
        """Whether segments that are full are not durable yet."""
        return self._segments.flushed_end < self._segments.bases[-1]

    def begin_writeback(self) -> Writeback:
        """What the disk may begin with, so that later flushes are short and no append waits for
        it. To be run in any thread."""
        return self._segments.active.begin_writeback()

    def write_indexes(self) -> Work[None]:
        """Before a flush of many segments. Raise OSError."""
        for _ in self._segments.write_indexes():
            yield
            if self.is_dropped:
                return

    def begin_flush(self) -> Flush:
        """What to sync, in any thread. Then `end_flush` is told. It is about the first of many
        segments that are to be flushed."""
        flush = self._segments.begin_flush(self._state.unsynced)
        self._state.unsynced = []
        if flush.is_complete:
            self._unbegun_since = None
        return flush

    def end_flush(self, flush: Flush) -> None:
        self._segments.end_flush(flush)
        self._unflushed_since = self._unbegun_since

    def flush(self) -> None:
        """Make everything durable that was appended so far."""
        is_complete = False
        while not is_complete:
            flush = self.begin_flush()
            flush.run()
            self.end_flush(flush)
            is_complete = flush.is_complete
        self.epochs.flush()

    def close(self) -> None:
        """Make everything durable, and opening it again quick. It can still be used."""
        self._state.take_snapshot(self.end_offset)
        self._state.keep_snapshots()
        self.flush()
        self._segments.release()

    def release(self) -> None:
        """Hold no descriptors for what was flushed until it is used again."""
        self._segments.release()

    def _check(
        self,
        data: Buffer,
        header: BatchHeader,
        origin: Origin,
        transaction_version: int,
        guard: Guard | None,
    ) -> Appended | None:
        if header.is_control:
            marker = read_marker(data, header)
            if marker is not None:
                self.producers.check_marker(
                    header, marker.coordinator_epoch, origin, transaction_version
                )
            return None
        repeated = self.producers.check(header, origin, transaction_version, guard)
        if repeated is None:
            return None
        return Appended(repeated.base_offset, repeated.last_offset, repeated.timestamp, True)

    def _add(self, data: Buffer, header: BatchHeader, now_ms: int) -> None:
        try:
            if header.is_control and header.producer_id >= 0:
                self._state.begin_control(data, header)
            self._state.begin_epoch(header)
            if self._segments.append(data, header, now_ms):
                self._state.take_snapshot(self._segments.active.base_offset)
        except OSError as error:
            raise storage_error(self.directory.name, error) from error
        if self._unflushed_since is None:
            self._unflushed_since = now_ms
        if self._unbegun_since is None:
            self._unbegun_since = now_ms
        if header.producer_id >= 0:
            self._state.note(data, header)
