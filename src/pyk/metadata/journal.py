"""The file of an embedded store: a snapshot, then a line for each record since. An operator can
read it, `cut -c10- metadata.log` being JSON.

    replaced as a whole:  header, entries ...        appended, synced:  line, line ...

- A line is a CRC-32C in hex, a space, JSON and an end of line. It never has a zero byte.
- A crash may leave zeros, or half a line, where something was not synced yet. That is cut off.
- A line says up to which one all were synced when it was written. If one of those is bad, or one
  is bad in a way that no crash makes it, that is damage. It is reported, and nothing is touched.
- When more has been appended than the snapshot takes, the file is written anew, at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from pyk.disk import Disk, File, Lock, SyncFailed
from pyk.metadata.state import LeaseEnded, LeaseGranted, Record, State, Transaction
from pyk.metadata.store import Delete, DeletePrefix, Entry, LeaseId, Operation, Put
from pyk.wire.checksum import crc32c

T = TypeVar("T")

DIRECTORY_NAME: Final = "metadata"
"""In the data directory of a broker."""
FILE_NAME: Final = "metadata.log"
LOCK_NAME: Final = ".lock"
APPENDED_BYTES_MIN: Final = 1 << 20
"""Before so much was appended a file is not written anew, however small its snapshot is."""

_FORMAT: Final = "pyk-metadata"
_VERSION: Final = 1
_CRC_SIZE: Final = 8
_GAP: Final = rb"[\0\n]+"


class DamagedStore(Exception):
    """The file is not what was written. What to do about that is for an operator to decide."""


class _Lease(msgspec.Struct):
    lease: LeaseId
    ttl: float


class _Header(msgspec.Struct):
    format: str
    version: int
    revision: int
    last_lease: int
    leases: list[_Lease]
    entries: int


class _Entry(msgspec.Struct, omit_defaults=True, gc=False):
    key: str
    create_revision: int
    mod_revision: int
    version: int
    lease: LeaseId | None = None
    text: str | None = None
    data: bytes | None = None
    """The value, if it is not text: base64 in the file."""


class _Operation(msgspec.Struct, omit_defaults=True):
    put: str | None = None
    text: str | None = None
    data: bytes | None = None
    lease: LeaseId | None = None
    delete: str | None = None
    delete_prefix: str | None = None


class _Line(msgspec.Struct, omit_defaults=True):
    line: int
    """Counted from 1 after each snapshot."""
    synced: int
    """The last one that was surely on the disk when this was written."""
    operations: list[_Operation] = []
    granted: LeaseId | None = None
    ttl: float = 0.0
    ended: LeaseId | None = None


_encode = msgspec.json.Encoder().encode


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
"""Made when a file is read: it takes long, and a new store has nothing to read."""


def _decode(of: type[T], data: bytes) -> T:
    decoder = _decoders.get(of) or _decoders.setdefault(of, msgspec.json.Decoder(of))
    found: T = decoder.decode(data)
    return found


def read_beside(disk: Disk, directory: Path) -> State | None:
    """What the store in a directory has, for readers beside its owner, who may go on; None if there
    is no store. Nothing is locked or touched. Raise DamagedStore."""
    try:
        data = disk.read(directory / FILE_NAME)
    except FileNotFoundError:
        return None
    state, start = _read_snapshot(data)
    for record in _read_records(data, start)[0]:
        state.apply(record)
    return state


class Journal:
    """Synchronous; whoever owns it chooses the threads. While `sync` runs there may be appends,
    while `rewrite` runs nothing else."""

    def __init__(self, disk: Disk, path: Path, lock: Lock, appended_bytes_min: int) -> None:
        self._disk = disk
        self._path = path
        self._lock = lock
        self._file: File = disk.open(path)
        self._lines = 0
        self._synced = 0
        self._appended_bytes_min = appended_bytes_min
        self._rewrite_size = 0

    @classmethod
    def open(
        cls, disk: Disk, directory: Path, *, appended_bytes_min: int = APPENDED_BYTES_MIN
    ) -> tuple[Journal, State, list[Record]]:
        """The journal, the state of its snapshot, and the records since then. A new one if there
        is none. Everything that is given is durable.

        Raise DamagedStore, and DirectoryInUse.
        """
        path = directory / FILE_NAME
        disk.make_directory(directory)
        disk.sync_directory(directory.parent)
        lock = disk.lock(directory / LOCK_NAME)
        is_new = not disk.exists(path)
        if is_new:
            disk.replace(path, _snapshot(State()))
        # Its name may be new, and not durable, if the last one was killed.
        disk.sync_directory(directory)
        data = disk.read(path)
        try:
            state, start = (State(), len(data)) if is_new else _read_snapshot(data)
            records, end = _read_records(data, start)
        except DamagedStore as damage:
            raise DamagedStore(f"{path}: {damage}") from None
        journal = cls(disk, path, lock, appended_bytes_min)
        journal._lines = len(records)
        journal._note_snapshot(start)
        if end < len(data):
            journal._file.truncate(end)
        journal.sync(len(records))
        return journal, state, records

    @property
    def lines(self) -> int:
        """How many were appended since the snapshot."""
        return self._lines

    @property
    def is_rewrite_due(self) -> bool:
        return self._file.size > self._rewrite_size

    def append(self, record: Record, written: list[_Operation] | None = None) -> None:
        """Raise OSError, and then nothing was. SyncFailed if it is not known whether. `written` is
        what `written_of` has made of the operations of a transaction."""
        line = _line(self._lines + 1, self._synced, record, written)
        try:
            self._file.append(_sealed(line))
        except OSError as error:
            # What was cut off must not come back behind what is appended next.
            self._file.sync()
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        self._lines += 1

    def sync(self, lines: int) -> None:
        """Make so many lines durable, and any that come meanwhile perhaps. Raise SyncFailed."""
        self._file.sync()
        self._synced = lines

    def rewrite(self, state: State) -> None:
        """Begin anew with a snapshot of the state, which all that was appended has led to.

        Raise OSError, and then all is as it was, or SyncFailed.
        """
        data = _snapshot(state)
        try:
            self._disk.replace(self._path, data)
        except OSError:
            self._rewrite_size = 2 * self._file.size
            raise
        try:
            self._file = self._disk.open(self._path, must_exist=True)
        except OSError as error:
            # To append to the file that was replaced would be to lose it.
            raise SyncFailed(f"{self._path.name} cannot be opened again: {error}") from error
        self._lines = self._synced = 0
        self._note_snapshot(len(data))

    def close(self) -> None:
        """Let another one open it."""
        del self._file, self._lock

    def _note_snapshot(self, size: int) -> None:
        self._rewrite_size = size + max(self._appended_bytes_min, size)


def _sealed(line: object) -> bytes:
    data = _encode(line)
    return b"%08x %b\n" % (crc32c(data), data)


def _opened(line: bytes) -> bytes | None:
    """What was sealed, without its end of line; None if it is not whole."""
    try:
        crc = int(line[:_CRC_SIZE], 16)
    except ValueError:
        return None
    data = line[_CRC_SIZE + 1 :]
    is_sealed = line[_CRC_SIZE : _CRC_SIZE + 1] == b" "
    return data if data and is_sealed and crc32c(data) == crc else None


def _snapshot(state: State) -> bytes:
    leases = [_Lease(lease, held.ttl) for lease, held in state.leases.items()]
    count = len(state.entries)
    header = _Header(_FORMAT, _VERSION, state.revision, state.last_lease, leases, count)
    return b"".join([_sealed(header), *map(_sealed, _entries(state))])


def _entries(state: State) -> Iterator[_Entry]:
    for entry in state.range(""):
        created, modified = entry.create_revision, entry.mod_revision
        text, data = _printable(entry.value)
        yield _Entry(entry.key, created, modified, entry.version, entry.lease, text, data)


def _read_snapshot(data: bytes) -> tuple[State, int]:
    """The state, and where it ends in the file. It was written at once, so all of it is there."""
    end = data.find(b"\n") + 1
    try:
        header = _decode(_Header, _whole(data[: max(0, end - 1)], "the header"))
    except msgspec.DecodeError as error:
        raise DamagedStore(f"the header cannot be read: {error}") from None
    if (header.format, header.version) != (_FORMAT, _VERSION):
        raise DamagedStore(f"{header.format} {header.version} is not a format that is known")
    entries = []
    for number in range(header.entries):
        start, end = end, data.find(b"\n", end) + 1
        line = _whole(data[start : max(start, end - 1)], f"entry {number} of the snapshot")
        try:
            found = _decode(_Entry, line)
        except msgspec.DecodeError as error:
            raise DamagedStore(f"entry {number} cannot be read: {error}") from None
        value = _value(found.text, found.data)
        created, modified = found.create_revision, found.mod_revision
        entries.append(Entry(found.key, value, created, modified, found.version, found.lease))
    leases = [(lease.lease, lease.ttl) for lease in header.leases]
    return State(header.revision, entries, leases, header.last_lease), end


def _whole(line: bytes, name: str) -> bytes:
    data = _opened(line)
    if data is None:
        raise DamagedStore(f"{name} is damaged")
    return data


def _read_records(data: bytes, start: int) -> tuple[list[Record], int]:
    """The records from `start` on, and where the last one that is whole ends."""
    records: list[Record] = []
    while start < len(data):
        number, end = len(records) + 1, data.find(b"\n", start)
        line = _opened(data[start:end]) if end >= 0 else None
        if line is None:
            _check_torn(data[start:], number)
            break
        records.append(_record(line, number))
        start = end + 1
    return records, start


def _check_torn(rest: bytes, number: int) -> None:
    """Raise DamagedStore unless a crash may have left this where line `number` should be."""
    first, newline, _ = rest.partition(b"\n")
    if newline and b"\0" not in first:
        raise DamagedStore(f"line {number} is damaged")
    for piece in re.split(_GAP, rest):
        line = _opened(piece)
        if line is not None and _decoded(line).synced >= number:
            raise DamagedStore(f"line {number} is damaged, and was on the disk")


def _decoded(line: bytes) -> _Line:
    try:
        return _decode(_Line, line)
    except msgspec.DecodeError as error:
        raise DamagedStore(f"a line cannot be read: {error}") from None


def _line(
    number: int, synced: int, record: Record, written: list[_Operation] | None = None
) -> _Line:
    match record:
        case Transaction(operations):
            return _Line(number, synced, written or written_of(operations))
        case LeaseGranted(lease, ttl):
            return _Line(number, synced, granted=lease, ttl=ttl)
        case LeaseEnded(lease):
            return _Line(number, synced, ended=lease)


def _record(data: bytes, number: int) -> Record:
    line = _decoded(data)
    if line.line != number:
        raise DamagedStore(f"where line {number} should be is line {line.line}")
    if line.granted is not None:
        return LeaseGranted(line.granted, line.ttl)
    if line.ended is not None:
        return LeaseEnded(line.ended)
    return Transaction(tuple(_read(operation) for operation in line.operations))


def written_of(operations: Iterable[Operation]) -> list[_Operation]:
    """Each as a line has it."""
    return [_written(operation) for operation in operations]


def _written(operation: Operation) -> _Operation:
    match operation:
        case Put(key, value, lease):
            text, data = _printable(value)
            return _Operation(put=key, text=text, data=data, lease=lease)
        case Delete(key):
            return _Operation(delete=key)
        case DeletePrefix(prefix):
            return _Operation(delete_prefix=prefix)


def _read(operation: _Operation) -> Operation:
    if operation.put is not None:
        value = _value(operation.text, operation.data)
        return Put(operation.put, value, operation.lease)
    if operation.delete is not None:
        return Delete(operation.delete)
    return DeletePrefix(operation.delete_prefix or "")


def _printable(value: bytes) -> tuple[str | None, bytes | None]:
    try:
        return value.decode(), None
    except UnicodeDecodeError:
        return None, value


def _value(text: str | None, data: bytes | None) -> bytes:
    return (data or b"") if text is None else text.encode()
