"""The log of one partition as its directory has it, for readers beside the broker.

This is the one place that knows which segments there are and where their bytes come from: segments
that are kept elsewhere are to be found and opened here, too.

The broker goes on meanwhile. What it is about to remove has another name already (`.deleted`), what
compaction is writing has one still (`.cleaned`), and neither counts. What compaction has written
counts as soon as it is called `.swap`, and then those that it replaces do not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pyk.disk import RealDisk
from pyk.log.checkpoints import DamagedCheckpoint, read_topic_id
from pyk.log.files import Damage, read_snapshot, read_transaction_index
from pyk.log.producers import Producers
from pyk.log.segment import file_name
from pyk.log.stored_segment import FileId, StoredSegment
from pyk.log.transactions import AbortedTransaction
from pyk.types import TopicPartition, Uuid

LOG: Final = ".log"
SWAPPED: Final = ".log.swap"
SNAPSHOT: Final = ".snapshot"
_ATTEMPTS: Final = 20


class LogDamaged(Exception):
    """What is in a file cannot be what was written. The message names it, and the position."""


class SegmentGone(Exception):
    """Nothing is left of some offsets: the broker has deleted them meanwhile."""


class Known(NamedTuple):
    """What the checkpoints of a data directory say of a partition."""

    start_offset: int = 0
    """Nobody is shown records before it."""
    recovery_point: int = 0
    """Everything before it is written, indexes included."""


NOTHING_KNOWN: Final = Known()


class StoredLog:
    def __init__(
        self,
        directory: Path,
        partition: TopicPartition,
        known: Known = NOTHING_KNOWN,
        *,
        may_be_absent: bool = False,
    ) -> None:
        """One that may be absent is empty where there is no directory: nobody has used it yet.
        Raise FileNotFoundError, SegmentGone."""
        self.directory = directory
        self.partition = partition
        self.known = known
        self._may_be_absent = may_be_absent
        self.bases: Sequence[int] = ()
        """Where the segments begin, in order."""
        self._names: dict[int, str] = {}
        self._snapshots: list[int] = []
        self.refresh()

    def refresh(self) -> None:
        """See which segments there are now. Raise FileNotFoundError if there is no log, and
        SegmentGone."""
        for _ in range(_ATTEMPTS):
            try:
                names = _listed(self.directory)
            except FileNotFoundError:
                if not self._may_be_absent:
                    raise
                names = set()
            try:
                self._take(names)
            except FileNotFoundError:
                continue  # Compaction has given it its last name meanwhile.
            return
        raise SegmentGone(f"segments of {self.directory} go faster than they can be looked at")

    def _take(self, names: set[str]) -> None:
        self._names = {base: file_name(base, LOG) for base in _numbers(names, LOG)}
        self._snapshots = sorted(_numbers(names, SNAPSHOT))
        for base in _numbers(names, SWAPPED):
            self._names[base] = file_name(base, SWAPPED)
            end = StoredSegment(self._path(base), base).tail().end_offset
            for replaced in [other for other in self._names if base < other < end]:
                del self._names[replaced]
        self.bases = sorted(self._names)

    def topic_id(self) -> Uuid | None:
        """Whose partition it is now, if the directory says so. Raise LogDamaged."""
        try:
            return read_topic_id(RealDisk(), self.directory)
        except DamagedCheckpoint as wrong:
            raise LogDamaged(f"{self.directory}: {wrong}") from None

    def end_of(self, base: int) -> int | None:
        """Where the next segment begins; None for the last one."""
        following = bisect_right(self.bases, base)
        return self.bases[following] if following < len(self.bases) else None

    def base_of(self, offset: int) -> int | None:
        """The base of the segment that would hold the offset."""
        found = bisect_right(self.bases, offset)
        return self.bases[found - 1] if found else None

    def size_of(self, base: int) -> tuple[int, FileId]:
        """The bytes of a segment, and the file that has them. Raise FileNotFoundError."""
        found = self._path(base).stat()
        return found.st_size, FileId.of(found)

    def open(self, base: int) -> StoredSegment:
        """Raise FileNotFoundError, if it went since the last look."""
        return StoredSegment(self._path(base), base, may_be_torn=base == self.bases[-1])

    def open_at(self, offset: int) -> StoredSegment:
        """The segment that holds the offset, wherever it is by now. Raise SegmentGone."""
        for _ in range(_ATTEMPTS):
            base = self.base_of(offset)
            if base is None:
                break
            try:
                return self.open(base)
            except FileNotFoundError:
                self.refresh()
        raise SegmentGone(f"{self.directory} has nothing left of offset {offset}")

    def aborted(self, base: int) -> list[AbortedTransaction]:
        """The transactions whose abortion is in a segment, as far as that is written. Raise
        LogDamaged."""
        path = self._path(base)
        path = path.with_name(path.name.replace(LOG, ".txnindex", 1))
        found: list[AbortedTransaction] = []
        for entry in read_transaction_index(path):
            if isinstance(entry, Damage):
                raise LogDamaged(f"{path} is damaged at {entry.position}: {entry.reason}")
            found.append(entry)
        return found

    def producers_at(self, offset_max: int) -> tuple[Producers, int]:
        """What was known of producers at an offset, which is not after the given one: that of a
        snapshot, or else the start."""
        for offset in reversed(self._snapshots[: bisect_right(self._snapshots, offset_max)]):
            if offset < self.bases[0]:
                break
            try:
                found = read_snapshot(self.directory / file_name(offset, SNAPSHOT))
            except FileNotFoundError:
                continue
            if not isinstance(found, Damage):
                return found, offset
        return Producers(), self.bases[0]

    def _path(self, base: int) -> Path:
        return self.directory / self._names[base]


def _listed(directory: Path) -> set[str]:
    """The names in a directory. What is renamed while it is read may be missed or seen twice, so
    it is read until two times are the same."""
    names: set[str] = set()
    for _ in range(_ATTEMPTS):
        previous, names = names, {each.name for each in directory.iterdir()}
        if names == previous:
            break
    return names


def _numbers(names: Iterable[str], suffix: str) -> list[int]:
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return [int(stem) for stem in stems if stem.isdecimal()]
