"""Control records: what stands in a log beside the users' records."""

from __future__ import annotations

from pyk.wire.fields import int16, int32
from pyk.wire.message import message


@message(versions="0")
class ControlRecordTypeSchema:
    type: int = int16()


@message(versions="0")
class EndTxnMarker:
    coordinator_epoch: int = int32()
