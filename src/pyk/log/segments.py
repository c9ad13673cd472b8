"""The segments of a log, in order: one row of batches over many files.

    base 0 ........ | base 4711 ........ | base 9000 ...   <- active, the only one appended to

What makes a crash at any point harmless:

- A new segment begins where the last one ends. A row that does not meet shows what was lost.
- Segments are removed from the end backwards when truncating, from the start forwards otherwise:
  what a crash leaves is always a row without holes.
- A segment that goes is renamed first (`.deleted`) and removed later: readers may still be in it.
- A compacted one is written beside those that it replaces (`.cleaned`), synced, and renamed
  (`.swap`). From there on it counts, and opening the log completes what a crash interrupted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from pyk.disk import Disk
from pyk.log.checkpoints import PARTITION_METADATA
from pyk.log.config import LogConfig
from pyk.log.epochs import FILE_NAME as EPOCHS
from pyk.log.indexed_batches import OFFSET_SPAN_MAX, Piece
from pyk.log.segment import Segment, file_name
from pyk.types import Buffer
from pyk.wire.batch import BatchHeader
from pyk.wire.compression import CorruptBatch

if TYPE_CHECKING:
    from pyk.turns import Work

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"
LEFT_OVER = (CLEANED, SWAP, DELETED)
"""What names end in that only a crash leaves behind."""
REPLACED = (PARTITION_METADATA, EPOCHS)
"""Small files that are replaced as a whole: a crash may leave their drafts."""
DRAFT = ".tmp"
KEYS = "keys" + CLEANED
"""Where a compaction keeps the keys that do not fit into memory."""
OPENED_MAX = 128
"""So many segments of a log are kept open for readers: each holds a descriptor. Others that are not
flushed yet stay without one."""
FLUSHED_AT_ONCE = 64
"""Segments that one flush makes durable: each has three files, which are open meanwhile. A producer
may fill segments faster than the disk takes them, so there may be thousands."""
SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
REMOVED = (".index", ".timeindex", ".log", ".txnindex")
"""In which order they go: a log without the first two, which a crash may leave, builds them anew,
and one without the last would show what was aborted."""


class CorruptLog(Exception):
    """What was durable is damaged or gone. Nothing was cut away."""


class Synced(Protocol):
    def sync(self) -> None:
        """Raise SyncFailed."""


class Flush(NamedTuple):
    """What is to be synced, by any thread, for everything before `end_offset` to be durable."""

    end_offset: int
    files: list[Synced]
    directory: Path | None
    disk: Disk
    truncations: int
    number: int
    flushed: list[int]
    """The bases of the segments that are durable then."""
    is_complete: bool
    """Whether no other segments are to be flushed."""

    def run(self) -> None:
        """Raise SyncFailed."""
        for file in self.files:
            file.sync()
        if self.directory is not None:
            self.disk.sync_directory(self.directory)


class Segments:
    def __init__(self, disk: Disk, directory: Path, config: LogConfig) -> None:
        self._config = config
        self._roll_ms = config.roll_ms
        self.dropped_bytes = 0
        """What recovery has cut off."""
        self.flushed_end = 0
        """Everything before this offset is durable."""
        self.names: list[str] = []
        """What was in the directory when it was opened."""
        self._disk = disk
        self._directory = directory
        self._bases: list[int] = []
        self._opened: dict[int, Segment] = {}
        self._truncations = self._flushes = 0
        self._is_cut = False
        """Whether a truncation has failed before it was durable."""
        self._under_way: list[Flush] = []
        self._reopened: deque[int] = deque()
        """Bases of full segments that are not flushed, whose files were opened again to be read."""
        self._doomed: dict[str, int | None] = {}
        """Files that were renamed away, and when they may be removed."""
        self._sizes: dict[int, int] = {}
        """Of segments that are not open: the system is asked once, when the log is opened."""
        self._newest: dict[int, int] = {}
        """The largest timestamps of segments that were open: they need not be again to be asked."""
        self._first: dict[int, int] = {}
        """The timestamps of their first batches, of those that were asked."""
        self._swapping: Sequence[int] | None = None
        """What a compacted segment, already renamed, takes the place of."""
        self._is_replacing = False
        """Whether some of those may be gone: nothing is read there before the rest is done."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: Path,
        config: LogConfig,
        recovery_point: int | None = None,
        cleaned_until: int = 0,
        checkpoint: Callable[[int], None] = lambda checked_bytes: None,
        closed_end: int | None = None,
    ) -> Self:
        """The log in a directory, made if it is not there.

        After a clean shutdown `recovery_point` is None and only the last segment is looked into.
        Otherwise everything from it on is checked, and what a crash has torn is dropped. Before
        `cleaned_until` it was compacted: there are gaps that Kafka's compaction leaves. It ended at
        `closed_end` when it was closed, if that is known. Raise
        CorruptLog if anything before the recovery point is damaged, and what `checkpoint` raises,
        which is told now and then of how many bytes more were checked.
        """
        segments = cls(disk, directory, config)
        if not disk.exists(directory):
            disk.make_directory(directory)
            disk.sync_directory(directory.parent)
        try:
            segments._tidy()
            if recovery_point is not None:
                segments._recover(recovery_point, cleaned_until, checkpoint)
            if not segments._bases:
                segments._create(0)
            if recovery_point is None and closed_end is not None:
                segments.active.check_end(closed_end)
            segments.flushed_end = segments.active.next_offset
            # There may be thousands, and whoever asks for the size later has no time for that.
            for base in segments._bases:
                segments.size_of(base)
        except CorruptBatch as damage:
            raise CorruptLog(f"{directory.name}: {damage}") from damage
        return segments

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._roll_ms = config.roll_ms

    @property
    def active(self) -> Segment:
        base = self._bases[-1]
        return self._opened.get(base) or self.at(base)

    @property
    def start_offset(self) -> int:
        """The base of the first segment. Records before the log's own start may still be in it."""
        return self._bases[0]

    @property
    def end_offset(self) -> int:
        return self.active.next_offset

    @property
    def bases(self) -> Sequence[int]:
        return self._bases

    @property
    def size(self) -> int:
        return sum(self.size_of(base) for base in self._bases)

    def size_of(self, base: int) -> int:
        opened = self._opened.get(base)
        if opened is not None:
            return opened.size
        size = self._sizes.get(base)
        if size is None:
            size = self._sizes[base] = self._disk.size(self._path(base, ".log"))
        return size

    def newest_ms(self, base: int) -> int:
        """The largest timestamp of a segment, or else when it was written."""
        newest = self.newest_timestamp(base)
        return newest if newest >= 0 else self._modified_ms(base)

    def newest_timestamp(self, base: int) -> int:
        """The largest timestamp of a segment, or -1."""
        newest = None if base in self._opened else self._newest.get(base)
        return self.at(base).newest.timestamp if newest is None else newest

    def first_timestamp(self, base: int) -> int:
        """That of the first batch of a segment which is full, or -1."""
        first = self._first.get(base)
        if first is None:
            first = self._first[base] = self.at(base).first_timestamp
        return first

    def has_known_age(self, base: int) -> bool:
        """Whether its newest timestamp is known without opening it."""
        return base in self._opened or base in self._newest

    def has_known_start(self, base: int) -> bool:
        """Whether its first timestamp is known without opening it."""
        return base in self._first

    def _modified_ms(self, base: int) -> int:
        return self._disk.modified_ms(self._path(base, ".log"))

    def at(self, base: int) -> Segment:
        """The segment with that base, opened if need be."""
        found = self._opened.get(base)
        if found is not None and not found.has_open_file and base != self._bases[-1]:
            self._note_reopened(base)
        if found is None:
            if self._is_replacing:
                self.complete_swap()
            interval = self.config.index_interval_bytes
            found = Segment.open(self._disk, self._directory, base, interval)
            if base != self._bases[-1]:
                found.meet(self._bases[bisect_right(self._bases, base)])
            if len(self._opened) >= OPENED_MAX:
                self._let_go_of_oldest()
            self._opened[base] = found
            self._sizes.pop(base, None)
            self._newest.pop(base, None)
        return found

    def _let_go_of_oldest(self) -> None:
        """Of half of those that are open, beginning with the ones that have been so for longest:
        each is opened again when somebody reads it."""
        for base, segment in list(islice(self._opened.items(), OPENED_MAX // 2)):
            if not segment.is_dirty and base != self._bases[-1]:
                self._let_go(base, segment)

    def _note_reopened(self, base: int) -> None:
        self._reopened.append(base)
        if len(self._reopened) > OPENED_MAX:
            oldest = self._opened.get(self._reopened.popleft())
            if oldest is not None and oldest is not self._opened.get(self._bases[-1]):
                oldest.close_file()

    def _let_go(self, base: int, segment: Segment) -> None:
        segment.release()
        self._sizes[base] = segment.size
        self._newest[base] = segment.newest.timestamp
        del self._opened[base]

    def has(self, base: int) -> bool:
        """Whether there is a segment with that base."""
        at = bisect_left(self._bases, base)
        return at < len(self._bases) and self._bases[at] == base

    def from_offset(self, offset: int) -> list[int]:
        """The bases of the segment that would hold the offset, and of those after it."""
        return self._bases[self._index_of(offset) :]

    def end_of(self, base: int) -> int:
        """Where the next segment begins, or the log ends."""
        following = bisect_right(self._bases, base)
        return self._bases[following] if following < len(self._bases) else self.end_offset

    def append(self, data: Buffer, header: BatchHeader, now_ms: int) -> bool:
        """Add a batch that is stamped with the next offset. Whether a new segment was begun for
        it. Raise OSError, and nothing is added."""
        if self._is_cut:
            self.truncate(self.end_offset)
        active = self.active
        has_rolled = False
        if self._is_full_for(active, header, now_ms):
            self.roll()
            has_rolled = True
        if header.last_offset - self._bases[-1] > OFFSET_SPAN_MAX:
            self._begin(header.base_offset)
            has_rolled = True
        (self.active if has_rolled else active).append(data, header)
        return has_rolled

    def roll(self) -> None:
        """Begin a new segment where the last one ends, even if the next batch is beyond a gap:
        after a crash, segments that do not meet are a sign of loss."""
        self._begin(self.end_offset)

    def read(self, offset: int, bytes_max: int, end_offset: int | None = None) -> Piece | None:
        """As a segment's read. A slice never spans two segments."""
        if offset >= self._bases[-1]:
            return self.active.read(offset, bytes_max, end_offset)
        if self._is_replacing:
            self.complete_swap()
        for base in self.from_offset(offset):
            piece = self.at(base).read(offset, bytes_max, end_offset)
            if piece is not None:
                return piece
            if end_offset is not None and base >= end_offset:
                break
        return None

    def truncate(self, offset: int) -> None:
        """Forget every batch that reaches `offset` or beyond, durably. Raise OSError: what is gone
        by then must be gone durably before the next append."""
        self._truncations += 1
        self._is_cut = True
        self._first.clear()
        self.complete_swap()
        while len(self._bases) > 1 and self._bases[-1] >= offset:
            self._remove(self._bases[-1])
        if self._bases[-1] > offset:
            self._begin_again(offset)
        else:
            self.active.truncate(offset)
            self.active.flush()
        self._disk.sync_directory(self._directory)
        self._is_cut = False
        self.flushed_end = min(self.flushed_end, self.end_offset)

    def clear(self, offset: int) -> None:
        """Forget everything and begin again at `offset`, durably."""
        self._truncations += 1
        self.complete_swap()
        self._begin_again(offset)
        self._disk.sync_directory(self._directory)

    def drop_before(self, offset: int) -> list[int]:
        """Remove the segments all of whose records are before `offset`: never the active one."""
        gone = []
        if len(self._bases) > 1 and self._bases[1] <= offset:
            self.complete_swap()
        while len(self._bases) > 1 and self._bases[1] <= offset:
            base = self._bases[0]
            self._remove(base)
            gone.append(base)
        return gone

    def write_indexes(self) -> Work[None]:
        """Write what has gathered for the indexes that the next flush is about, one segment after
        the other: `begin_flush` has little to do then. Raise OSError."""
        done, count = set[int](), FLUSHED_AT_ONCE + 1
        pending = self._next_to_flush()
        # Those that begin meanwhile have their turn too, as long as they become fewer.
        while 0 < len(pending) < count:
            count = len(pending)
            for base, segment in pending:
                # Others may have removed it since the last turn.
                if self._opened.get(base) is segment:
                    segment.write_indexes()
                done.add(base)
                yield
            pending = [(base, each) for base, each in self._next_to_flush() if base not in done]

    def _next_to_flush(self) -> list[tuple[int, Segment]]:
        """The first segments that have anything to be flushed, in order."""
        dirty = [(base, segment) for base, segment in self._opened.items() if segment.is_dirty]
        dirty.sort(key=itemgetter(0))
        return dirty[:FLUSHED_AT_ONCE]

    def begin_flush(self, also: Iterable[Synced] = ()) -> Flush:
        """What to sync, other new files of the log included, so that all that was appended is
        durable, or of many segments the first ones. When that is done, `end_flush` is told. Raise
        OSError, and it is as if this had not been called."""
        portion, end_offset = self._next_to_flush(), self.end_offset
        # What is handed out is not handed out again, so nothing may fail once that has begun: all
        # files are open by then, also those of segments that were closed before they were flushed.
        for _, segment in portion:
            segment.write_indexes()
        # One that is under way has files that are not durable yet.
        files = [*also, *(file for flush in self._under_way for file in flush.files)]
        has_new_names = bool(files)
        # What is durable may have an index that was built anew, so it is not only about the end.
        for _, segment in portion:
            unsynced = segment.write()
            files += unsynced.files
            has_new_names |= unsynced.has_new_names
        left = self._next_to_flush()
        if left:
            end_offset = left[0][0]
        directory = self._directory if has_new_names else None
        files = list(dict.fromkeys(files))
        self._flushes += 1
        flush = Flush(
            end_offset,
            files,
            directory,
            self._disk,
            self._truncations,
            self._flushes,
            [base for base, _ in portion],
            not left,
        )
        self._under_way.append(flush)
        return flush

    def end_flush(self, flush: Flush) -> None:
        # It has the files of those that were under way when it began, which may have failed.
        self._under_way = [other for other in self._under_way if other.number > flush.number]
        if flush.truncations == self._truncations:
            self.flushed_end = max(self.flushed_end, flush.end_offset)
        if not flush.is_complete:
            # There are many, and those need not be open any more.
            for base in flush.flushed:
                segment = self._opened.get(base)
                if segment is not None and not segment.is_dirty and base != self._bases[-1]:
                    self._let_go(base, segment)

    def flush(self) -> int:
        """Make everything appended so far durable. The offset before which it is."""
        is_complete = False
        while not is_complete:
            flush = self.begin_flush()
            flush.run()
            self.end_flush(flush)
            is_complete = flush.is_complete
        return self.flushed_end

    def release(self) -> None:
        """Hold no descriptors for what was flushed until it is used again."""
        for base, segment in list(self._opened.items()):
            if segment.is_dirty:
                continue
            if base != self._bases[-1]:
                self._let_go(base, segment)
            else:
                segment.release()

    def due_for_removal(self, now_ms: int) -> list[str]:
        """Files that were renamed away, the configured time after this was first called for them.
        Readers still in them keep the files until they are done."""
        for name, due in self._doomed.items():
            if due is None:
                self._doomed[name] = now_ms + self.config.file_delete_delay_ms
        return [name for name, due in self._doomed.items() if due is not None and now_ms >= due]

    def forget_removed(self, names: Iterable[str]) -> None:
        for name in names:
            self._doomed.pop(name, None)

    def begin_swap(self, replaced: Sequence[int]) -> None:
        """The compacted segment, which is written and synced under the first of these bases, is to
        take the place of all of them. When the directory was synced, `end_swap` does the rest.
        Raise OSError."""
        self.complete_swap()
        self._rename_all(replaced[0], CLEANED, SWAP)
        self._swapping = replaced

    def end_swap(self, replaced: Sequence[int]) -> None:
        """Put it there, unless that was done meanwhile. The directory is to be synced again. Raise
        OSError: if some of it was done by then, the log is not read there until the rest is done,
        too."""
        if self._swapping is replaced:
            self._replace(replaced)

    def complete_swap(self) -> None:
        """Finish here and now what was begun, or what a crash or a disk that failed has
        interrupted. Raise OSError."""
        replaced = self._swapping
        if replaced is not None:
            if not self._is_replacing:
                self._disk.sync_directory(self._directory)
            self._replace(replaced)
            self._disk.sync_directory(self._directory)

    def swap_in(self, replaced: Sequence[int]) -> None:
        """All of it, here and now."""
        self.begin_swap(replaced)
        self.complete_swap()

    def _tidy(self) -> None:
        """Undo or complete what a crash has interrupted."""
        names = self.names = self._disk.names(self._directory)
        self._bases = [int(name[:20]) for name in names if is_segment_file(name, ".log")]
        kept = {name[:20] for name in names if is_segment_file(name, ".log")}
        if not any(_is_left_over(name) or _is_stray(name, kept) for name in names):
            return
        for name in names:
            if _is_left_over(name) and not name.endswith(SWAP):
                self._disk.remove(self._directory / name)
        for name in names:
            if is_segment_file(name, ".log" + SWAP):
                self._resume_swap(int(name[:20]))
        kept = {file_name(base, "") for base in self._bases}
        for name in self._disk.names(self._directory):
            if _is_stray(name, kept) or (_is_left_over(name) and name.endswith(SWAP)):
                self._disk.remove(self._directory / name)

    def _resume_swap(self, base: int) -> None:
        end = base
        swapped = Segment(self._disk, self._directory, base, draft=SWAP, must_exist=True)
        for placed in swapped.batches():
            end = placed.header.next_offset
        replaced = [old for old in self._bases if base <= old < end]
        if base not in self._bases:
            self._bases = sorted([*self._bases, base])
            replaced = [base, *replaced]
        self._swapping = replaced
        self.complete_swap()

    def _replace(self, replaced: Sequence[int]) -> None:
        self._is_replacing = True
        # The old ones go from the back, and the log comes last: until then it can be done again.
        base, *others = replaced
        for other in reversed(others):
            if self.has(other):
                self._remove(other)
        self._forget(base)
        self._rename_all(base, SWAP, "")
        self._swapping, self._is_replacing = None, False

    def _rename_all(self, base: int, old: str, new: str) -> None:
        for suffix in reversed(SUFFIXES):
            path = self._path(base, suffix + old)
            if self._disk.exists(path):
                self._disk.rename(path, self._path(base, suffix + new))

    def _is_full_for(self, active: Segment, header: BatchHeader, now_ms: int) -> bool:
        if not active.size:
            return False
        config, began = self._config, active.first_timestamp
        if active.size + header.size > config.segment_bytes:
            return True
        newest = max(active.newest.timestamp, header.max_timestamp)
        waited = (newest if newest >= 0 else now_ms) - began
        is_old = began >= 0 and waited > self._roll_ms
        return is_old or not active.has_index_room(config.segment_index_bytes)

    def _recover(
        self, recovery_point: int, cleaned_until: int, checkpoint: Callable[[int], None]
    ) -> None:
        """Check every segment that may hold what was not durable. Each is whole, and meets the
        next, or what follows goes: nobody was told that it is durable."""
        suspect = self.from_offset(recovery_point) if self._bases else []
        for number, base in enumerate(suspect):
            segment, dropped = Segment.recover(
                self._disk,
                self._directory,
                base,
                self.config.index_interval_bytes,
                durable_end=recovery_point,
                checkpoint=checkpoint,
            )
            segment.flush()
            # There may be thousands, with three files each.
            segment.release()
            self._opened[base] = segment
            self.dropped_bytes += dropped
            later = suspect[number + 1 :]
            is_gap = later and later[0] > cleaned_until and not self._meets(segment, later[0])
            if dropped or is_gap:
                for lost in reversed(later):
                    self.dropped_bytes += self.size_of(lost)
                    self._remove(lost)
                self._disk.sync_directory(self._directory)
                break
        if self._bases and self.end_offset < recovery_point:
            raise CorruptBatch(f"the log ends at {self.end_offset}, before {recovery_point}")

    def _meets(self, segment: Segment, following: int) -> bool:
        # Only a gap that the indexes could not express begins a segment beyond the last one's end.
        beyond = following - segment.base_offset > OFFSET_SPAN_MAX
        return segment.next_offset == following or beyond

    def _index_of(self, offset: int) -> int:
        """Which of the segments would hold it."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def _begin(self, base: int) -> None:
        active = self.active
        active.seal()
        if len(self._opened) > OPENED_MAX:
            # Whoever flushes it opens it again. Linux tells of an error of the disk until then when
            # the file is synced, also by another descriptor, unless it has let go of the inode
            # meanwhile, which takes that all of it was written and memory is scarce.
            active.close_file()
        if active.base_offset != base:
            self._create(base)

    def _begin_again(self, offset: int) -> None:
        # From the start, so that a crash leaves an end that is not before what was durable.
        for base in list(self._bases):
            self._remove(base)
        self._create(offset)
        self.flushed_end = offset

    def _create(self, base: int) -> None:
        interval = self.config.index_interval_bytes
        self._opened[base] = Segment(self._disk, self._directory, base, interval)
        self._bases.append(base)

    def _remove(self, base: int) -> None:
        """Rename its files. Raise OSError, and the segment is there as before."""
        renamed: list[Path] = []
        try:
            for suffix in REMOVED:
                path = self._path(base, suffix)
                if self._disk.exists(path):
                    self._disk.rename(path, path.with_name(path.name + DELETED))
                    renamed.append(path)
        except OSError:
            for path in reversed(renamed):
                with suppress(OSError):
                    self._disk.rename(path.with_name(path.name + DELETED), path)
            raise
        self._doomed.update(dict.fromkeys(path.name + DELETED for path in renamed))
        self._forget(base)
        self._bases.remove(base)

    def _forget(self, base: int) -> None:
        for known in (self._opened, self._sizes, self._newest, self._first):
            known.pop(base, None)

    def _path(self, base: int, suffix: str) -> Path:
        return self._directory / file_name(base, suffix)


def is_segment_file(name: str, suffix: str) -> bool:
    """Whether it is named as the file of a segment: what others have put there is not ours."""
    stem = name[:20]
    return name[20:] == suffix and stem.isascii() and stem.isdigit()


def _is_left_over(name: str) -> bool:
    """Whether a crash has left it behind."""
    if name.endswith(DRAFT):
        return name.removesuffix(DRAFT) in REPLACED
    if name == KEYS:
        return True
    return any(is_segment_file(name, suffix + end) for suffix in SUFFIXES for end in LEFT_OVER)


def _is_stray(name: str, stems: set[str]) -> bool:
    """Whether it is an index without its segment."""
    return name[:20] not in stems and any(is_segment_file(name, suffix) for suffix in SUFFIXES[1:])
