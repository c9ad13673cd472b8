"""What the batches of a log say, beside their records: of producers, transactions and epochs.

It is told of every batch and always knows what replaying all of them would give. A snapshot at the
start of each segment says where replaying may begin.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self

from pyk.disk import Disk
from pyk.log.batches import Stretch, in_order
from pyk.log.checkpoints import DamagedCheckpoint
from pyk.log.epochs import EpochStart, LeaderEpochs
from pyk.log.index import DamagedIndex
from pyk.log.markers import read_marker
from pyk.log.movable_directory import MovableDirectory
from pyk.log.producers import DamagedSnapshot, Producer, Producers
from pyk.log.replay import note, replay
from pyk.log.segment import Segment, file_name
from pyk.log.segments import Segments
from pyk.log.snapshots import SUFFIX, Snapshot, Snapshots, decode_snapshot
from pyk.log.transactions import Aborted, AbortedTransaction, TransactionIndex
from pyk.types import Buffer
from pyk.wire.batch import BatchHeader, ControlType
from pyk.wire.compression import CorruptBatch

_ABORTED: Final = ".txnindex"


class Verification:
    """Whether the snapshot of an offset is there and reads back: then it is synced. Otherwise what
    is to be in it is found out from the batches. For any thread."""

    is_in_use = False

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        offset: int,
        earlier: list[int],
        segments: list[tuple[int, int]],
        version: int,
    ) -> None:
        self.offset = offset
        self.version = version
        """Of the log: what is found out is of no use after a truncation or a compaction."""
        self.is_durable = False
        self.known: list[Producer] | None = None
        """What is to be in it, if it has to be written."""
        self.failure: OSError | CorruptBatch | None = None
        self._disk = disk
        self._directory = directory
        self._earlier = earlier
        """The offsets of those from which replaying may begin."""
        self._segments = segments
        """The bases and sizes of the segments before it, in order."""

    def sync(self) -> None:
        """Raise SyncFailed."""
        self.is_durable = self._sync_found()
        if not self.is_durable:
            try:
                self.known = self._replay()
            except (OSError, CorruptBatch) as failed:
                self.failure = failed

    def _sync_found(self) -> bool:
        try:
            path = self._directory / file_name(self.offset, SUFFIX)
            file = self._disk.open(path, must_exist=True)
            Producers().restore(decode_snapshot(file.read(0, file.size)))
        except (OSError, DamagedSnapshot):
            return False
        file.sync()
        return True

    def _replay(self) -> list[Producer]:
        producers = Producers()
        start = self._restore(producers)
        ends = [*(base for base, _ in self._segments[1:]), self.offset]
        for (base, size), end in zip(self._segments, ends, strict=True):
            if end <= start:
                continue
            name = file_name(base, ".log")
            file = self._disk.open(self._directory / name, must_exist=True)
            stretch = Stretch(file, name, 0, size)
            for placed in in_order(stretch.batches(), base, end):
                if placed.header.producer_id >= 0 and placed.header.base_offset >= start:
                    note(producers, placed.header, partial(stretch.load, placed))
        return list(producers)

    def _restore(self, producers: Producers) -> int:
        for offset in reversed(self._earlier):
            try:
                path = self._directory / file_name(offset, SUFFIX)
                producers.restore(decode_snapshot(self._disk.read(path)))
            except (OSError, DamagedSnapshot):
                continue
            return offset
        return 0


class LogState:
    """Made by `open`."""

    def __init__(self, disk: MovableDirectory, directory: Path, segments: Segments) -> None:
        self.producers = Producers()
        self.epochs = LeaderEpochs(disk, directory)
        self._disk = disk
        self._directory = directory
        self._segments = segments
        self._snapshots = Snapshots(disk, directory, segments.names)
        self._with_aborted = _with_aborted(segments.names)
        """The bases, in order, of the segments that may have aborted transactions. Most have none,
        and are not opened to see that."""
        self.snapshot_failure: OSError | None = None
        """Why the last snapshot was not written, until somebody tells it."""
        self.unsynced: list[Snapshot] = []
        """Files that are to be synced with the log."""
        self._version = 0
        """Of what the segments are: truncation and compaction change it."""

    @classmethod
    def open(
        cls,
        disk: MovableDirectory,
        directory: Path,
        segments: Segments,
        *,
        start_offset: int,
        high_watermark: int,
        suspect: list[int],
        checkpoint: Callable[[int], None] = lambda read_bytes: None,
    ) -> Self:
        """What the log in a directory says. `suspect` are the bases of segments that recovery has
        looked into: what was aborted in them is indexed anew. `checkpoint` may raise to stop."""
        state = cls(disk, directory, segments)
        state._load_epochs(start_offset)
        state._load_producers(high_watermark, suspect, checkpoint)
        return state

    def begin_epoch(self, header: BatchHeader) -> None:
        """A batch is about to be appended. Its epoch is on disk before it, so that the file lacks
        none that the log has. Raise OSError."""
        epoch = header.partition_leader_epoch
        if not self.epochs.is_known(epoch) and epoch >= 0:
            self.epochs.assign(epoch, header.base_offset)

    def begin_control(self, data: Buffer, header: BatchHeader) -> None:
        """A control batch is about to be appended. What `note` needs of it, and of files, is read
        before: once it is in the log, nothing may fail. Raise CorruptBatch or OSError."""
        read_marker(data, header)
        self.aborted_index(self._segments.bases[-1])

    def note(self, data: Buffer, header: BatchHeader) -> None:
        """A batch of a producer with an id is in the log."""
        aborted = note(self.producers, header, lambda: data)
        if aborted is not None:
            self._note_aborted(self._segments.active, aborted)

    def on_compaction(self, bases: Sequence[int]) -> None:
        """These segments are about to become one, with the aborted transactions of all."""
        self._version += 1
        if not set(bases).isdisjoint(self._with_aborted):
            self._add_with_aborted(bases[0])

    def take_snapshot(self, offset: int) -> None:
        """What is known now is what the batches before `offset` say."""
        if offset in self._snapshots.offsets:
            return
        self._take_snapshot(offset, list(self.producers))

    def insecure_snapshot(self, offset: int) -> Snapshot | Verification | None:
        """What is to be done in a thread for the snapshot at the base of a segment to be durable,
        before those before it go. None if it is so already. `end_verification` is told of it. Raise
        OSError."""
        if self._snapshots.is_durable(offset):
            return None
        if offset == self._segments.end_offset:
            # The roll may have found no descriptor for it. What it says is known still.
            self.take_snapshot(offset)
        pending = self._snapshots.pending_at(offset)
        if pending is not None:
            return pending
        self._segments.complete_swap()
        start, bases = self._segments.start_offset, self._segments.bases
        return Verification(
            self._disk.for_threads(),
            self._directory,
            offset,
            [earlier for earlier in self._snapshots.offsets if start <= earlier < offset],
            [(base, self._segments.size_of(base)) for base in bases[: bisect_left(bases, offset)]],
            self._version,
        )

    def end_verification(self, offset: int, done: Snapshot | Verification) -> bool:
        """Whether there is hope for a snapshot at an offset: otherwise the segments before it stay,
        and `snapshot_failure` says why."""
        failure: Exception | None = done.failure
        if isinstance(done, Verification) and done.version == self._version:
            if done.is_durable:
                self._snapshots.note_durable(offset)
            elif done.known is not None:
                failure = self._take_snapshot(offset, done.known)
        if failure is not None:
            self.snapshot_failure = OSError(
                f"the segments before {offset} stay, since what they say of producers could not be"
                f" written elsewhere: {failure}"
            )
        return failure is None

    def _take_snapshot(self, offset: int, known: list[Producer]) -> OSError | None:
        try:
            self.unsynced.append(self._snapshots.take(offset, known))
        except OSError as failed:
            # Without one, replaying begins earlier, and retention makes it before segments go.
            self.snapshot_failure = failed
            return failed
        return None

    @property
    def pending_snapshots(self) -> list[Snapshot]:
        """Those that are not durable yet."""
        return self._snapshots.pending

    def keep_snapshots(self) -> None:
        """Remove those that no segment needs any more."""
        self._snapshots.keep(self._segments.bases)

    def start_at(self, offset: int) -> None:
        """Records before `offset` are not to be known any more."""
        self.epochs.truncate_from_start(offset)

    def truncate(self, high_watermark: int) -> None:
        """The log was truncated, and ends where its segments do."""
        self._version += 1
        end = self._segments.end_offset
        if self._snapshots.remove_after(end):
            # One that came back could be taken for a later one of the same name.
            self._disk.sync_directory(self._directory)
        self._load_producers(high_watermark, [])
        self.epochs.truncate_from_end(end)

    def remove_snapshots(self) -> None:
        """All of the log is about to go, and to sync its directory."""
        self._version += 1
        self._snapshots.remove_after(-1)

    def clear(self) -> None:
        """All of the log is gone."""
        self.epochs.truncate_from_end(0)
        self.producers.reset()

    def aborted(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records between the two."""
        return [each for part in self.aborted_parts(start_offset, end_offset) for each in part]

    def aborted_parts(
        self, start_offset: int, end_offset: int
    ) -> Iterator[list[AbortedTransaction]]:
        """The same, segment by segment, and nothing now and then while one is read that has many:
        others may have turns between."""
        first = bisect_left(self._with_aborted, self._segments.from_offset(start_offset)[0])
        for base in self._with_aborted[first:]:
            if self._segments.has(base):
                for _ in self._segments.at(base).load_aborted():
                    yield []
            if self._segments.has(base):
                in_segment = self._collect(base, start_offset, end_offset)
                yield in_segment.transactions
                if in_segment.is_complete:
                    break

    def aborted_index(self, base: int) -> TransactionIndex:
        """That of a segment, built anew if it is damaged."""
        segment = self._segments.at(base)
        try:
            return segment.aborted
        except DamagedIndex:
            return self._rebuilt_aborted_index(segment)

    def _collect(self, base: int, start_offset: int, end_offset: int) -> Aborted:
        """What a segment's index knows, which has no checksum: what is used has been compared with
        the log, and the index built anew if it is wrong."""
        index = self.aborted_index(base)
        found = index.collect(start_offset, end_offset)
        segment = self._segments.at(base)
        unproven = index.unproven(found.transactions)
        if all(self._is_true(segment, each) for each in unproven):
            index.note_proven(unproven)
            return found
        return self._rebuilt_aborted_index(segment).collect(start_offset, end_offset)

    def _is_true(self, segment: Segment, aborted: AbortedTransaction) -> bool:
        """Whether a transaction begins and is aborted there. What compaction has removed of it
        nobody can say."""
        producer_id, first_offset, last_offset, _ = aborted
        end = segment.locate(last_offset)
        if end is None or not end.header.is_control or end.header.producer_id != producer_id:
            return False
        if end.header.base_offset != last_offset:
            return False
        marker = read_marker(segment.load(end), end.header)
        if marker is not None and marker.outcome is not ControlType.ABORT:
            return False
        bases = self._segments.from_offset(first_offset)
        begin = self._segments.at(bases[0]).locate(first_offset)
        if begin is None or begin.header.base_offset > first_offset:
            return True
        header = begin.header
        return (header.base_offset, header.producer_id) == (first_offset, producer_id) and (
            header.is_transactional and not header.is_control
        )

    def _note_aborted(self, segment: Segment, aborted: AbortedTransaction) -> None:
        segment.note_aborted(aborted)
        self._add_with_aborted(segment.base_offset)

    def _may_have_aborted(self, base: int) -> bool:
        at = bisect_left(self._with_aborted, base)
        return self._with_aborted[at : at + 1] == [base]

    def _add_with_aborted(self, base: int) -> None:
        if not self._may_have_aborted(base):
            insort(self._with_aborted, base)

    def _load_epochs(self, start_offset: int) -> None:
        try:
            self.epochs = LeaderEpochs.open(self._disk, self._directory)
        except DamagedCheckpoint:
            self.epochs.assign_all(self._epochs_of_batches())
        # Of a log that has lost all its records it is still known whose they were.
        self.epochs.truncate_from_end(max(self._segments.end_offset, start_offset + 1))
        self.epochs.truncate_from_start(start_offset)

    def _epochs_of_batches(self) -> Iterator[EpochStart]:
        epoch = -1
        for base in self._segments.bases:
            for _, header in self._segments.at(base).batches():
                if header.partition_leader_epoch > epoch:
                    epoch = header.partition_leader_epoch
                    yield EpochStart(epoch, header.base_offset)

    def _load_producers(
        self,
        high_watermark: int,
        suspect: list[int],
        checkpoint: Callable[[int], None] = lambda read_bytes: None,
    ) -> None:
        """The last snapshot that is not beyond the high watermark is where to start: it has
        nothing of transactions that have ended, and their ends are not final above it."""
        segments, end = self._segments, self._segments.end_offset
        self._snapshots.remove_after(end)
        limit = min([high_watermark, *suspect[:1]])
        offset = self._snapshots.load(self.producers, limit, segments.start_offset)
        is_suspect = set(suspect).__contains__
        for base in segments.from_offset(offset):
            segment = segments.at(base)
            if is_suspect(base) and self._may_have_aborted(base):
                segment.forget_aborted()
            for aborted in replay(self.producers, segment, offset, end, checkpoint):
                if is_suspect(base):
                    self._note_aborted(segment, aborted)
            if is_suspect(base):
                # Each before the next, so that few files are open.
                segment.flush()
                segment.release()
        self.producers.on_high_watermark(high_watermark)

    def _rebuilt_aborted_index(self, segment: Segment) -> TransactionIndex:
        producers = Producers()
        base = segment.base_offset
        offset = self._snapshots.load(producers, base, self._segments.start_offset)
        for before in self._segments.from_offset(offset):
            if before < base:
                for _ in replay(producers, self._segments.at(before), offset, base):
                    pass
        segment.replace_aborted(list(replay(producers, segment, base, segment.next_offset)))
        return segment.aborted


def _with_aborted(names: Iterable[str]) -> list[int]:
    """Whose index of aborted transactions is there, or was to be when a crash came."""
    stems = {name[: name.index(_ABORTED)] for name in names if _ABORTED in name}
    return sorted(int(stem) for stem in stems if stem.isdigit())
