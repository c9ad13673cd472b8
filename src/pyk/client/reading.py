"""Reading: records of some partitions, from an offset up to another, or for ever.

A fetch returns whole batches, of which the first may begin before what was asked for, and the last
may be cut off. What transactions left behind, markers and with READ_COMMITTED aborted records, is
not handed out, but moves the position on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pyk.client.cluster import BACKOFF, Cluster, is_passing
from pyk.client.connection import Connection, Unreachable
from pyk.client.offsets import EARLIEST, LATEST, Isolation, find_offsets
from pyk.errors import ErrorCode, KafkaError
from pyk.types import ZERO_UUID, Buffer, FileSlice, TopicPartition
from pyk.wire.apis import ApiKey
from pyk.wire.batch import BatchHeader, TimestampType, check_crc, iterate_batches
from pyk.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pyk.wire.prefixed import ControlType, decode_control_type
from pyk.wire.records import Record, read_records

MAX_WAIT: Final = 0.5
MAX_BYTES: Final = 50 * 1024 * 1024
PARTITION_BYTES: Final = 1024 * 1024
INFLATED_BYTES_MAX: Final = 256 * 1024 * 1024
NO_PRODUCER: Final = -1
_LAST_VERSION_WITH_NAMES: Final = 12


class Span(NamedTuple):
    """The offsets of a partition that are wanted."""

    start: int
    end: int | None = None
    """None for whatever may come."""

    @property
    def is_empty(self) -> bool:
        return self.end is not None and self.start >= self.end


class Received(NamedTuple):
    topic: str
    partition: int
    record: Record
    timestamp_type: TimestampType
    producer_id: int = NO_PRODUCER
    sequence: int = NO_PRODUCER
    """Who wrote the batch that the record is in, and which batch of its own that is."""


class Reader:
    """Iterating it ends when all spans are read, and waits for more if one has no end."""

    def __init__(
        self,
        cluster: Cluster,
        spans: Mapping[TopicPartition, Span],
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> None:
        self._cluster = cluster
        self._left = {partition: span for partition, span in spans.items() if not span.is_empty}
        self._isolation = isolation
        self._failing_since: float | None = None

    @classmethod
    def of_topic(
        cls,
        cluster: Cluster,
        topic: str,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> Reader:
        """All that is in a topic now."""
        partitions = cluster.topic(topic).all_partitions
        starts = find_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
        ends = find_offsets(cluster, dict.fromkeys(partitions, LATEST), isolation)
        return cls(cluster, {p: Span(starts[p], ends[p]) for p in partitions}, isolation)

    @property
    def is_finished(self) -> bool:
        return not self._left

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where reading goes on, of the partitions that are not finished."""
        return {partition: span.start for partition, span in self._left.items()}

    def __iter__(self) -> Iterator[Received]:
        while not self.is_finished:
            yield from self.poll()

    def poll(self, max_wait: float = MAX_WAIT) -> Iterator[Received]:
        """What one round of fetches brings, which may be nothing. Raise KafkaError."""
        groups, errors = self._cluster.by_leader(self._left)
        asked = []
        for connection, spans in groups:
            try:
                self._ask(connection, spans, max_wait)
                asked.append((connection, spans))
            except Unreachable as failed:
                self._lose(connection, spans, failed, errors)
        answers = []
        for connection, spans in asked:
            try:
                answers.append(connection.receive(FetchResponse, extra_wait=max_wait))
            except Unreachable as failed:
                self._lose(connection, spans, failed, errors)
        for answer in answers:
            if answer.error_code:
                raise KafkaError(ErrorCode(answer.error_code))
            yield from self._taken(answer, errors)
        self._settle(errors)

    def _ask(
        self, connection: Connection, spans: Mapping[TopicPartition, Span], max_wait: float
    ) -> None:
        topics = {p.topic: self._cluster.topic(p.topic) for p in spans}
        version = connection.version_of(ApiKey.FETCH)
        if any(topic.topic_id == ZERO_UUID for topic in topics.values()):
            version = min(version, _LAST_VERSION_WITH_NAMES)
        wanted = [
            FetchTopic(
                topic=name,
                topic_id=topic.topic_id,
                partitions=[
                    FetchPartition(
                        partition=partition.partition,
                        fetch_offset=span.start,
                        partition_max_bytes=PARTITION_BYTES,
                    )
                    for partition, span in spans.items()
                    if partition.topic == name
                ],
            )
            for name, topic in topics.items()
        ]
        request = FetchRequest(
            max_wait_ms=int(max_wait * 1000),
            min_bytes=1,
            max_bytes=MAX_BYTES,
            isolation_level=self._isolation,
            topics=wanted,
        )
        connection.send(request, version=version)

    def _taken(
        self, answer: FetchResponse, errors: dict[TopicPartition, KafkaError]
    ) -> Iterator[Received]:
        ids = {self._cluster.topic(p.topic).topic_id: p.topic for p in self._left}
        for topic in answer.responses:
            name = topic.topic or ids.get(topic.topic_id, "")
            for data in sorted(topic.partitions, key=lambda each: each.partition_index):
                partition = TopicPartition(name, data.partition_index)
                if partition not in self._left:
                    continue
                if data.error_code:
                    errors[partition] = self._refusal(partition, data)
                else:
                    yield from self._read(partition, data)

    def _refusal(self, partition: TopicPartition, data: PartitionData) -> KafkaError:
        code = ErrorCode(data.error_code)
        if code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            return KafkaError(code, f"{partition.topic}-{partition.partition}: {code.name}")
        start = find_offsets(self._cluster, {partition: EARLIEST})[partition]
        end = find_offsets(self._cluster, {partition: LATEST})[partition]
        return KafkaError(
            code,
            f"offset {self._left[partition].start} of {partition.topic}-{partition.partition} is "
            f"out of range: it has {start} up to {end}",
        )

    def _read(self, partition: TopicPartition, data: PartitionData) -> Iterator[Received]:
        records = data.records or b""
        assert not isinstance(records, FileSlice)
        span = self._left[partition]
        for position, header in visible_batches(records, data, self._isolation):
            if position is not None:
                check_crc(records, position, header)
                for record in read_records(records, position, header, bytes_max=INFLATED_BYTES_MAX):
                    if record.offset < span.start:
                        continue
                    if span.end is not None and record.offset >= span.end:
                        break
                    written_by = header.producer_id, header.base_sequence
                    yield Received(*partition, record, header.timestamp_type, *written_by)
            span = Span(max(header.next_offset, span.start), span.end)
            self._left[partition] = span
            if span.is_empty:
                break
        if span.is_empty:
            del self._left[partition]

    def _lose(
        self,
        connection: Connection,
        spans: Mapping[TopicPartition, Span],
        failed: Unreachable,
        errors: dict[TopicPartition, KafkaError],
    ) -> None:
        self._cluster.forget(connection)
        lost = KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the leader is not reachable: {failed}")
        errors.update(dict.fromkeys(spans, lost))

    def _settle(self, errors: Mapping[TopicPartition, KafkaError]) -> None:
        """Look for new leaders where that may help, for as long as we have patience."""
        if not errors:
            self._failing_since = None
            return
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        for error in errors.values():
            if not is_passing(error) or now - self._failing_since > self._cluster.settings.patience:
                raise error
        time.sleep(BACKOFF)
        try:
            self._cluster.refresh({partition.topic for partition in errors})
        except Unreachable:
            if now - self._failing_since > self._cluster.settings.patience:
                raise


def visible_batches(
    records: Buffer, data: PartitionData, isolation: Isolation
) -> Iterator[tuple[int | None, BatchHeader]]:
    """The whole batches of an answer: where each is, or None where none of it is to be seen."""
    pending = sorted(data.aborted_transactions or (), key=lambda each: each.first_offset)
    aborting: set[int] = set()
    for position, header in iterate_batches(records, torn_tail_allowed=True):
        while pending and pending[0].first_offset <= header.last_offset:
            aborting.add(pending.pop(0).producer_id)
        if header.is_control:
            if header.producer_id in aborting and _is_abort(records, position, header):
                aborting.discard(header.producer_id)
            yield None, header
        elif (
            isolation is Isolation.READ_COMMITTED
            and header.is_transactional
            and header.producer_id in aborting
        ):
            yield None, header
        else:
            yield position, header


def _is_abort(records: Buffer, position: int, header: BatchHeader) -> bool:
    marker = next(read_records(records, position, header), None)
    return marker is not None and decode_control_type(marker.key) == ControlType.ABORT
