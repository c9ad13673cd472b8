"""What batches do to the producers of a log: the same when appended and when read again later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from pyk.declared import NamedTuple
from pyk.errors import ProtocolError
from pyk.log.producers import Producers
from pyk.log.segment import Segment
from pyk.log.transactions import AbortedTransaction
from pyk.types import Buffer
from pyk.wire.batch import BatchHeader
from pyk.wire.compression import CorruptBatch
from pyk.wire.payloads.control import EndTxnMarker
from pyk.wire.prefixed import ControlType, decode_control_type, decode_value
from pyk.wire.records import read_records


class Marker(NamedTuple):
    """The end of a transaction."""

    outcome: ControlType
    coordinator_epoch: int


def read_marker(data: Buffer, header: BatchHeader) -> Marker | None:
    """What a control batch says. None for kinds that are not for producers, and for one that
    compaction has emptied. Raise CorruptBatch."""
    for record in read_records(data, 0, header):
        try:
            marker = _decoded(record.key, record.value)
        except ProtocolError as error:
            raise CorruptBatch(f"a marker that cannot be read: {error}") from None
        if marker is not None:
            return marker
    return None


@lru_cache(maxsize=64)
def _decoded(key: bytes | None, value: bytes | None) -> Marker | None:
    # All markers of a coordinator are one of two.
    kind = decode_control_type(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    end = decode_value(EndTxnMarker, value or b"")
    return Marker(ControlType(kind), end.coordinator_epoch)


def note(
    producers: Producers, header: BatchHeader, read: Callable[[], Buffer]
) -> AbortedTransaction | None:
    """A batch is in the log. What it aborted, if it is a marker that did. `read` gives its bytes,
    which only control batches need."""
    if not header.is_control:
        producers.update(header)
        return None
    marker = read_marker(read(), header) if header.producer_id >= 0 else None
    if marker is None:
        return None
    return producers.end_transaction(header, *marker)


def replay(
    producers: Producers, segment: Segment, start_offset: int, end_offset: int
) -> Iterator[AbortedTransaction]:
    """Let `producers` see what is in a segment between two offsets, and give what was aborted."""
    first = segment.locate(start_offset)
    if first is None:
        return
    for placed in segment.batches(first.position):
        if placed.header.last_offset >= end_offset:
            break
        aborted = note(producers, placed.header, lambda placed=placed: segment.load(placed))  # type: ignore[misc]
        if aborted is not None:
            yield aborted
