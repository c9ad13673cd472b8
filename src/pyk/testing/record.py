"""A record as tests write and read it."""

from __future__ import annotations

from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pyk.wire.batch import iterate_batches
from pyk.wire.records import Headers, build_batch, read_records
from pyk.wire.records import Record as WireRecord

NOW: Final = -1
"""As a timestamp: that of the broker when it is written."""

Value: TypeAlias = bytes | str | None


class Record(Struct, frozen=True, kw_only=True):
    """One that was read, with its place. To write one, only what it says is needed:
    `Record(key=b"k", value=b"v")`."""

    topic: str = ""
    partition: int = 0
    offset: int = -1
    timestamp: int = NOW
    """Milliseconds since 1970."""
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


def to_record(given: Value | Record, topic: str, partition: int | None) -> Record:
    """What somebody wants to write, there, or in the partition that the record says."""
    if not isinstance(given, Record):
        given = Record(value=given.encode() if isinstance(given, str) else given)
    number = given.partition if partition is None else partition
    return replace(given, topic=topic, partition=number)


def to_batch(records: list[Record], now_ms: int) -> bytes:
    found = [
        WireRecord(
            offset=number,
            timestamp=now_ms if record.timestamp == NOW else record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        for number, record in enumerate(records)
    ]
    return build_batch(found)


def placed(records: list[Record], base_offset: int, now_ms: int) -> list[Record]:
    """Those that were written, with their places."""
    return [
        replace(
            record,
            offset=base_offset + number,
            timestamp=now_ms if record.timestamp == NOW else record.timestamp,
        )
        for number, record in enumerate(records)
    ]


def from_batches(data: bytes, topic: str, partition: int, start: int) -> list[Record]:
    """The records from an offset on that are in whole batches, without those of transactions'
    ends."""
    return [
        Record(
            topic=topic,
            partition=partition,
            offset=record.offset,
            timestamp=record.timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        for position, header in iterate_batches(data, torn_tail_allowed=True)
        if not header.is_control
        for record in read_records(data, position, header)
        if record.offset >= start
    ]
