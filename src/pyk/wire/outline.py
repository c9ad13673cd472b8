"""The outline of a batch: keys and boundaries of its records, and batches of some of them.

This is what compaction needs of most records. Only the start of each is read, up to its value, at
twice the speed of `read_records`. Those that stay are copied as they are: offsets and timestamps
count from the batch's own, and these do not change. Searching by time needs even less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, NamedTuple

from pyk.types import Buffer
from pyk.wire.batch import BatchHeader, TimestampType, encode_batch
from pyk.wire.compression import CorruptBatch, compress
from pyk.wire.records import RECORDS_BYTES_MAX, read_varint, skip_nullable, take_payload

_NO_TIMESTAMP: Final = -1
_INT64_MAX: Final = 2**63 - 1
_REST_BYTES_MIN: Final = 2
"""What follows the key at least: the size of the value, and the number of headers."""


class Outline(NamedTuple):
    header: BatchHeader
    payload: bytes
    keys: list[bytes | None]
    tombstones: list[int]
    """Which of the records have no value."""
    ends: list[int]
    times: list[int]
    """Timestamps, as zigzag deltas."""

    def shrunk(self, kept: Sequence[int]) -> bytes:
        """The batch with some of its records. It ends where it did, so that its last sequence
        number is still known, and keeps a delete horizon. Raise CorruptBatch."""
        header = self.header
        max_timestamp = header.max_timestamp
        if header.timestamp_type is TimestampType.CREATE_TIME:
            base, times = header.base_timestamp, self.times
            stamps = (base + (times[n] >> 1 ^ -(times[n] & 1)) for n in kept)
            max_timestamp = max(chain(stamps, (_NO_TIMESTAMP,)))
            if max_timestamp > _INT64_MAX:
                raise CorruptBatch(f"a timestamp of {max_timestamp}")
        starts = [0, *self.ends]
        payload = b"".join([self.payload[starts[n] : starts[n + 1]] for n in kept])
        return encode_batch(
            compress(header.compression, payload),
            base_offset=header.base_offset,
            partition_leader_epoch=header.partition_leader_epoch,
            attributes=header.attributes,
            last_offset_delta=header.last_offset_delta,
            base_timestamp=header.base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            records_count=len(kept),
        )


def skim_times(
    buffer: Buffer, position: int, header: BatchHeader, *, bytes_max: int = RECORDS_BYTES_MAX
) -> Iterator[tuple[int, int]]:
    """Timestamp and offset of each record of the batch at `position`, and nothing else of it.

    The records are inflated, to `bytes_max` at most, before this returns. Here and while iterating,
    sizes that cannot be right are CorruptBatch.
    """
    return _skim_times(take_payload(buffer, position, header, bytes_max), header)


def outline_records(
    buffer: Buffer, position: int, header: BatchHeader, *, bytes_max: int = RECORDS_BYTES_MAX
) -> Outline:
    """The outline of the batch at `position`, inflated to `bytes_max` at most.

    Raise CorruptBatch for records whose sizes cannot be right. What is in values and headers is
    not looked at, and neither is the CRC.
    """
    payload = take_payload(buffer, position, header, bytes_max)
    outline = Outline(header, payload, [], [], [], [])
    try:
        at = _outline(payload, header.records_count, outline)
    except IndexError:
        raise CorruptBatch("a record ends beyond its batch") from None
    if at != len(payload):
        raise CorruptBatch(f"{len(payload) - at} bytes after the last record")
    return outline


def _skim_times(data: bytes, header: BatchHeader) -> Iterator[tuple[int, int]]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    at = 0
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
            at += 1
            if (n := data[at]) < 0x80:
                at += 1
            elif (high := data[at + 1]) < 0x80:
                n += (high << 7) - 0x80
                at += 2
            else:
                n, at = read_varint(data, at, 64)
            timestamp = base_timestamp + (n >> 1 ^ -(n & 1))
            if (n := data[at]) < 0x80:
                at += 1
            elif (high := data[at + 1]) < 0x80:
                n += (high << 7) - 0x80
                at += 2
            else:
                n, at = read_varint(data, at)
            if at > end:
                raise CorruptBatch(f"a record ends at {end}, before its key at {at}")
            offset = base_offset + (n >> 1 ^ -(n & 1))
            yield header.max_timestamp if is_append_time else timestamp, offset
            at = end
    except IndexError:
        raise CorruptBatch("a record ends beyond its batch") from None
    if at != len(data):
        raise CorruptBatch(f"{len(data) - at} bytes after the last record")


def _outline(data: bytes, records_count: int, outline: Outline) -> int:
    """Fill the outline. Where the last record ends."""
    add_key, add_end, add_time = outline.keys.append, outline.ends.append, outline.times.append
    at = 0
    for number in range(records_count):
        if (n := data[at]) < 0x80:
            at += 1
        elif (high := data[at + 1]) < 0x80:
            n += (high << 7) - 0x80
            at += 2
        else:
            n, at = read_varint(data, at)
        end = at + (n >> 1) if not n & 1 else -1
        at += 1
        if (n := data[at]) < 0x80:
            at += 1
        elif (high := data[at + 1]) < 0x80:
            n += (high << 7) - 0x80
            at += 2
        else:
            n, at = read_varint(data, at, 64)
        add_time(n)
        if data[at] < 0x80:
            at += 1
        elif data[at + 1] < 0x80:
            at += 2
        else:
            _, at = read_varint(data, at)
        if (n := data[at]) & 0x81:
            size, at = skip_nullable(data, at)
            add_key(data[at - size : at] if size >= 0 else None)
        else:
            add_key(data[at + 1 : (at := at + 1 + (n >> 1))])
        if data[at] & 1:
            outline.tombstones.append(number)
        if at + _REST_BYTES_MIN > end:
            raise CorruptBatch(f"a record ends at {end}, before its value at {at}")
        add_end(end)
        at = end
    return at
