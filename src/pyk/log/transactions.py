"""The aborted transactions whose markers are in a segment: the `.txnindex` file beside it.

Readers of committed records are told these, so that they skip what was aborted. The index is
derived from the log: one that is damaged is built anew by replaying the segment. Most segments have
no aborted transaction, and no file.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from pyk.log.disk import Disk, File
from pyk.log.index import DamagedIndex

_VERSION: Final = 0
_ENTRY = struct.Struct(">hqqqq")

_by_last_offset = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """Of its marker."""
    last_stable_offset: int
    """Where the log was decided up to, once this transaction was: the earliest transaction that was
    still open, or else the end."""


class Aborted(NamedTuple):
    """What an index knows of a range of offsets."""

    transactions: list[AbortedTransaction]
    is_complete: bool
    """Whether the next segments can add nothing."""


class TransactionIndex:
    """Without entries at first, whatever the file says: `load` is what reads it."""

    def __init__(self, disk: Disk, path: Path, base_offset: int) -> None:
        self._disk = disk
        self._path = path
        self._base_offset = base_offset
        self._entries: list[AbortedTransaction] = []
        self._file: File | None = None
        self._is_named = True
        """Whether the directory durably has the file's name, if there is a file."""

    def load(self) -> None:
        """Read the file, if there is one. Raise DamagedIndex, after which the caller clears it and
        replays the segment."""
        data = self._disk.read(self._path) if self._disk.exists(self._path) else b""
        if len(data) % _ENTRY.size:
            raise DamagedIndex(f"{self._path.name} has {len(data)} bytes")
        entries: list[AbortedTransaction] = []
        previous_offset = self._base_offset - 1
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*fields)
            if version != _VERSION or entry.last_offset <= previous_offset or not _fits(entry):
                raise DamagedIndex(f"{self._path.name} has version {version} of {entry}")
            previous_offset = entry.last_offset
            entries.append(entry)
        self._entries = entries

    @property
    def entries(self) -> list[AbortedTransaction]:
        return list(self._entries)

    def append(self, aborted: AbortedTransaction) -> None:
        """Add the transaction, whose marker is after all the others'."""
        assert _fits(aborted), aborted
        last_offset = self._entries[-1].last_offset if self._entries else self._base_offset - 1
        assert aborted.last_offset > last_offset, (aborted, last_offset)
        self._opened().append(_ENTRY.pack(_VERSION, *aborted))
        self._entries.append(aborted)

    def collect(self, fetch_offset: int, upper_bound_offset: int) -> Aborted:
        """The transactions with records from `fetch_offset` on and before `upper_bound_offset`."""
        found: list[AbortedTransaction] = []
        start = bisect_left(self._entries, fetch_offset, key=_by_last_offset)
        for index in range(start, len(self._entries)):
            entry = self._entries[index]
            if entry.first_offset < upper_bound_offset:
                found.append(entry)
            # What was decided later began at the last stable offset of then, or after it.
            if entry.last_stable_offset >= upper_bound_offset:
                return Aborted(found, True)
        return Aborted(found, False)

    def truncate(self, offset: int) -> None:
        """Forget the transactions whose markers are at `offset` or after it."""
        kept = bisect_left(self._entries, offset, key=_by_last_offset)
        if kept < len(self._entries):
            self._opened().truncate(kept * _ENTRY.size)
            del self._entries[kept:]

    def clear(self) -> None:
        """Forget everything, and what a damaged file says."""
        self._entries = []
        if self._disk.exists(self._path):
            self._opened().truncate(0)

    def flush(self) -> None:
        """Make it durable, and the name of the file if it is new."""
        if self._file is not None:
            self._file.sync()
        if not self._is_named:
            self._disk.sync_directory(self._path.parent)
            self._is_named = True

    def release(self) -> None:
        """Let go of the descriptor, after a flush. The next append opens the file again."""
        self._file = None

    def _opened(self) -> File:
        if self._file is None:
            self._is_named = self._is_named and self._disk.exists(self._path)
            self._file = self._disk.open(self._path)
        return self._file


def _fits(entry: AbortedTransaction) -> bool:
    return (
        entry.producer_id >= 0
        and 0 <= entry.first_offset < entry.last_offset
        and 0 <= entry.last_stable_offset <= entry.last_offset + 1
    )
