"""Records that a share group gives up, sent to a topic with what became of them in headers.

The names of the headers, and which partition a letter goes to, are those of KIP-1191. A letter has
the key, the value and the headers of its record too, so that it can be sent back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, cast

from pyk.errors import KafkaError
from pyk.replication.partition import Isolation, Partition
from pyk.sharing.delivery import Dead, Reason
from pyk.sharing.reading import walk
from pyk.types import FileSlice
from pyk.wire.dead_letters import DELIVERY_COUNT, GROUP, MESSAGE, OFFSET, PARTITION, TOPIC
from pyk.wire.records import Headers, Record, build_batch, read_records

if TYPE_CHECKING:
    from pyk.disk import File

MESSAGES: Final = {
    Reason.REJECTED: "Offset rejected by client.",
    Reason.DELIVERIES: "Offset delivery count exceeded the threshold.",
}
READ_BYTES: Final = 1024 * 1024


def letters(
    partition: Partition, group_id: str, dead: Iterable[Dead], now_ms: int
) -> Iterator[Record]:
    """Of those records that are still in the log. Raise KafkaError, CorruptBatch."""
    for each in dead:
        for record in records_of(partition, each.base, each.end):
            headers = (*record.headers, *_context(partition, group_id, record.offset, each))
            yield Record(0, now_ms, record.key, record.value, headers)


def records_of(partition: Partition, base: int, end: int) -> Iterator[Record]:
    """Those from `base` on and before `end`, batch by batch. Raise KafkaError, CorruptBatch."""
    offset = max(base, partition.log.start_offset)
    while offset < min(end, partition.log.high_watermark):
        piece, _, _ = partition.fetch(offset, READ_BYTES, Isolation.READ_UNCOMMITTED)
        if piece is None:
            return
        for position, header in walk(piece.records):
            if header.base_offset >= end:
                return
            if not header.is_control:
                data = _read(piece.records, position, header.size)
                found = read_records(data, 0, header)
                yield from (record for record in found if base <= record.offset < end)
        offset = piece.end_offset


def append(letters: list[Record], to: Partition, now_ms: int) -> None:
    """Each in a batch of its own, so that one that is too large takes no other with it. Raise
    KafkaError, of the first that is refused, when all others are there."""
    refusal: KafkaError | None = None
    for letter in letters:
        try:
            to.produce(bytearray(build_batch([letter])), acks=1, now_ms=now_ms)
        except KafkaError as refused:
            refusal = refusal or refused
    if refusal is not None:
        raise refusal


def _context(partition: Partition, group_id: str, offset: int, dead: Dead) -> Headers:
    return (
        (TOPIC, partition.partition.topic.encode()),
        (PARTITION, b"%d" % partition.partition.partition),
        (OFFSET, b"%d" % offset),
        (GROUP, group_id.encode()),
        (DELIVERY_COUNT, b"%d" % dead.delivery_count),
        (MESSAGE, MESSAGES[dead.reason].encode()),
    )


def _read(records: FileSlice, position: int, size: int) -> bytes:
    return cast("File", records.file).read(records.position + position, size)
