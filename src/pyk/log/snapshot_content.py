"""What is in a `.snapshot` file: Kafka's message, and the batches of each producer behind it.

Kafka's part has only the last batch of each producer. All five follow, which Kafka does not look
at: without them a producer that repeats an earlier one after a restart is told that its sequence is
out of order.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from pyk.errors import ProtocolError
from pyk.log.producers import BATCHES_KEPT, NO_OFFSET, AppendedBatch, DamagedSnapshot, Producer
from pyk.types import Buffer
from pyk.wire.checksum import crc32c
from pyk.wire.codec import read
from pyk.wire.payloads.producer_snapshot import ProducerEntry, ProducerSnapshot
from pyk.wire.prefixed import encode_value

_SNAPSHOT_VERSION: Final = 1
_SNAPSHOT_START = struct.Struct(">hI")
_CRC_AT: Final = 2
_BATCHES_START = struct.Struct(">4sI")
_BATCHES_MARK: Final = b"pyk1"
_BATCH = struct.Struct(">qiqiq")


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
