"""The ends of transactions, as they are in a log: control batches of one record.

Imported when there is one, since many a log has none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from pyk.errors import ProtocolError
from pyk.types import Buffer
from pyk.wire.batch import BatchHeader, ControlType
from pyk.wire.compression import CorruptBatch
from pyk.wire.payloads.control import EndTxnMarker
from pyk.wire.prefixed import decode_control_type, decode_value
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
