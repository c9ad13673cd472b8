"""Transactions on `__transaction_state`."""

from __future__ import annotations

from pyk.wire.fields import array, int8, int16, int32, int64, string
from pyk.wire.message import message, struct


@message(record_type=0, versions="0")
class TransactionLogKey:
    transactional_id: str = string()


@struct
class PartitionsSchema:
    topic: str = string()
    partition_ids: list[int] = array(int32)


@message(record_type=0, versions="0-1", flexible="1+")
class TransactionLogValue:
    producer_id: int = int64()
    previous_producer_id: int = int64(versions="1+", default=-1, tag=0)
    next_producer_id: int = int64(versions="1+", default=-1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16(versions="1+", default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[PartitionsSchema] | None = array(PartitionsSchema, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(versions="1+", default=0, tag=2)
