"""The `.snapshot` files of a log: the state of its producers at the offset in the name.

They are derived from the log and checked when they are read, so a damaged one is as good as none,
and one of many producers is written with the next flush, in its thread. One is kept for each
segment, from where replaying it begins, and one for the end of a log that was closed.

Before segments are removed, the snapshot where the log begins then is durable: it was written and
synced by this process, or read back and synced if an earlier one left it. If it is missing or
damaged, it is made anew from the batches before it, and if that fails the segments stay.

A file begins with Kafka's message, which has only the last batch of each producer. All five follow,
which Kafka ignores: without them a producer that repeats an earlier one after a restart is told
that its sequence is out of order.
"""

from __future__ import annotations

import struct
from bisect import bisect_right, insort
from collections.abc import Iterable
from operator import attrgetter
from pathlib import Path
from typing import Final

from pyk.disk import Disk, File
from pyk.errors import ProtocolError
from pyk.log.producers import (
    BATCHES_KEPT,
    NO_OFFSET,
    AppendedBatch,
    DamagedSnapshot,
    Producer,
    Producers,
)
from pyk.log.segment import file_name
from pyk.types import Buffer
from pyk.wire.checksum import crc32c
from pyk.wire.codec import read
from pyk.wire.payloads.producer_snapshot import ProducerEntry, ProducerSnapshot
from pyk.wire.prefixed import encode_value

SUFFIX = ".snapshot"

QUICK_PRODUCERS: Final = 1000
"""How many are written at once, in a few milliseconds. More wait for a thread."""

PENDING_MAX: Final = 64
"""How many are open until they are durable. If segments fill faster than they are flushed, the
newest takes the place of the one before it: replaying begins earlier after a crash."""

_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_START = struct.Struct(">hI")
_CRC_AT: Final = 2
_BATCHES_START = struct.Struct(">4sI")
_BATCHES_MARK: Final = b"pyk1"
_BATCH = struct.Struct(">qiqiq")


class Snapshot:
    """A file that is there, and what is to be written to it."""

    def __init__(self, file: File, known: list[Producer]) -> None:
        self.known: list[Producer] | None = known
        """None once it is written."""
        self.is_durable = False
        self.failure: OSError | None = None
        """Why it was not written the last time."""
        self._unused = [file]
        """Whoever takes it out writes or syncs it. It does not come back once it is durable."""

    @property
    def is_quick(self) -> bool:
        """Whether writing it holds up nobody."""
        return self.known is None or len(self.known) <= QUICK_PRODUCERS

    @property
    def is_in_use(self) -> bool:
        """Whether a thread is about to make it durable."""
        return not self._unused

    def write(self) -> None:
        """Without room on the disk it is not written and not durable: `failure` says why, replaying
        begins earlier after a crash, and the segments before it stay."""
        self._write(and_sync=False)

    def sync(self) -> None:
        """Write it and make it durable, in any thread, if the disk has room for it. If another one
        is about to, it is left to that. Raise SyncFailed."""
        self._write(and_sync=True)

    def discard(self) -> None:
        """The file was removed. It is closed, unless it is being written."""
        self._unused.clear()

    def _write(self, *, and_sync: bool) -> None:
        try:
            file = self._unused.pop()
        except IndexError:
            return
        try:
            self.failure = None
            if self.known is not None:
                try:
                    file.append(encode_snapshot(self.known))
                    self.known = None
                except OSError as failed:
                    self.failure = failed
            if and_sync and self.known is None:
                file.sync()
                self.is_durable = True
        finally:
            if not self.is_durable:
                self._unused.append(file)


class Snapshots:
    def __init__(self, disk: Disk, directory: Path, names: Iterable[str]) -> None:
        """Those among the names in a directory."""
        self._disk = disk
        self._directory = directory
        stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
        self._offsets = sorted(int(stem) for stem in stems if stem.isdigit())
        self._pending: dict[int, Snapshot] = {}
        self._durable: set[int] = set()
        """Those that this process has synced. Of others nobody knows what a power cut leaves."""

    @property
    def offsets(self) -> list[int]:
        return list(self._offsets)

    @property
    def pending(self) -> list[Snapshot]:
        """Those that are not durable yet."""
        self._durable.update(o for o, s in self._pending.items() if s.is_durable)
        self._pending = {o: s for o, s in self._pending.items() if not s.is_durable}
        return list(self._pending.values())

    def is_durable(self, offset: int) -> bool:
        """Whether this process has synced the one at an offset."""
        pending = self._pending.get(offset)
        return offset in self._durable or (pending is not None and pending.is_durable)

    def pending_at(self, offset: int) -> Snapshot | None:
        return self._pending.get(offset)

    def note_durable(self, offset: int) -> None:
        """The one that was found at an offset was read back and synced."""
        self._durable.add(offset)

    def take(self, offset: int, known: list[Producer]) -> Snapshot:
        """What is known at this offset. The file is to be synced, and its name. Raise OSError."""
        self._remove(offset)
        if len(self.pending) >= PENDING_MAX:
            newest = max(self._pending)
            discarded = self._pending[newest]
            self._remove(newest)
            discarded.discard()
        file = self._disk.open(self._path(offset))
        insort(self._offsets, offset)
        snapshot = self._pending[offset] = Snapshot(file, known)
        if snapshot.is_quick:
            snapshot.write()
        return snapshot

    def load(self, producers: Producers, offset_max: int, start_offset: int) -> int:
        """Make `producers` know what the last snapshot says that is not after `offset_max`. Where
        to go on from: its offset, or with none that is any good, the start of the log."""
        for offset in reversed(self._offsets[: bisect_right(self._offsets, offset_max)]):
            if offset < start_offset:
                break
            try:
                self._load(producers, offset)
            except DamagedSnapshot:
                self._remove(offset)
            else:
                return offset
        producers.reset()
        return start_offset

    def remove_after(self, offset: int) -> bool:
        """The log ends there: what was known later is not true any more. Whether there was any."""
        late = self._offsets[bisect_right(self._offsets, offset) :]
        for after in late:
            self._remove(after)
        return bool(late)

    def keep(self, bases: Iterable[int]) -> None:
        """Remove all but the last one and those at these offsets."""
        kept = {*bases, *self._offsets[-1:]}
        gone = [offset for offset in self._offsets if offset not in kept]
        removed: set[int] = set()
        try:
            for offset in gone:
                self._pending.pop(offset, None)
                self._durable.discard(offset)
                self._disk.remove(self._path(offset))
                removed.add(offset)
        finally:
            if removed:
                self._offsets = [offset for offset in self._offsets if offset not in removed]

    def _load(self, producers: Producers, offset: int) -> None:
        pending = self._pending.get(offset)
        known = pending.known if pending is not None else None
        if known is not None:
            producers.restore(known)
        else:
            producers.restore(decode_snapshot(self._disk.read(self._path(offset))))

    def _remove(self, offset: int) -> None:
        self._pending.pop(offset, None)
        self._durable.discard(offset)
        if offset in self._offsets:
            self._disk.remove(self._path(offset))
            self._offsets.remove(offset)

    def _path(self, offset: int) -> Path:
        return self._directory / file_name(offset, SUFFIX)


