"""EndTxn: commit or abort a transaction."""

from __future__ import annotations

from pyk.wire.fields import boolean, int16, int32, int64, string
from pyk.wire.message import message


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnRequest:
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@message(api_key=26, versions="0-5", flexible="3+")
class EndTxnResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    producer_id: int = int64(versions="5+", default=-1, ignorable=True)
    producer_epoch: int = int16(versions="5+", default=-1, ignorable=True)
