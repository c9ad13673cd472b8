"""AddOffsetsToTxn: a group's offsets become part of a transaction."""

from __future__ import annotations

from pyk.wire.fields import int16, int32, int64, string
from pyk.wire.message import message


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


@message(api_key=25, versions="0-4", flexible="3+")
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