def encode_snapshot(producers: Iterable[Producer]) -> bytes:
    known = sorted(producers, key=attrgetter("producer_id"))
    snapshot = ProducerSnapshot(crc=0, producer_entries=[_entry(p) for p in known])
    data = bytearray(encode_value(snapshot, _SNAPSHOT_VERSION))
    batches = [(p.producer_id, *batch) for p in known for batch in p.batches]
    if batches:
        data += _BATCHES_START.pack(_BATCHES_MARK, len(batches))
        data += b"".join(_BATCH.pack(*batch) for batch in batches)
    struct.pack_into(">I", data, _CRC_AT, _crc(data))
    return bytes(data)


def decode_snapshot(data: Buffer) -> list[Producer]:
    """Raise DamagedSnapshot."""
    entries, batches = _read(data)
    return [_producer(entry, batches.get(entry.producer_id)) for entry in entries]


def _entry(producer: Producer) -> ProducerEntry:
    first_offset = producer.current_txn_first_offset
    return ProducerEntry(
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_offset=producer.last_data_offset,
        offset_delta=producer.batches[-1].offset_delta if producer.batches else 0,
        timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_first_offset=NO_OFFSET if first_offset is None else first_offset,
    )


def _producer(entry: ProducerEntry, batches: list[AppendedBatch] | None) -> Producer:
    first_offset = entry.current_txn_first_offset
    if batches is None and entry.last_offset >= 0:
        # The timestamp may be that of a later marker: Kafka's snapshot has one for both.
        sequence, delta = entry.last_sequence, entry.offset_delta
        batches = [AppendedBatch(sequence, entry.last_offset, delta, entry.timestamp)]
    return Producer(
        entry.producer_id,
        entry.epoch,
        entry.coordinator_epoch,
        entry.timestamp,
        None if first_offset < 0 else first_offset,
        tuple(batches or ())[-BATCHES_KEPT:],
    )


def _read(
    data: Buffer,
) -> tuple[list[ProducerEntry], dict[int, list[AppendedBatch]]]:
    """What Kafka's part says, and the batches of each producer if those follow."""
    if len(data) < _SNAPSHOT_START.size:
        raise DamagedSnapshot(f"{len(data)} bytes are too few for a snapshot")
    version, crc = _SNAPSHOT_START.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise DamagedSnapshot(f"snapshots have no version {version}")
    if crc != _crc(data):
        raise DamagedSnapshot(f"the CRC is {crc:#010x}, of the bytes {_crc(data):#010x}")
    try:
        # A log may have more producers than a request may have objects.
        snapshot, end = read(ProducerSnapshot, version, data, _CRC_AT, objects_max=len(data))
    except ProtocolError as error:
        raise DamagedSnapshot(str(error)) from None
    return snapshot.producer_entries, _read_batches(data, end)


def _read_batches(data: Buffer, position: int) -> dict[int, list[AppendedBatch]]:
    batches: dict[int, list[AppendedBatch]] = {}
    if position == len(data):
        return batches
    rows = memoryview(data)[position + _BATCHES_START.size :]
    if len(data) < position + _BATCHES_START.size:
        raise DamagedSnapshot(f"{len(data) - position} bytes follow the snapshot")
    mark, count = _BATCHES_START.unpack_from(data, position)
    if mark != _BATCHES_MARK or len(rows) != count * _BATCH.size:
        raise DamagedSnapshot(f"{len(data) - position} bytes follow the snapshot")
    for producer_id, *fields in _BATCH.iter_unpack(rows):
        batches.setdefault(producer_id, []).append(AppendedBatch(*fields))
    return batches


def _crc(data: Buffer) -> int:
    return crc32c(memoryview(data)[_SNAPSHOT_START.size :])
