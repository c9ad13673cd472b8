"""The aborted transactions whose markers are in a segment: the `.txnindex` file beside it.

Readers of committed records are told these, so that they skip what was aborted. The index is
derived from the log: one that is damaged is built anew by replaying the segment. Most segments have
no aborted transaction, and no file.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

from pyk.disk import Disk
from pyk.log.index import DamagedIndex, IndexFile

PROVEN_AT_ONCE: Final = 64
"""Each takes as long as two small reads. Nobody waits for more of them."""

_READ_AT_ONCE: Final = 1024
"""Entries of a file that are read before others may have their turn: in one or two milliseconds."""

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


class TransactionIndex(IndexFile):
    """Without entries at first, whatever the file says: `load` is what reads it."""

    entry_bytes = _ENTRY.size
    is_optional = True

    def __init__(self, disk: Disk, path: Path, base_offset: int) -> None:
        super().__init__(disk, path, base_offset)
        self._entries: list[AbortedTransaction] = []
        self._unproven: set[AbortedTransaction] = set()
        """Those from the file, which the log has not shown to be true."""

    def load(self) -> None:
        """Read the file, if there is one. Raise DamagedIndex, after which the caller clears it and
        replays the segment."""
        entries: list[AbortedTransaction] = []
        for part in self.read_parts():
            entries += part
        self.note_loaded(entries)

    def read_parts(self) -> Iterator[list[AbortedTransaction]]:
        """What the file says, which `note_loaded` is then told. Raise DamagedIndex."""
        data = memoryview(self._read())
        previous_offset, previous_stable = self._base_offset - 1, 0
        for start in range(0, len(data), _READ_AT_ONCE * _ENTRY.size):
            entries: list[AbortedTransaction] = []
            part = data[start : start + _READ_AT_ONCE * _ENTRY.size]
            for version, *fields in _ENTRY.iter_unpack(part):
                entry = AbortedTransaction(*fields)
                if version != _VERSION or entry.last_offset <= previous_offset or not _fits(entry):
                    raise DamagedIndex(f"{self._path.name} has version {version} of {entry}")
                if entry.last_stable_offset < previous_stable:
                    raise DamagedIndex(f"{self._path.name} is not in order at {entry}")
                previous_offset, previous_stable = entry.last_offset, entry.last_stable_offset
                entries.append(entry)
            yield entries

    def note_loaded(self, entries: list[AbortedTransaction]) -> None:
        self._entries, self._unproven = entries, set(entries)

    def unproven(self, entries: list[AbortedTransaction]) -> list[AbortedTransaction]:
        """Those that are to be compared with the log."""
        if not self._unproven:
            return []
        return list(islice(filter(self._unproven.__contains__, entries), PROVEN_AT_ONCE))

    def note_proven(self, entries: list[AbortedTransaction]) -> None:
        self._unproven.difference_update(entries)

    def _read(self) -> bytes:
        try:
            data = self._disk.read(self._path)
        except FileNotFoundError:
            if self.is_optional:
                return b""
            raise DamagedIndex(f"{self._path.name} is missing") from None
        if len(data) % self.entry_bytes:
            raise DamagedIndex(f"{self._path.name} has {len(data)} bytes")
        return data

    @property
    def entries(self) -> list[AbortedTransaction]:
        return list(self._entries)

    def append(self, aborted: AbortedTransaction) -> None:
        """Add the transaction, whose marker is after all the others'."""
        assert _fits(aborted), aborted
        last_offset = self._entries[-1].last_offset if self._entries else self._base_offset - 1
        assert aborted.last_offset > last_offset, (aborted, last_offset)
        self._entries.append(aborted)
        self._unwritten += _ENTRY.pack(_VERSION, *aborted)

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
            del self._entries[kept:]
            self._rewrite(_packed(self._entries))

    def replace(self, transactions: list[AbortedTransaction]) -> None:
        """Forget what a damaged file says, and know these, durably."""
        self._disk.replace(self._path, _packed(transactions))
        self._file, self._begins_again = None, False
        self._entries, self._unwritten = list(transactions), bytearray()
        self._unproven = set()

    def clear(self) -> None:
        """Forget everything, and what a damaged file says."""
        self._entries = []
        self._rewrite(b"")


def _packed(entries: list[AbortedTransaction]) -> bytes:
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def _fits(entry: AbortedTransaction) -> bool:
    return (
        entry.producer_id >= 0
        and 0 <= entry.first_offset < entry.last_offset
        and 0 <= entry.last_stable_offset <= entry.last_offset + 1
    )
