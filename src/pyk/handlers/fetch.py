"""Fetch, v4-18: record batches from an offset on, now or when there are enough.

session -> what is wanted -> read -> enough? -> answer what is new
                               ^       |
                               +-- wait until a partition has more, or the time is up
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import trio
from msgspec import Struct

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.parked import Parked
from pyk.log.epochs import UNDEFINED
from pyk.replication.fetch_sessions import Asked, Fetch, PartitionKey
from pyk.replication.partition import Isolation, Partition
from pyk.types import Records, Uuid
from pyk.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

UNKNOWN: Final = -1


class Read(Struct):
    """What was found of a partition, or why not."""

    error_code: int = ErrorCode.NONE
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    aborted: list[AbortedTransaction] | None = None
    records: Records = b""
    diverging: EpochEndOffset | None = None
    partition: Partition | None = None
    fetch_offset: int = UNKNOWN
    end_offset: int = UNKNOWN
    """Where the next batch after the records begins."""

    @property
    def has_records(self) -> bool:
        return len(self.records) > 0

    @property
    def has_more_to_say(self) -> bool:
        return self.has_records or self.diverging is not None


Results: TypeAlias = list[tuple[PartitionKey, Read]]


def handle(
    request: FetchRequest, call: Call, broker: Context
) -> FetchResponse | Awaitable[FetchResponse]:
    fetch = _begin(request, call, broker)
    reader = Reader(request, call, broker)
    results = reader.read(fetch.wanted)
    if request.max_wait_ms <= 0 or reader.is_enough(results):
        return _answer(fetch, results, reader)

    def attempt(is_late: bool) -> FetchResponse | None:
        results = reader.read(fetch.wanted)
        if is_late or reader.is_enough(results):
            return _answer(fetch, results, reader)
        return None

    deadline = trio.current_time() + request.max_wait_ms / 1000
    return Parked(broker.news, attempt, reader.partitions(fetch.wanted), deadline)


def refuse(request: FetchRequest, refusal: KafkaError) -> FetchResponse:
    return FetchResponse(error_code=refusal.code, responses=[])


def uses_topic_ids(call: Call) -> bool:
    """KIP-516."""
    return call.version >= 13


def _begin(request: FetchRequest, call: Call, broker: Context) -> Fetch:
    by_id = uses_topic_ids(call)
    asked = []
    for topic in request.topics:
        for each in topic.partitions:
            wanted = Asked(
                each.fetch_offset,
                each.partition_max_bytes,
                each.current_leader_epoch,
                each.last_fetched_epoch,
                each.log_start_offset,
            )
            asked.append((_key(topic, each.partition, by_id=by_id), wanted))
    forgotten = [
        _key(topic, number, by_id=by_id)
        for topic in request.forgotten_topics_data
        for number in topic.partitions
    ]
    return broker.fetch_sessions().begin(
        request.session_id,
        request.session_epoch,
        asked,
        forgotten,
        uses_topic_ids=by_id,
        now_ms=broker.now_ms(),
    )


def _key(topic: FetchTopic | ForgottenTopic, partition: int, *, by_id: bool) -> PartitionKey:
    if by_id:
        return PartitionKey.identified(topic.topic_id, partition)
    return PartitionKey.named(topic.topic, partition)


class Reader:
    """Reads partitions in the order of a session, up to the limits of one request."""

    def __init__(self, request: FetchRequest, call: Call, broker: Context) -> None:
        self._broker = broker
        self._client_id = call.client_id or ""
        self._min_bytes = request.min_bytes
        limit = broker.settings.config.fetch_max_bytes
        self._max_bytes = min(request.max_bytes, limit)
        self._isolation = Isolation(request.isolation_level == Isolation.READ_COMMITTED)

    def read(self, wanted: Sequence[tuple[PartitionKey, Asked]]) -> Results:
        results: Results = []
        left, is_first = self._max_bytes, True
        for key, asked in wanted:
            # The first batch of all is sent whatever its size, or a reader could never go on.
            size_max = min(asked.bytes_max, left)
            found = self._read(key, asked, size_max)
            if len(found.records) > size_max and not is_first:
                found.records, found.aborted = b"", [] if found.aborted is not None else None
            is_first = is_first and not found.has_records
            left = max(left - len(found.records), 0)
            results.append((key, found))
        return results

    def is_enough(self, results: Results) -> bool:
        """Whether there is no point in waiting for more."""
        if not results or sum(len(read.records) for _, read in results) >= self._min_bytes:
            return True
        return any(read.error_code or read.diverging is not None for _, read in results)

    def partitions(self, wanted: Sequence[tuple[PartitionKey, Asked]]) -> list[Partition]:
        """Those that are there."""
        found = []
        for key, _ in wanted:
            with suppress(KafkaError):
                found.append(self._find(key))
        return found

    def _read(self, key: PartitionKey, asked: Asked, size_max: int) -> Read:
        try:
            partition = self._find(key)
        except KafkaError as refusal:
            return Read(error_code=refusal.code, aborted=[])
        try:
            partition.check_leader_epoch(asked.current_leader_epoch)
            diverging = _diverging(partition, asked)
            if diverging is not None:
                return self._found(partition, Read(diverging=diverging))
            piece, aborted, _ = partition.fetch(asked.fetch_offset, size_max, self._isolation)
        except KafkaError as refusal:
            return Read(error_code=refusal.code)
        read = self._found(partition, Read())
        if piece is not None:
            read.records, read.end_offset = piece.records, piece.end_offset
            read.fetch_offset = asked.fetch_offset
        if aborted is not None:
            read.aborted = [
                AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
                for each in aborted
            ]
        return read

    def note_sent(self, read: Read) -> None:
        partition = read.partition
        if partition is not None and read.has_records:
            partition.bytes_out += len(read.records)
            partition.readers.note(
                self._client_id, read.fetch_offset, read.end_offset, self._broker.now_ms()
            )

    def _find(self, key: PartitionKey) -> Partition:
        broker = self._broker
        topic = broker.topic_named(key.topic) if key.topic else broker.topic_of_id(key.topic_id)
        return broker.replicas.leader_of(topic, key.partition)

    def _found(self, partition: Partition, read: Read) -> Read:
        offsets = partition.offsets
        read.partition = partition
        read.high_watermark = offsets.high_watermark
        read.last_stable_offset = offsets.last_stable
        read.log_start_offset = offsets.start
        return read


def _diverging(partition: Partition, asked: Asked) -> EpochEndOffset | None:
    """Where the reader's log leaves ours, if the epoch of its last record shows that (KIP-595)."""
    if asked.last_fetched_epoch < 0:
        return None
    end = partition.end_of_epoch(asked.last_fetched_epoch)
    if end == UNDEFINED:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"no epoch up to {asked.last_fetched_epoch} is known"
        )
    if end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
        return EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return None


def _answer(fetch: Fetch, results: Results, reader: Reader) -> FetchResponse:
    answer = fetch.answer(results)
    topics: dict[tuple[str, Uuid], list[PartitionData]] = {}
    for key, read in answer.results:
        reader.note_sent(read)
        topics.setdefault((key.topic, key.topic_id), []).append(_partition_data(key, read))
    return FetchResponse(
        session_id=answer.session_id,
        responses=[
            FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in topics.items()
        ],
    )


def _partition_data(key: PartitionKey, read: Read) -> PartitionData:
    return PartitionData(
        partition_index=key.partition,
        error_code=read.error_code,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=read.aborted,
        records=read.records,
        diverging_epoch=read.diverging or EpochEndOffset(),
    )
