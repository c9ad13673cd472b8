"""The record batch of magic 2: a header of 61 bytes, then records that may be compressed.

    0            8             12                      16     17   21          23
    base_offset  batch_length  partition_leader_epoch  magic  crc  attributes  last_offset_delta ...

The CRC covers everything from the attributes on; what stands before them a broker may change for
free. Reading a header checks its framing only: whether offsets, sequences and counts make sense is
for whoever accepts the batch to say.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import msgspec

from pyk.types import Buffer
from pyk.wire.checksum import crc32c
from pyk.wire.compression import Compression, CorruptBatch

MAGIC: Final = 2
HEADER_BYTES: Final = 61

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BEFORE_CRC = struct.Struct(">qiibI")
_AFTER_CRC = struct.Struct(">hiqqqhii")
_LENGTH_AT = 8
_EPOCH_AT = 12
_MAGIC_AT = 16
_CRC_AT = 17
_ATTRIBUTES_AT = 21
CRC_COVERS_FROM: Final = _ATTRIBUTES_AT
_MAX_TIMESTAMP_AT = 35
_PRODUCER_AT = 43
_PRODUCER = struct.Struct(">qh")
_SEQUENCE_AT = 53

_LENGTH_OVERHEAD: Final = 12
"""What `batch_length` does not count: the base offset and itself."""
_BATCH_LENGTH_MIN: Final = HEADER_BYTES - _LENGTH_OVERHEAD

COMPRESSION_MASK: Final = 0b111
_COMPRESSION_MAX: Final = 4
_LOG_APPEND_TIME: Final = 1 << 3
TRANSACTIONAL: Final = 1 << 4
_CONTROL: Final = 1 << 5
_DELETE_HORIZON: Final = 1 << 6

_COMPRESSIONS = tuple(Compression)
_INT32_MAX: Final = 2**31 - 1


class UnsupportedMagic(CorruptBatch):
    """A message set of magic 0 or 1, which Kafka 4 no longer takes (KIP-724)."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"message format {magic} is no longer supported")
        self.magic = magic


class UnknownCompression(CorruptBatch):
    """A batch compressed by a codec that has not been invented yet."""


class TimestampType(IntEnum):
    """Who set the timestamps of a batch: the producer, or the broker that appended it."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ControlType(IntEnum):
    """What a control record says. KRaft has more, which no log of pyk's contains."""

    ABORT = 0
    COMMIT = 1


class BatchHeader(msgspec.Struct, frozen=True, gc=False):
    """The fields of a batch before its records, in the order of the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    """The timestamp that records count from. With a delete horizon it is that horizon (KIP-534)."""
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + _LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record. Sequences start again at 0 after 2**31 - 1."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & _INT32_MAX

    @property
    def compression(self) -> Compression:
        return _COMPRESSIONS[self.attributes & COMPRESSION_MASK]

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & _LOG_APPEND_TIME:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & _CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        return self.attributes & _DELETE_HORIZON != 0


def encode_attributes(
    compression: Compression,
    timestamp_type: TimestampType,
    *,
    is_transactional: bool,
    is_control: bool,
    has_delete_horizon: bool,
) -> int:
    return (
        compression
        | timestamp_type * _LOG_APPEND_TIME
        | is_transactional * TRANSACTIONAL
        | is_control * _CONTROL
        | has_delete_horizon * _DELETE_HORIZON
    )


def encode_batch(
    payload: Buffer,
    *,
    base_offset: int,
    partition_leader_epoch: int,
    attributes: int,
    last_offset_delta: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    records_count: int,
) -> bytes:
    """A batch of records that are already encoded, and compressed as `attributes` say."""
    after_crc = _AFTER_CRC.pack(
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        records_count,
    )
    crc = crc32c(payload, crc32c(after_crc))
    batch_length = _BATCH_LENGTH_MIN + len(payload)
    before_crc = _BEFORE_CRC.pack(base_offset, batch_length, partition_leader_epoch, MAGIC, crc)
    return b"".join((before_crc, after_crc, payload))


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`, all of which is in `buffer`. Raise CorruptBatch."""
    header = peek_header(buffer, position)
    if position + header.batch_length + _LENGTH_OVERHEAD > len(buffer):
        raise _torn(buffer, position)
    return header


def peek_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """As `read_header`, but the records may be elsewhere, such as still in a file."""
    try:
        header = BatchHeader(*_HEADER.unpack_from(buffer, position))
    except struct.error:
        _check_start(buffer, position)
        raise _torn(buffer, position) from None
    if header.magic != MAGIC or header.batch_length < _BATCH_LENGTH_MIN:
        _check_magic(header.magic)
        _check_length(header.batch_length)
    if header.attributes & COMPRESSION_MASK > _COMPRESSION_MAX:
        raise UnknownCompression(f"unknown compression {header.attributes & COMPRESSION_MASK}")
    return header


