"""A record as tests write and read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pyk.wire.messages.fetch import AbortedTransaction, PartitionData
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


class Batches(NamedTuple):
    records: list[Record]
    next_offset: int
    """Where to read on: behind what readers do not see, too."""


def from_batches(
    data: bytes, topic: str, partition: int, start: int, aborted: Sequence[AbortedTransaction]
) -> Batches:
    """What is in whole batches from an offset on, without the markers of transactions and without
    the records of those that are aborted."""
    # Here, since clients that write need nothing of it.
    from pyk.client.offsets import Isolation
    from pyk.client.reading import visible_batches

    answer = PartitionData(
        partition_index=partition,
        high_watermark=0,
        records=None,
        aborted_transactions=list(aborted),
    )
    found: list[Record] = []
    next_offset = start
    for position, header in visible_batches(data, answer, Isolation.READ_COMMITTED):
        next_offset = max(next_offset, header.next_offset)
        if position is not None:
            found += [
                Record(
                    topic=topic,
                    partition=partition,
                    offset=record.offset,
                    timestamp=record.timestamp,
                    key=record.key,
                    value=record.value,
                    headers=record.headers,
                )
                for record in read_records(data, position, header)
                if record.offset >= start
            ]
    return Batches(found, next_offset)
