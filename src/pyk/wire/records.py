"""The records inside a batch: read, skimmed over, and built.

Every number in a record is a zigzag varint, and every record starts with its length:

    length  attributes  timestamp_delta  offset_delta  key  value  headers

Both readers repeat the varint of one and two bytes in place of calling it, which is most of what
they do. They check the form of the records, not that offsets rise: Kafka's readers do not either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

import msgspec

from pyk.types import Buffer
from pyk.wire.batch import (
    HEADER_BYTES,
    BatchHeader,
    TimestampType,
    encode_attributes,
    encode_batch,
    read_header,
)
from pyk.wire.compression import Compression, CorruptBatch, compress, decompress

RECORDS_BYTES_MAX: Final = 16 * 1024 * 1024
"""What the records of a compressed batch may inflate to, unless a reader says otherwise."""

HEADERS_MAX: Final = 2**16
"""How many headers a record may have. Kafka has no limit, but two bytes are enough for one, and
sixteen kilobytes inflate to millions."""

BATCH_HEADERS_MAX: Final = 2**18
"""How many the records of a batch may have together: two kilobytes inflate to eight million, which
take a second to read."""

RECORD_BYTES_MIN: Final = 7
"""What a record takes without key, value and headers."""

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
"""In the order they were sent. Keys repeat."""

_HEADER_BYTES_MIN: Final = 2
_NULL: Final = b"\x01"
_NO_TIMESTAMP: Final = -1
_INT32_MAX: Final = 2**31 - 1
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


class Record(msgspec.Struct, frozen=True, gc=False):
    """What a user sent, and where it is in the log."""

    offset: int
    timestamp: int
    """Milliseconds since 1970, or -1 for none."""
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    """Keys that are not UTF-8, which Kafka does not mind, are read with surrogate escapes."""


def read_records(
    buffer: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    bytes_max: int = RECORDS_BYTES_MAX,
) -> Iterator[Record]:
    """The records of the batch at `position`, decoded one by one as they are asked for.

    The bytes are taken, and inflated to `bytes_max` at most, before this returns. Here and while
    iterating, whatever is wrong with the batch is CorruptBatch. Its CRC is not checked.
    """
    if header is None:
        header = read_header(buffer, position)
    return _decode(take_payload(buffer, position, header, bytes_max), header)


def skim_records(
    buffer: Buffer,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    bytes_max: int = RECORDS_BYTES_MAX,
) -> Iterator[tuple[int, int, int, int]]:
    """As `read_records`, but only what it takes to judge a batch.

    For each record (offset_delta, timestamp_delta, key_size, value_size), with a size of -1 for
    null. The form of everything is checked, headers included.
    """
    if header is None:
        header = read_header(buffer, position)
    return _skim(take_payload(buffer, position, header, bytes_max), header.records_count)


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    last_offset: int | None = None,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    max_timestamp: int | None = None,
    delete_horizon: int | None = None,
    partition_leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytes:
    """A batch of `records` at their own offsets, which may leave gaps as compaction does.

    `last_offset` keeps the end of a batch whose last records are gone, or all of them: an empty
    batch still tells which offsets it covered and how far its producer was. `max_timestamp` is
    that of the records when not given.
    """
    if not records:
        compression = Compression.NONE
    if last_offset is None:
        last_offset = records[-1].offset if records else base_offset
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=_NO_TIMESTAMP)
    base_timestamp = delete_horizon
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else max_timestamp
    attributes = encode_attributes(
        compression,
        timestamp_type,
        is_transactional=is_transactional,
        is_control=is_control,
        has_delete_horizon=delete_horizon is not None,
    )
    payload = encode_records(records, base_offset, base_timestamp)
    return encode_batch(
        compress(compression, payload, compression_level),
        base_offset=base_offset,
        partition_leader_epoch=partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        records_count=len(records),
    )


def build_batch_of(
    payload: Buffer,
    count: int,
    timestamp: int,
    *,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    is_transactional: bool = False,
) -> bytes:
    """A batch of so many records, from offset 0, all of one time, that `encode_records` has encoded
    and `compress` has compressed."""
    return encode_batch(
        payload,
        base_offset=0,
        partition_leader_epoch=-1,
        attributes=encode_attributes(
            compression,
            TimestampType.CREATE_TIME,
            is_transactional=is_transactional,
            is_control=False,
            has_delete_horizon=False,
        ),
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1,
        records_count=count,
    )


def recompress_batch(
    buffer: Buffer,
    position: int,
    header: BatchHeader,
    compression: Compression,
    compression_level: int | None = None,
    *,
    bytes_max: int = RECORDS_BYTES_MAX,
) -> bytes:
    """The batch at `position` with its records compressed otherwise. Raise CorruptBatch.

    The records stay as they are, and so does the header: but for a delete horizon, which is for
    the cleaner of a log to give, and for bits that mean nothing.
    """
    payload = take_payload(buffer, position, header, bytes_max)
    attributes = encode_attributes(
        compression,
        header.timestamp_type,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        has_delete_horizon=False,
    )
    return encode_batch(
        compress(compression, payload, compression_level),
        base_offset=header.base_offset,
        partition_leader_epoch=header.partition_leader_epoch,
        attributes=attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        records_count=header.records_count,
    )


def take_payload(buffer: Buffer, position: int, header: BatchHeader, bytes_max: int) -> bytes:
    """The encoded records of the batch at `position`, inflated to `bytes_max` at most. Raise
    CorruptBatch."""
    stored = memoryview(buffer)[position + HEADER_BYTES : position + header.size]
    if header.compression is Compression.NONE or not (stored or header.records_count):
        payload = bytes(stored)
    else:
        payload = decompress(header.compression, stored, bytes_max)
    if not 0 <= header.records_count <= len(payload) // RECORD_BYTES_MIN:
        raise CorruptBatch(f"{header.records_count} records in {len(payload)} bytes")
    return payload


def _decode(data: bytes, header: BatchHeader) -> Iterator[Record]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    at, headers_left = 0, BATCH_HEADERS_MAX
    try:
        for _ in range(header.records_count):
            if (n := data[at]) < 0x80:
                at += 1
            elif (high := data[at + 1]) < 0x80:
                n += (high << 7) - 0x80
                at += 2
            else:
                n, at = read_varint(data, at)
            end = at + (n >> 1) if not n & 1 else -1
            at += 1  # The attributes of a record mean nothing yet.
            if (n := data[at]) < 0x80:
                at += 1
            elif (high := data[at + 1]) < 0x80:
                n += (high << 7) - 0x80
                at += 2
            else:
                n, at = read_varint(data, at, 64)
            timestamp = base_timestamp + (n >> 1 ^ -(n & 1))
            if not _INT64_MIN <= timestamp <= _INT64_MAX:
                raise CorruptBatch(f"a timestamp of {timestamp}")
            if (n := data[at]) < 0x80:
                at += 1
            elif (high := data[at + 1]) < 0x80:
                n += (high << 7) - 0x80
                at += 2
            else:
                n, at = read_varint(data, at)
            offset = base_offset + (n >> 1 ^ -(n & 1))
            if (n := data[at]) & 0x81:
                key, at = _read_nullable(data, at)
            else:
                key = data[at + 1 : (at := at + 1 + (n >> 1))]
            if not (n := data[at]) & 0x81:
                value: bytes | None = data[at + 1 : (at := at + 1 + (n >> 1))]
            elif not n & 1 and (high := data[at + 1]) < 0x80:
                value = data[at + 2 : (at := at + 2 + (n >> 1) - 0x40 + (high << 6))]
            else:
                value, at = _read_nullable(data, at)
            headers: Headers = ()
            if data[at]:
                headers, at = _read_headers(data, at, end)
                headers_left -= len(headers)
                if headers_left < 0:
                    raise _too_many_headers()
            else:
                at += 1
            if at != end:
                raise CorruptBatch(f"a record ends at {at} and not at {end}")
            if is_append_time:
                timestamp = header.max_timestamp
            yield Record(offset, timestamp, key, value, headers)
    except IndexError:
        raise CorruptBatch("a record ends beyond its batch") from None
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes after the last record")


def _skim(data: bytes, records_count: int) -> Iterator[tuple[int, int, int, int]]:
    at, headers_left = 0, BATCH_HEADERS_MAX
    try:
        for _ in range(records_count):
            if (n := data[at]) < 0x80:
                at += 1
            elif (high := data[at + 1]) < 0x80:
                n += (high << 7) - 0x80
                at += 2
            else:
                n, at = read_varint(data, at)
            end = at + (n >> 1) if not n & 1 else -1
            at += 1
            if (timestamp := data[at]) < 0x80:
                at += 1
            elif (high := data[at + 1]) < 0x80:
                timestamp += (high << 7) - 0x80
                at += 2
            else:
                timestamp, at = read_varint(data, at, 64)
            if (offset := data[at]) < 0x80:
                at += 1
            elif (high := data[at + 1]) < 0x80:
                offset += (high << 7) - 0x80
                at += 2
            else:
                offset, at = read_varint(data, at)
            if (key := data[at]) & 0x81:
                key, at = skip_nullable(data, at)
            else:
                key >>= 1
                at += 1 + key
            if not (value := data[at]) & 0x81:
                value >>= 1
                at += 1 + value
            elif not value & 1 and (high := data[at + 1]) < 0x80:
                value = (value >> 1) - 0x40 + (high << 6)
                at += 2 + value
            else:
                value, at = skip_nullable(data, at)
            if data[at]:
                count, at = _skip_headers(data, at, end)
                headers_left -= count
                if headers_left < 0:
                    raise _too_many_headers()
            else:
                at += 1
            if at != end:
                raise CorruptBatch(f"a record ends at {at} and not at {end}")
            yield offset >> 1 ^ -(offset & 1), timestamp >> 1 ^ -(timestamp & 1), key, value
    except IndexError:
        raise CorruptBatch("a record ends beyond its batch") from None
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes after the last record")


def _read_headers(data: bytes, at: int, end: int) -> tuple[Headers, int]:
    """The headers at `at`, and where they end."""
    headers = []
    count, at = _headers_count(data, at, end)
    for _ in range(count):
        if (size := data[at]) & 0x81:
            size, at = _size(data, at)
        else:
            size >>= 1
            at += 1
        key = data[at : (at := at + size)].decode("utf-8", "surrogateescape")
        if (size := data[at]) & 0x81:
            value, at = _read_nullable(data, at)
        else:
            value = data[at + 1 : (at := at + 1 + (size >> 1))]
        headers.append((key, value))
    return tuple(headers), at


def _skip_headers(data: bytes, at: int, end: int) -> tuple[int, int]:
    """How many headers there are at `at`, and where they end."""
    count, at = _headers_count(data, at, end)
    for _ in range(count):
        if (size := data[at]) & 0x81:
            size, at = _size(data, at)
            at += size
        else:
            at += 1 + (size >> 1)
        if (size := data[at]) & 0x81:
            _, at = skip_nullable(data, at)
        else:
            at += 1 + (size >> 1)
    return count, at


def _too_many_headers() -> CorruptBatch:
    return CorruptBatch(f"more than {BATCH_HEADERS_MAX} headers in a batch")


def _headers_count(data: bytes, at: int, end: int) -> tuple[int, int]:
    count, at = _size(data, at)
    if count > min((end - at) // _HEADER_BYTES_MIN, HEADERS_MAX):
        raise CorruptBatch(f"{count} headers in {end - at} bytes")
    return count, at


def _read_nullable(data: bytes, at: int) -> tuple[bytes | None, int]:
    """The bytes at `at`, or None, and where they end."""
    size, end = skip_nullable(data, at)
    return None if size < 0 else data[end - size : end], end


def skip_nullable(data: bytes, at: int) -> tuple[int, int]:
    """The size of the bytes at `at`, -1 for null, and where they end."""
    n, at = read_varint(data, at)
    # Java takes any negative size for null.
    return (-1, at) if n & 1 else (n >> 1, at + (n >> 1))


def _size(data: bytes, at: int) -> tuple[int, int]:
    """A size that cannot be null, and where it ends."""
    n, at = read_varint(data, at)
    if n & 1:
        raise CorruptBatch(f"a size of {~(n >> 1)}")
    return n >> 1, at


def read_varint(data: bytes, at: int, bits: int = 32) -> tuple[int, int]:
    """The zigzag of so many bits at `at`, not yet unfolded, and where it ends."""
    n = shift = 0
    while (byte := data[at]) > 0x7F:
        n |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift >= bits:
            raise CorruptBatch(f"a varint of more than {-(-bits // 7)} bytes")
    n |= byte << shift
    if n >> bits:
        raise CorruptBatch(f"a varint of more than {bits} bits")
    return n, at + 1


def encode_records(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    """Records as a batch holds them that begins there and then."""
    encoded: list[bytes] = []
    for record in records:
        offset_delta = record.offset - base_offset
        assert 0 <= offset_delta <= _INT32_MAX, (record.offset, base_offset)
        key, value = record.key, record.value
        body = b"".join(
            (
                b"\x00",
                _encode_varint(record.timestamp - base_timestamp),
                _encode_varint(offset_delta),
                _NULL if key is None else _encode_varint(len(key)),
                key or b"",
                _NULL if value is None else _encode_varint(len(value)),
                value or b"",
                _encode_headers(record.headers) if record.headers else b"\x00",
            )
        )
        encoded += (_encode_varint(len(body)), body)
    return b"".join(encoded)


def _encode_headers(headers: Headers) -> bytes:
    pieces = [_encode_varint(len(headers))]
    for name, value in headers:
        key = name.encode("utf-8", "surrogateescape")
        pieces += (_encode_varint(len(key)), key)
        pieces += (_NULL,) if value is None else (_encode_varint(len(value)), value)
    return b"".join(pieces)


@lru_cache(maxsize=4096)
def _encode_varint(n: int) -> bytes:
    # Deltas and sizes repeat from batch to batch: finding one is four times as fast as making it.
    zigzag = n << 1 ^ n >> 63
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)