def peek_attributes(buffer: Buffer) -> int:
    """The attributes of the first batch, before anything of it is known to be right: 0 if there is
    not so much of it."""
    if len(buffer) < _ATTRIBUTES_AT + 2:
        return 0
    return int.from_bytes(buffer[_ATTRIBUTES_AT : _ATTRIBUTES_AT + 2], "big")


def peek_producer(buffer: Buffer) -> tuple[int, int]:
    """The id and the epoch of the first batch's producer, in the same way: -1 if there are none."""
    if len(buffer) < _PRODUCER_AT + _PRODUCER.size:
        return -1, -1
    producer_id, epoch = _PRODUCER.unpack_from(buffer, _PRODUCER_AT)
    return producer_id, epoch


def peek_sequence(buffer: Buffer) -> int:
    """The first sequence of the first batch, in the same way."""
    if len(buffer) < _SEQUENCE_AT + 4:
        return -1
    return int.from_bytes(buffer[_SEQUENCE_AT : _SEQUENCE_AT + 4], "big", signed=True)


def iterate_batches(
    buffer: Buffer, position: int = 0, *, torn_tail_allowed: bool
) -> Iterator[tuple[int, BatchHeader]]:
    """Where each batch starts, and its header.

    A fetch cuts the last batch off anywhere, so its readers allow a torn tail: it ends the
    iteration, where it would otherwise raise CorruptBatch.
    """
    end = len(buffer)
    while position < end:
        if torn_tail_allowed and end - position < HEADER_BYTES:
            _check_start(buffer, position)
            return
        header = peek_header(buffer, position)
        start = position
        position += header.batch_length + _LENGTH_OVERHEAD
        if position > end:
            if torn_tail_allowed:
                return
            raise _torn(buffer, start)
        yield start, header


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise CorruptBatch unless the bytes of the batch are those that its CRC was taken of."""
    covered = memoryview(buffer)[position + CRC_COVERS_FROM : position + header.size]
    crc = crc32c(covered)
    if crc != header.crc:
        raise wrong_crc(header, crc)


def wrong_crc(header: BatchHeader, crc: int) -> CorruptBatch:
    return CorruptBatch(f"the CRC of the batch is {header.crc:#010x}, of its bytes {crc:#010x}")


def stamp_offset(
    buffer: bytearray | memoryview, position: int, base_offset: int, partition_leader_epoch: int
) -> None:
    """Give the batch its place in the log. Its CRC does not cover these fields."""
    struct.pack_into(">q", buffer, position, base_offset)
    struct.pack_into(">i", buffer, position + _EPOCH_AT, partition_leader_epoch)


def stamp_append_time(buffer: bytearray | memoryview, position: int, timestamp: int) -> None:
    """Make `timestamp` (ms) the time of every record of the batch, and renew its CRC."""
    header = read_header(buffer, position)
    _stamp_time(buffer, position, header, header.attributes | _LOG_APPEND_TIME, timestamp)


def stamp_create_time(buffer: bytearray | memoryview, position: int, max_timestamp: int) -> None:
    """Leave the records their own times, the latest of which is given, and renew the CRC."""
    header = read_header(buffer, position)
    _stamp_time(buffer, position, header, header.attributes & ~_LOG_APPEND_TIME, max_timestamp)


def _stamp_time(
    buffer: bytearray | memoryview,
    position: int,
    header: BatchHeader,
    attributes: int,
    max_timestamp: int,
) -> None:
    struct.pack_into(">h", buffer, position + _ATTRIBUTES_AT, attributes)
    struct.pack_into(">q", buffer, position + _MAX_TIMESTAMP_AT, max_timestamp)
    covered = memoryview(buffer)[position + _ATTRIBUTES_AT : position + header.size]
    struct.pack_into(">I", buffer, position + _CRC_AT, crc32c(covered))


def _check_start(buffer: Buffer, position: int) -> None:
    """Raise what can be said against a batch that has less than a header."""
    # Every format has length and magic at these places, and all of an old message may be shorter
    # than our header.
    if position + _MAGIC_AT < len(buffer):
        _check_magic(buffer[position + _MAGIC_AT])
        (batch_length,) = struct.unpack_from(">i", buffer, position + _LENGTH_AT)
        _check_length(batch_length)


def _check_magic(magic: int) -> None:
    if magic in (0, 1):
        raise UnsupportedMagic(magic)
    if magic != MAGIC:
        raise CorruptBatch(f"unknown magic {magic}")


def _check_length(batch_length: int) -> None:
    if batch_length < _BATCH_LENGTH_MIN:
        raise CorruptBatch(f"a batch length of {batch_length} is less than a header")


def _torn(buffer: Buffer, position: int) -> CorruptBatch:
    return CorruptBatch(f"only {len(buffer) - position} bytes of a batch")
