"""InitProducerId: give a producer its id and epoch, and fence its predecessors."""

from __future__ import annotations

from pyk.wire.fields import boolean, int16, int32, int64, string
from pyk.wire.message import message


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdRequest:
    """Version 6 (two-phase commit, KIP-939) is not stable yet, and not advertised."""

    transactional_id: str | None = string(nullable="0+")
    """None for a producer that is idempotent only."""
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(versions="3+", default=-1)
    producer_epoch: int = int16(versions="3+", default=-1)
    enable_2pc: bool = boolean(versions="6+", default=False)
    keep_prepared_txn: bool = boolean(versions="6+", default=False)


@message(api_key=22, versions="0-6", flexible="2+")
class InitProducerIdResponse:
    throttle_time_ms: int = int32(default=0, ignorable=True)
    error_code: int = int16(default=0)
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(versions="6+", default=-1)
    ongoing_txn_producer_epoch: int = int16(versions="6+", default=-1)
