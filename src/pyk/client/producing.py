"""Producing: records gather in a batch for each partition, and go to the leaders together.

With all acks, which is the default, the producer is idempotent: it numbers its batches, so that
one that is sent again after a broken connection is not there twice.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from pyk.client.cluster import Cluster, Topic
from pyk.client.connection import Connection
from pyk.client.partitioner import partition_of
from pyk.errors import ErrorCode, KafkaError
from pyk.types import ZERO_UUID, TopicPartition
from pyk.wire.apis import ApiKey
from pyk.wire.compression import Compression
from pyk.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pyk.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pyk.wire.records import Headers, Record, build_batch

ALL_ACKS: Final = -1
BATCH_BYTES: Final = 256 * 1024
"""How much gathers for a partition before all is sent, unless somebody flushes."""
_RECORD_OVERHEAD_BYTES: Final = 24
_LAST_VERSION_WITH_NAMES: Final = 12
_INT32_MAX: Final = 2**31 - 1


class Identity(NamedTuple):
    """By which brokers tell a batch that comes twice."""

    producer_id: int
    producer_epoch: int


class Acked(NamedTuple):
    """A record that is in the log, or with no acks, on its way there with the offset -1."""

    topic: str
    partition: int
    record: Record


@dataclass(slots=True)
class _Batch:
    records: list[Record] = field(default_factory=list)
    size: int = 0

    def halves(self) -> Iterator[list[Record]]:
        middle = (len(self.records) + 1) // 2
        yield self.records[:middle]
        yield self.records[middle:]


class Producer:
    """What is acknowledged is told to `on_ack`, batch by batch. KafkaError where a broker refuses,
    or nobody knows: what had gathered then and was not told may be there or not, and is not sent
    again."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = ALL_ACKS,
        compression: Compression = Compression.NONE,
        may_create: bool = True,
        on_ack: Callable[[list[Acked]], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._acks = acks
        self._compression = compression
        self._may_create = may_create
        self._on_ack = on_ack
        self.taken = 0
        """How many records were given to it."""
        self.acknowledged = 0
        """So many, from the first on, are acknowledged, and maybe some of those after them."""
        self._batches: dict[TopicPartition, _Batch] = {}
        self._sticky: dict[str, int] = {}
        self._identity: Identity | None = None
        self._sequences: dict[TopicPartition, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.flush()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Put a record into a batch. Records without a key stay together until that is sent."""
        known = self._cluster.topic(topic, may_create=self._may_create)
        if partition is None:
            partition = self._choose(known, key)
        at = TopicPartition(topic, partition)
        batch = self._batches.setdefault(at, _Batch())
        if timestamp is None:
            timestamp = time.time_ns() // 1_000_000
        batch.records.append(Record(len(batch.records), timestamp, key, value, headers))
        batch.size += len(key or b"") + len(value or b"") + _RECORD_OVERHEAD_BYTES
        batch.size += sum(len(name) + len(text or b"") + 2 for name, text in headers)
        self.taken += 1
        if batch.size >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send everything, and wait until it is acknowledged. Raise KafkaError, Unreachable."""
        batches, self._batches = self._batches, {}
        self._sticky.clear()
        if batches:
            try:
                self._identify()
                self._send({at: batch.records for at, batch in batches.items()})
            except BaseException:
                # What was not acknowledged may be there, or come there yet, under its number.
                self._identity = None
                self._sequences.clear()
                raise
        self.acknowledged = self.taken

    def _choose(self, topic: Topic, key: bytes | None) -> int:
        if key is not None:
            return partition_of(key, len(topic.partitions))
        chosen = self._sticky.get(topic.name)
        if chosen is None:
            led = [n for n, partition in topic.partitions.items() if partition.leader_id >= 0]
            chosen = self._sticky[topic.name] = random.choice(led or list(topic.partitions))
        return chosen

    def _identify(self) -> None:
        if self._acks == ALL_ACKS and self._identity is None:
            self._identity = new_identity(self._cluster)

    def _send(self, batches: dict[TopicPartition, list[Record]]) -> None:
        """Each of them, also if another is refused. Raise KafkaError, for the first that is."""
        encoded = {at: self._encoded(at, records) for at, records in batches.items()}
        results = self._cluster.ask_leaders(encoded, self._ask, _error)
        refusals = []
        for at, records in batches.items():
            try:
                self._settle(at, records, results[at])
            except KafkaError as refused:
                refusals.append(refused)
        if refusals:
            raise refusals[0]

    def _settle(
        self,
        at: TopicPartition,
        records: list[Record],
        result: PartitionProduceResponse | KafkaError,
    ) -> None:
        """Raise KafkaError."""
        if not isinstance(result, KafkaError):
            self._acknowledge(at, records, result)
        elif result.code is ErrorCode.MESSAGE_TOO_LARGE and len(records) > 1:
            # The topic's limit is lower than ours: nothing was appended, so the numbers hold.
            for half in _Batch(records).halves():
                again = [_at(record, number) for number, record in enumerate(half)]
                self._send({at: again})
        else:
            raise KafkaError(result.code, f"{at.topic}-{at.partition}: {result}")

    def _encoded(self, at: TopicPartition, records: list[Record]) -> bytes:
        producer_id, epoch = self._identity or (-1, -1)
        return build_batch(
            records,
            compression=self._compression,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences.get(at, 0) if self._identity else -1,
        )

    def _ask(
        self, leader: Connection, encoded: dict[TopicPartition, bytes]
    ) -> dict[TopicPartition, PartitionProduceResponse]:
        return ask_to_append(self._cluster, leader, encoded, self._acks)

    def _acknowledge(
        self, at: TopicPartition, records: list[Record], result: PartitionProduceResponse
    ) -> None:
        self._sequences[at] = (self._sequences.get(at, 0) + len(records)) & _INT32_MAX
        if self._on_ack is not None:
            base, appended_at = result.base_offset, result.log_append_time_ms
            self._on_ack(
                [
                    Acked(*at, _at(record, base + n if base >= 0 else -1, appended_at))
                    for n, record in enumerate(records)
                ]
            )


def new_identity(cluster: Cluster) -> Identity:
    """One that nobody had before. Raise KafkaError."""
    deadline = time.monotonic() + cluster.settings.patience
    while True:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_INT32_MAX)
        answer = cluster.ask(request, InitProducerIdResponse)
        if not answer.error_code:
            return Identity(answer.producer_id, answer.producer_epoch)
        code = ErrorCode(answer.error_code)
        if not code.retriable or time.monotonic() > deadline:
            raise KafkaError(code, f"no producer id: {code.name}")
        time.sleep(0.05)


def send_batch(cluster: Cluster, to: TopicPartition, batch: bytes) -> None:
    """Append one batch, and wait for all acks. Raise KafkaError."""

    def ask(
        leader: Connection, encoded: dict[TopicPartition, bytes]
    ) -> dict[TopicPartition, PartitionProduceResponse]:
        return ask_to_append(cluster, leader, encoded, ALL_ACKS)

    result = cluster.ask_leaders({to: batch}, ask, _error)[to]
    if isinstance(result, KafkaError):
        raise KafkaError(result.code, f"{to.topic}-{to.partition}: {result}")


def ask_to_append(
    cluster: Cluster, leader: Connection, encoded: dict[TopicPartition, bytes], acks: int
) -> dict[TopicPartition, PartitionProduceResponse]:
    topics = {at.topic: cluster.topic(at.topic) for at in encoded}
    ids = {topic.topic_id: topic.name for topic in topics.values()}
    version = leader.version_of(ApiKey.PRODUCE)
    if ZERO_UUID in ids:
        version = min(version, _LAST_VERSION_WITH_NAMES)
    timeout_ms = int(cluster.settings.request_timeout * 1000)
    request = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            TopicProduceData(
                name=name,
                topic_id=topic.topic_id,
                partition_data=[
                    PartitionProduceData(index=at.partition, records=data)
                    for at, data in encoded.items()
                    if at.topic == name
                ],
            )
            for name, topic in topics.items()
        ],
    )
    leader.send(request, version=version, is_answered=acks != 0)
    if acks == 0:
        return {at: PartitionProduceResponse(index=at.partition, base_offset=-1) for at in encoded}
    answer = leader.receive(ProduceResponse, extra_wait=timeout_ms / 1000)
    return {
        TopicPartition(topic.name or ids[topic.topic_id], found.index): found
        for topic in answer.responses
        for found in topic.partition_responses
    }


def _at(record: Record, offset: int, timestamp: int = -1) -> Record:
    stamped = record.timestamp if timestamp < 0 else timestamp
    return Record(offset, stamped, record.key, record.value, record.headers)


def _error(found: PartitionProduceResponse) -> KafkaError | None:
    code = ErrorCode(found.error_code)
    # A batch that is there already is what was wanted.
    if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
        return None
    return KafkaError(code, found.error_message or code.name)
