"""A segment: one file of a log, the batches from its base offset on, and their indexes.

It knows nothing of leaders and producers. Which transactions were aborted it is told. Appends go to
the page cache. What is wrong with the file is `CorruptBatch` with its position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from pyk.disk import Disk, File
from pyk.log.batches import Placed, in_order
from pyk.log.index import DamagedIndex
from pyk.log.indexed_batches import NO_TIMESTAMP, IndexedBatches
from pyk.log.indexed_batches import Piece as Piece
from pyk.log.transactions import AbortedTransaction, TransactionIndex
from pyk.types import Buffer
from pyk.wire.batch import BatchHeader
from pyk.wire.compression import CorruptBatch

INDEX_INTERVAL_BYTES = 4096

WRITEBACK_BYTES = 8 * 1024 * 1024
"""How much may gather in the page cache before the disk is to begin with it. Left alone, the system
waits for a share of all memory, and then makes the writer wait."""


class Unsynced(NamedTuple):
    files: list[File]
    has_new_names: bool
    """Whether the directory is to be synced, too."""


class Writeback(NamedTuple):
    """Bytes that the disk may begin with, while more are appended: for any thread to run."""

    file: File
    position: int
    size: int

    def run(self) -> None:
        self.file.start_writeback(self.position, self.size)


class Segment(IndexedBatches):
    def __init__(
        self,
        disk: Disk,
        directory: Path,
        base_offset: int,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
        draft: str = "",
        *,
        must_exist: bool = False,
    ) -> None:
        """A new one, or an old one that is not looked into yet. As long as it is a draft, its
        files have names with that at the end."""
        path = directory / file_name(base_offset, "")
        super().__init__(
            disk, path, base_offset, index_interval_bytes, draft, must_exist=must_exist
        )
        self.without_producers_until = base_offset
        """Before this offset recovery has seen no batch of a producer with an id."""
        self._is_named = must_exist
        self._aborted = TransactionIndex(disk, Path(f"{path}.txnindex{draft}"), base_offset)
        # When a draft takes the place of another segment, so do its files: none may be left over.
        self._aborted.is_optional = not draft
        self._aborted_is_loaded = not self._is_named
        self._written_back = self.size
        self._is_unclean = False
        """Whether the file may go on behind the last batch."""
        self._first_timestamp: int | None = None

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: Path,
        base_offset: int,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
    ) -> Self:
        """A segment that was closed cleanly. Its indexes are trusted if they can be right.

        Only the batches after the last index entry are looked at, unless that leads nowhere. Raise
        CorruptBatch if they are not whole, in which case `recover` is what the caller needs.
        """
        segment = cls(disk, directory, base_offset, index_interval_bytes, must_exist=True)
        try:
            segment._offsets.load(segment.size)
            segment._times.load()
            segment._settle()
        except (DamagedIndex, CorruptBatch):
            # Whether it is the log that is damaged shows without an index.
            segment._rebuild()
        return segment

    @classmethod
    def recover(
        cls,
        disk: Disk,
        directory: Path,
        base_offset: int,
        index_interval_bytes: int = INDEX_INTERVAL_BYTES,
        durable_end: int = 0,
        checkpoint: Callable[[int], None] = lambda checked_bytes: None,
    ) -> tuple[Self, int]:
        """A segment after a crash: every whole batch is kept, a torn tail dropped, the indexes
        built anew. The segment, and the bytes that were dropped. `checkpoint` is told of how many
        bytes more were checked, and may raise to stop: nothing was changed then.

        What was durable before `durable_end` cannot be torn: if any of it is bad or missing,
        nothing is dropped and CorruptBatch raised.
        """
        segment = cls(disk, directory, base_offset, index_interval_bytes, must_exist=True)
        segment._forget_indexes()
        end, broken, has_producers = 0, None, False
        batches = segment.stretch_at(0).checked_batches(checkpoint)
        try:
            for placed in in_order(batches, base_offset, segment.end_max):
                header = placed.header
                segment._index(placed)
                end = placed.position + header.size
                has_producers |= header.producer_id >= 0
        except CorruptBatch as found:
            broken = found
        segment._old_bytes = 0
        dropped = segment.size - end
        if broken is not None and segment.next_offset < durable_end:
            raise CorruptBatch(
                f"{segment.path.name} is damaged at {end}, offset {segment.next_offset}, which was"
                f" durable:"
                f" {broken}"
            )
        if dropped:
            segment._cut(end)
        if not has_producers:
            segment.without_producers_until = segment.next_offset
        return segment, dropped

    @property
    def first_timestamp(self) -> int:
        """Of the first batch: time-based rolling counts from it."""
        if self._first_timestamp is None:
            if not self.size:
                return NO_TIMESTAMP
            self._first_timestamp = next(self.batches()).header.max_timestamp
        return self._first_timestamp

    def check_end(self, end_offset: int) -> None:
        """The log was closed when it ended there. Raise CorruptBatch if it ends elsewhere because
        its last batch is damaged."""
        if not self.size or self.next_offset == end_offset:
            return
        batches = self._batches_of(self._offsets.last) if len(self._offsets) else None
        last, expected = None, self.base_offset if batches is None else None
        is_behind_gap = False
        for last in self.batches() if batches is None else batches:
            is_behind_gap = expected is not None and last.header.base_offset > expected
            expected = last.header.next_offset
        if last is not None:
            self._check_old(last)
            if is_behind_gap and last.header.base_offset >= end_offset:
                raise CorruptBatch(
                    f"{self.path.name} has {last.header.base_offset}, and ended at {end_offset}"
                )

    def meet(self, following: int) -> None:
        """The next segment begins there. What its own batches say is not believed if it cannot be
        so: a reader then hears of damage, and not that there is nothing."""
        if not self.size or self.next_offset == following:
            return
        if self.next_offset < following:
            # Kafka's compaction leaves gaps here, too.
            try:
                last = self.locate(self.next_offset - 1)
                if last is not None:
                    self._check_old(last)
                    return
            except CorruptBatch:
                pass
        self.next_offset = following

    @property
    def has_open_file(self) -> bool:
        return self._handle is not None

    def close_file(self) -> None:
        """Hold no descriptor of the log's file until it is used again, flushed or not."""
        self._handle = None

    def release(self) -> None:
        """Hold no descriptors until the segment is used again. It must have been flushed."""
        assert not self.is_dirty
        self._handle = None
        self._offsets.release()
        self._times.release()
        self._aborted.release()

    @property
    def aborted(self) -> TransactionIndex:
        """The aborted transactions whose markers are in the segment. Raise DamagedIndex."""
        if not self._aborted_is_loaded:
            self._aborted.load()
            self._aborted_is_loaded = True
        return self._aborted

    def load_aborted(self) -> Iterator[None]:
        """Read their index, and let others have turns meanwhile. A damaged one is for `aborted` to
        tell."""
        entries: list[AbortedTransaction] = []
        with suppress(DamagedIndex):
            for part in self._aborted.read_parts() if not self._aborted_is_loaded else ():
                if entries:
                    yield
                    if self._aborted_is_loaded:
                        return  # By somebody else, who may have changed it since.
                entries += part
            if not self._aborted_is_loaded:
                self._aborted.note_loaded(entries)
                self._aborted_is_loaded = True

    def forget_aborted(self) -> None:
        """Begin their index again, which whoever calls this fills."""
        self._aborted.clear()
        self._aborted_is_loaded = self.is_dirty = True

    def replace_aborted(self, transactions: list[AbortedTransaction]) -> None:
        """Make these the content of their index, at once and durably."""
        self._aborted.replace(transactions)
        self._aborted_is_loaded = True

    def note_aborted(self, transaction: AbortedTransaction) -> None:
        self.aborted.append(transaction)
        self.is_dirty = True

    def append(self, data: Buffer, header: BatchHeader) -> None:
        """Add a batch, stamped with its offset. Raise OSError, and nothing is added."""
        assert header.base_offset >= self.next_offset, (header.base_offset, self.next_offset)
        position = self.size
        self._clean_end()
        try:
            self._file.append(data)
        except OSError:
            # The file may have some of it, if that could not be taken back.
            self._is_unclean = self.is_dirty = True
            raise
        self.is_dirty = True
        self.size += len(data)
        if not position:
            self._first_timestamp = header.max_timestamp
        self._last = placed = Placed(position, header)
        self._index(placed)

    def truncate(self, offset: int) -> None:
        """Forget every batch that reaches `offset` or beyond."""
        found = self.locate(offset)
        if found is None:
            return
        self._cut(found.position)
        self._offsets.truncate(found.header.base_offset)
        self._times.truncate(found.header.base_offset)
        self.aborted.truncate(found.header.base_offset)
        try:
            self._settle()
        except DamagedIndex:
            self._rebuild()
        if not self.size:
            self._first_timestamp = None

    @property
    def is_writeback_due(self) -> bool:
        return self.size - self._written_back >= WRITEBACK_BYTES

    def begin_writeback(self) -> Writeback:
        """What the disk has not begun with."""
        position, self._written_back = self._written_back, self.size
        return Writeback(self._file, position, self.size - position)

    def write_indexes(self) -> None:
        """Write what has gathered for the indexes, and open all files that are to be synced. Raise
        OSError: it can be done again. If not, `write` does not fail as long as nothing is closed
        or appended."""
        if self.is_dirty:
            self._clean_end()
            self._handle = self._file
            for index in (self._offsets, self._times, self._aborted):
                index.write()

    def write(self) -> Unsynced:
        """Write what has gathered for the indexes. What is then to be synced. Raise OSError, and
        it is as if this had not been called."""
        if not self.is_dirty:
            return Unsynced([], False)
        indexes = (self._offsets, self._times, self._aborted)
        files = [self._file, *filter(None, [index.write() for index in indexes])]
        has_new_names = not self._is_named or any(index.has_new_name for index in indexes)
        self.is_dirty, self._is_named = False, True
        for index in indexes:
            index.has_new_name = index.is_unsynced = False
        return Unsynced(files, has_new_names)

    def flush(self) -> None:
        """Make all of it durable, the names of its files included."""
        files, has_new_names = self.write()
        for file in files:
            file.sync()
        if has_new_names:
            self._disk.sync_directory(self.path.parent)

    def seal(self) -> None:
        """No more appends: the time index gets its last entry. Raise OSError."""
        self._clean_end()
        if self.newest.timestamp != NO_TIMESTAMP:
            self._times.append(*self.newest)
            self.is_dirty = True

    def _clean_end(self) -> None:
        if self._is_unclean:
            self._file.truncate(self.size)
            self._is_unclean = False

    def _cut(self, size: int) -> None:
        self._last, self._passed, self._checked = None, None, range(0)
        self._old_bytes = min(self._old_bytes, size)
        self.without_producers_until = self.base_offset
        self._file.truncate(size)
        self.size, self._is_unclean = size, False
        self._written_back = min(self._written_back, size)
        self.is_dirty = True


def file_name(base_offset: int, suffix: str) -> str:
    """Kafka's: twenty digits, so that names sort as offsets do."""
    return f"{base_offset:020}{suffix}"
