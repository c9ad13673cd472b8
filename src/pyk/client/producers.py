"""What partitions know of those who write to them, and how one is told to end what hangs (KIP-664).

A transaction hangs where a partition has it open and its coordinator knows nothing of it: nobody
will ever end it, and readers of committed records wait for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyk.client.cluster import Cluster
from pyk.client.connection import Connection
from pyk.client.topics import refusal
from pyk.client.transactions import (
    Filters,
    Transaction,
    describe_transactions,
    list_transactions,
)
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition
from pyk.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
)
from pyk.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_AT_ONCE: Final = 500
"""How many partitions a request is about: each has an answer well before its time is up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """One that a partition remembers."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp: int
    """Milliseconds, of its last record or marker."""
    coordinator_epoch: int | None
    """Of its last marker."""
    start_offset: int | None
    """Where its open transaction begins."""


def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
) -> dict[TopicPartition, list[Producer] | KafkaError]:
    """What the leader of each partition knows, or that broker, if it has a replica of it."""
    wanted = dict.fromkeys(partitions)
    if broker_id is None:
        found = cluster.ask_leaders(wanted, _ask_for_producers, _error_of)
    else:
        found = {**_ask_for_producers(cluster.broker(broker_id), wanted)}
    return {each: _producers(each, found[each]) for each in wanted}


def abort(cluster: Cluster, hanging: Producer) -> None:
    """Have the partition end what the producer has open there, if it is open still: a marker that
    is sent again after its answer was lost would end the next transaction. Its coordinator is not
    asked, and not told. Raise KafkaError."""
    marker = WritableTxnMarker(
        producer_id=hanging.producer_id,
        producer_epoch=hanging.producer_epoch,
        transaction_result=False,
        topics=[
            WritableTxnMarkerTopic(
                name=hanging.partition.topic, partition_indexes=[hanging.partition.partition]
            )
        ],
        # Whoever comes later may have a larger one, and none is less than what the partition knows.
        coordinator_epoch=hanging.coordinator_epoch or 0,
    )

    def ask(
        leader: Connection, asked: dict[TopicPartition, None]
    ) -> dict[TopicPartition, KafkaError | None]:
        found = _ask_for_producers(leader, asked)[hanging.partition]
        if error := _error_of(found):
            return {hanging.partition: error}
        if not _is_open_still(hanging, _producers(hanging.partition, found)):
            return {hanging.partition: None}
        request = WriteTxnMarkersRequest(markers=[marker])
        answer = leader.ask(request, WriteTxnMarkersResponse)
        return {
            TopicPartition(topic.name, each.partition_index): refusal(each.error_code)
            for result in answer.markers
            for topic in result.topics
            for each in topic.partitions
        }

    results = cluster.ask_leaders({hanging.partition: None}, ask, lambda error: error)
    error = results[hanging.partition]
    if error is not None:
        raise error


def find_hanging(cluster: Cluster, candidates: Collection[Producer]) -> list[Producer]:
    """Those of them that nobody will end. Raise KafkaError."""
    known = known_to_coordinators(cluster, candidates)
    left = [each for each in candidates if (each.partition, each.producer_id) not in known]
    # One that has ended before its coordinator was asked is not known either, and not open by now.
    now = describe_producers(cluster, [each.partition for each in left])
    return [each for each in left if _is_open_still(each, now[each.partition])]


def _is_open_still(before: Producer, now: list[Producer] | KafkaError) -> bool:
    if isinstance(now, KafkaError):
        raise now
    return any(
        (each.producer_id, each.producer_epoch, each.start_offset)
        == (before.producer_id, before.producer_epoch, before.start_offset)
        for each in now
    )


def known_to_coordinators(
    cluster: Cluster, producers: Collection[Producer]
) -> dict[tuple[TopicPartition, int], Transaction]:
    """The transactions, by partition and producer id, that somebody will end: their coordinator has
    the producer id, and the partition in its transaction. Raise KafkaError."""
    producer_ids = sorted({each.producer_id for each in producers})
    if not producer_ids:
        return {}
    listed = list_transactions(cluster, Filters(producer_ids=producer_ids))
    described = describe_transactions(cluster, [each.transactional_id for each in listed])
    known = {}
    for name, found in described.items():
        if isinstance(found, Transaction):
            for partition in found.partitions:
                known[partition, found.producer_id] = found
        elif found.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise KafkaError(found.code, f"transactional id {name}: {found}")
    return known


def _ask_for_producers(
    broker: Connection, asked: Mapping[TopicPartition, None]
) -> dict[TopicPartition, PartitionResponse]:
    found: dict[TopicPartition, PartitionResponse] = {}
    partitions = list(asked)
    for start in range(0, len(partitions), _AT_ONCE):
        found |= _ask_for_some(broker, partitions[start : start + _AT_ONCE])
    return found


def _ask_for_some(
    broker: Connection, asked: list[TopicPartition]
) -> dict[TopicPartition, PartitionResponse]:
    numbers: dict[str, list[int]] = {}
    for topic, number in asked:
        numbers.setdefault(topic, []).append(number)
    request = DescribeProducersRequest(
        topics=[TopicRequest(name=name, partition_indexes=each) for name, each in numbers.items()]
    )
    answer = broker.ask(request, DescribeProducersResponse)
    return {
        TopicPartition(topic.name, each.partition_index): each
        for topic in answer.topics
        for each in topic.partitions
    }


def _error_of(found: PartitionResponse) -> KafkaError | None:
    return refusal(found.error_code, found.error_message)


def _producers(
    partition: TopicPartition, found: PartitionResponse | KafkaError
) -> list[Producer] | KafkaError:
    if isinstance(found, KafkaError):
        return found
    if error := _error_of(found):
        return error
    producers = (_producer(partition, each) for each in found.active_producers)
    return sorted(producers, key=lambda each: each.producer_id)


def _producer(partition: TopicPartition, found: ProducerState) -> Producer:
    return Producer(
        partition=partition,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        last_sequence=_given(found.last_sequence),
        last_timestamp=found.last_timestamp,
        coordinator_epoch=_given(found.coordinator_epoch),
        start_offset=_given(found.current_txn_start_offset),
    )


def _given(number: int) -> int | None:
    return number if number >= 0 else None
