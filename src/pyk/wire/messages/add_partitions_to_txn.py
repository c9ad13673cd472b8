"""AddPartitionsToTxn: partitions become part of a transaction. Brokers send v4+, many at once."""

from __future__ import annotations

from pyk.wire.fields import array, boolean, int16, int32, int64, string
from pyk.wire.message import message, struct


@struct
class AddPartitionsToTxnTopic:
    name: str = string()
    partitions: list[int] = array(int32)


@struct
class AddPartitionsToTxnTransaction:
    transactional_id: str = string(versions="4+", default="")
    producer_id: int = int64(versions="4+", default=0)
    producer_epoch: int = int16(versions="4+", default=0)
    verify_only: bool = boolean(versions="4+", default=False)
    topics: list[AddPartitionsToTxnTopic] = array(
        AddPartitionsToTxnTopic, versions="4+", default=[]
    )


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnRequest:
    transactions: list[AddPartitionsToTxnTransaction] = array(
        AddPartitionsToTxnTransaction, versions="4+", default=[]
    )
    v3_and_below_transactional_id: str = string(versions="0-3", default="")
    v3_and_below_producer_id: int = int64(versions="0-3", default=0)
    v3_and_below_producer_epoch: int = int16(versions="0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(
        AddPartitionsToTxnTopic, versions="0-3", default=[]
    )


@struct
class AddPartitionsToTxnPartitionResult:
    partition_index: int = int32()
    partition_error_code: int = int16()


@struct
class AddPartitionsToTxnTopicResult:
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


@struct
class AddPartitionsToTxnResult:
    transactional_id: str = string(versions="4+", default="")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, versions="4+", default=[]
    )


@message(api_key=24, versions="0-5", flexible="3+")
class AddPartitionsToTxnResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(versions="4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(
        AddPartitionsToTxnResult, versions="4+", default=[]
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, versions="0-3", default=[]
    )
