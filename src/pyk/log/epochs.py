"""Where each leader's reign begins in a partition's log: the leader epoch cache, as Kafka keeps it.

- Epochs and start offsets both increase strictly from entry to entry.
- An epoch is on disk before its first batch may be appended, so that the file lacks no epoch that
  the log has. It may have more: after opening, truncate it to where the log starts and ends.
- Truncate the log first, then the epochs. From the end that is on disk at once: an entry that came
  back after a crash could stand in the middle of what was appended since. From the start it can
  wait for `flush`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple, Self

from pyk.disk import Disk
from pyk.log.checkpoints import (
    INT32_MAX,
    INT64_MAX,
    DamagedCheckpoint,
    parse_number,
    read_entries,
    write_entries,
)

FILE_NAME: Final = "leader-epoch-checkpoint"

UNDEFINED_EPOCH: Final = -1
UNDEFINED_EPOCH_OFFSET: Final = -1

_by_epoch = attrgetter("epoch")
_by_start_offset = attrgetter("start_offset")


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


UNDEFINED: Final = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)


class LeaderEpochs:
    """Without entries at first, whatever the file says: `open` is what reads it."""

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._path = directory / FILE_NAME
        self._entries: list[EpochStart] = []
        self._is_written = True

    @classmethod
    def open(cls, disk: Disk, directory: Path) -> Self:
        """What the file says.

        Raise DamagedCheckpoint, also if there is none, after which the caller makes an empty one
        and assigns it what the batches of the log say.
        """
        epochs = cls(disk, directory)
        epochs._entries = _read(disk, epochs._path)
        if not epochs._entries and not disk.exists(epochs._path):
            raise DamagedCheckpoint(f"{FILE_NAME} is missing")
        return epochs

    @property
    def entries(self) -> list[EpochStart]:
        return list(self._entries)

    @property
    def latest(self) -> EpochStart | None:
        return self._entries[-1] if self._entries else None

    def is_known(self, epoch: int) -> bool:
        """Whether it is the latest one, and on disk."""
        return self._is_written and bool(self._entries) and self._entries[-1].epoch == epoch

    def assign(self, epoch: int, start_offset: int) -> None:
        """The epoch has batches from this offset on. It is on disk when this returns.

        What is known already changes nothing. Entries that contradict go: this one is newer.
        """
        self.assign_all([EpochStart(epoch, start_offset)])

    def assign_all(self, entries: Iterable[EpochStart]) -> None:
        """As `assign` for each in order, with one write."""
        assigned = self._entries
        for entry in entries:
            assigned = _with(assigned, entry)
        if assigned is not self._entries or not self._is_written:
            self._write(assigned)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch up to the one asked for, and where the next one starts.

        An epoch before the first one known ends where that starts, because what it had is no longer
        in the log. UNDEFINED is the answer for an epoch that is undefined itself, or in the future.
        """
        if epoch == UNDEFINED_EPOCH or not self._entries or epoch > self._entries[-1].epoch:
            return UNDEFINED
        if epoch == self._entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        following = bisect_right(self._entries, epoch, key=_by_epoch)
        found = self._entries[following - 1].epoch if following else epoch
        return EpochEnd(found, self._entries[following].start_offset)

    def epoch_for(self, offset: int) -> int | None:
        """The epoch of the batch at this offset, or None if it is before every epoch."""
        following = bisect_right(self._entries, offset, key=_by_start_offset)
        return self._entries[following - 1].epoch if following else None

    def truncate_from_end(self, offset: int) -> None:
        """Forget the epochs that start at `offset` or later, durably."""
        kept = bisect_left(self._entries, offset, key=_by_start_offset)
        if kept < len(self._entries):
            # They are not true any more even if that cannot be written.
            self._entries = self._entries[:kept]
            self._is_written = False
            self.flush()

    def truncate_from_start(self, offset: int) -> None:
        """The log now starts at `offset`: so does the epoch that is there, and none is before."""
        following = bisect_right(self._entries, offset, key=_by_start_offset)
        if not following:
            return
        first = EpochStart(self._entries[following - 1].epoch, offset)
        if first != self._entries[0]:
            self._entries = [first, *self._entries[following:]]
            self._is_written = False

    def flush(self) -> None:
        """Write what was truncated."""
        if not self._is_written:
            self._write(self._entries)

    def _write(self, entries: list[EpochStart]) -> None:
        write_entries(self._disk, self._path, (f"{e.epoch} {e.start_offset}" for e in entries))
        self._entries = entries
        self._is_written = True


def _with(entries: list[EpochStart], new: EpochStart) -> list[EpochStart]:
    assert new.epoch >= 0, new
    assert new.start_offset >= 0, new
    latest = entries[-1] if entries else None
    if latest is not None and new.epoch == latest.epoch and new.start_offset >= latest.start_offset:
        return entries
    kept = min(
        bisect_left(entries, new.epoch, key=_by_epoch),
        bisect_left(entries, new.start_offset, key=_by_start_offset),
    )
    return [*entries[:kept], new]


def _read(disk: Disk, path: Path) -> list[EpochStart]:
    entries = [
        EpochStart(parse_number(path, epoch, INT32_MAX), parse_number(path, offset, INT64_MAX))
        for epoch, offset in read_entries(disk, path, columns=2)
    ]
    for before, after in pairwise(entries):
        if before.epoch >= after.epoch or before.start_offset >= after.start_offset:
            raise DamagedCheckpoint(f"{path.name} goes from {before} to {after}")
    return entries
