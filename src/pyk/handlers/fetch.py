"""Fetch, v4-18: record batches from an offset on, now or when there are enough.

session -> what is wanted -> read -> enough? -> answer what is new
                               ^       |
                               +-- wait until a partition has more, or the time is up
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Final, TypeAlias

import trio
from msgspec import Struct

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.parked import News, Parked
from pyk.log.epochs import UNDEFINED
from pyk.metadata.image import Topic
from pyk.replication.fetch_sessions import Asked, Fetch, PartitionKey
from pyk.replication.partition import Isolation, Partition
from pyk.replication.unused import Unused
from pyk.turns import Work, answered, at_once, in_turns
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
FEW: Final = 8
"""So many partitions are all read again when one of them has more."""
MEASURED_AT_ONCE: Final = 100
"""How many of others, before somebody else has a turn."""

Readable: TypeAlias = Partition | Unused


class Read(Struct):
    """What was found of a partition, or why not."""

    error_code: int = ErrorCode.NONE
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    aborted: list[AbortedTransaction] | None = None
    records: Records = b""
    diverging: EpochEndOffset | None = None
    partition: Readable | None = None
    fetch_offset: int = UNKNOWN
    end_offset: int = UNKNOWN
    """Where the next batch after the records begins."""

    @property
    def has_records(self) -> bool:
        return len(self.records) > 0

    @property
    def has_more_to_say(self) -> bool:
        return self.has_records or self.diverging is not None

    @property
    def says_enough(self) -> bool:
        """Whether the client has to hear of it, whatever there is of others."""
        return bool(self.error_code) or self.diverging is not None


Results: TypeAlias = list[tuple[PartitionKey, Read]]


def handle(
    request: FetchRequest, call: Call, broker: Context
) -> FetchResponse | Awaitable[FetchResponse]:
    fetch = _begin(request, call, broker)
    reader = Reader(request, call, broker)
    results = answered(reader.read(fetch.wanted))
    if isinstance(results, list) and not reader.closed:
        return _respond(fetch, results, reader, request)
    return _respond_later(fetch, results, reader, request)


async def _respond_later(
    fetch: Fetch, results: Results | Awaitable[Results], reader: Reader, request: FetchRequest
) -> FetchResponse:
    if not isinstance(results, list):
        results = await results
    if reader.closed:
        await reader.open_closed()
        results = await in_turns(reader.read(fetch.wanted))
    response = _respond(fetch, results, reader, request)
    return await response if isawaitable(response) else response


def _respond(
    fetch: Fetch, results: Results, reader: Reader, request: FetchRequest
) -> FetchResponse | Awaitable[FetchResponse]:
    """Now, if there is enough, or else when there is."""
    if request.max_wait_ms <= 0 or reader.is_enough(results):
        return answered(_answer(fetch, results, reader))
    deadline = trio.current_time() + request.max_wait_ms / 1000
    news = reader.news
    if len(results) > FEW:
        waiting = Waiting(reader, fetch, results)
        parked = Parked(news, waiting.attempt, waiting.watches, deadline)
        waiting.again = parked.wake
        return parked

    def attempt(is_late: bool) -> FetchResponse | Awaitable[FetchResponse] | None:
        results = at_once(reader.read(fetch.wanted))
        if is_late or reader.is_enough(results):
            return at_once(_answer(fetch, results, reader))
        return None

    return Parked(
        news, attempt, [read.partition for _, read in results if read.partition], deadline
    )


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
    return broker.fetch_sessions.begin(
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
        limit = broker.settings.config.fetch_max_bytes
        self._max_bytes = min(request.max_bytes, limit)
        self.min_bytes = min(request.min_bytes, self._max_bytes)
        self._isolation = Isolation(request.isolation_level == Isolation.READ_COMMITTED)
        self.closed: list[tuple[Topic, int]] = []
        """Partitions that could not be read because their logs were not open."""

    async def open_closed(self) -> None:
        closed, self.closed = self.closed, []
        await self._broker.ensure_logs_in_time(closed)

    @property
    def news(self) -> News:
        return self._broker.news

    def read(self, wanted: Sequence[tuple[PartitionKey, Asked]]) -> Work[Results]:
        results: Results = []
        left, is_first = self._max_bytes, True
        for key, asked in wanted:
            # The first batch of all is sent whatever its size, or a reader could never go on.
            size_max = min(asked.bytes_max, left)
            found = self._read(key, asked, size_max)
            yield
            if len(found.records) > size_max and not is_first:
                found.records, found.aborted = b"", [] if found.aborted is not None else None
            is_first = is_first and not found.has_records
            left = max(left - len(found.records), 0)
            results.append((key, found))
        return results

    def is_enough(self, results: Results) -> bool:
        """Whether there is no point in waiting for more."""
        if not results or sum(len(read.records) for _, read in results) >= self.min_bytes:
            return True
        return any(read.says_enough for _, read in results)

    def measure(self, key: PartitionKey, asked: Asked) -> Read:
        """What there is of one partition, whatever there is of others."""
        return self._read(key, asked, min(asked.bytes_max, self._max_bytes))

    def end_of(self, partition: Readable) -> int:
        """Of what the client may read."""
        return partition.visible_end(self._isolation)

    def end_seen(self, read: Read) -> int:
        """The same as it was when it was read: more may have come while others were."""
        if self._isolation is Isolation.READ_COMMITTED:
            return read.last_stable_offset
        return read.high_watermark

    def _read(self, key: PartitionKey, asked: Asked, size_max: int) -> Read:
        partition: Readable | None = None
        try:
            partition = self._find(key)
            partition.check_leader_epoch(asked.current_leader_epoch)
            diverging = _diverging(partition, asked)
            if diverging is not None:
                return self._found(partition, Read(diverging=diverging))
            piece, aborted, _ = partition.fetch(asked.fetch_offset, size_max, self._isolation)
        except Exception as failure:
            where = str(key) if partition is None else str(partition.partition)
            refusal = self._broker.failures.refusal(failure, where)
            return Read(error_code=refusal.code, aborted=[] if partition is None else None)
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
        if isinstance(partition, Partition) and read.has_records:
            partition.bytes_out += len(read.records)
            partition.readers.note(
                self._client_id, read.fetch_offset, read.end_offset, self._broker.now_ms()
            )

    def _find(self, key: PartitionKey) -> Readable:
        broker = self._broker
        topic = broker.topic_named(key.topic) if key.topic else broker.topic_of_id(key.topic_id)
        return broker.replicas.readable(topic, key.partition, self.closed)

    def _found(self, partition: Readable, read: Read) -> Read:
        offsets = partition.offsets
        read.partition = partition
        read.high_watermark = offsets.high_watermark
        read.last_stable_offset = offsets.last_stable
        read.log_start_offset = offsets.start
        return read


class Waiting:
    """A fetch of many partitions that waits: how much there is of each. Only what has woken it is
    looked at again, and when all of it is enough everything is read."""

    def __init__(self, reader: Reader, fetch: Fetch, results: Results) -> None:
        self.watches = [
            _Watch(self, key, asked, read.partition, reader.end_seen(read), len(read.records))
            for (key, asked), (_, read) in zip(fetch.wanted, results, strict=True)
            if read.partition is not None
        ]
        self.again: Callable[[], None] = lambda: None
        """Asks for another attempt."""
        self.woken: list[_Watch] = []
        self.reader = reader
        self._fetch = fetch
        self._bytes = sum(watch.size for watch in self.watches)
        self._is_over = False

    def attempt(self, is_late: bool) -> Awaitable[FetchResponse] | None:
        if not is_late and not self._is_enough():
            return None
        return in_turns(self._read_all())

    def _is_enough(self) -> bool:
        for _ in range(min(len(self.woken), MEASURED_AT_ONCE)):
            watch = self.woken.pop()
            before, read = watch.size, watch.measure()
            self._bytes += watch.size - before
            self._is_over = self._is_over or read.says_enough
        if self._is_over or self._bytes >= self.reader.min_bytes:
            return True
        if self.woken:
            self.again()
        return False

    def _read_all(self) -> Work[FetchResponse]:
        results = yield from self.reader.read(self._fetch.wanted)
        return (yield from _answer(self._fetch, results, self.reader))


class _Watch:
    """One of its partitions."""

    __slots__ = (
        "_asked", "_end", "_is_woken", "_key", "_parked", "_partition", "_waiting", "size",
    )  # fmt: skip

    def __init__(
        self,
        waiting: Waiting,
        key: PartitionKey,
        asked: Asked,
        partition: Readable,
        end: int,
        size: int,
    ) -> None:
        self.size = size
        """The bytes that there were of it."""
        self._waiting = waiting
        self._key = key
        self._asked = asked
        self._partition = partition
        self._end = end
        self._parked: Parked | None = None
        self._is_woken = False

    def add_waiter(self, parked: Parked, /) -> None:
        self._parked = parked
        self._partition.add_waiter(self)
        if self._waiting.reader.end_of(self._partition) != self._end:
            self._note()  # It has come meanwhile.

    def remove_waiter(self, parked: Parked, /) -> None:
        self._parked = None
        self._partition.remove_waiter(self)

    def wake(self) -> None:
        self._note()
        if self._parked is not None:
            self._parked.wake()

    def measure(self) -> Read:
        self._is_woken = False
        read = self._waiting.reader.measure(self._key, self._asked)
        self.size = len(read.records)
        return read

    def _note(self) -> None:
        if not self._is_woken:
            self._is_woken = True
            self._waiting.woken.append(self)


def _diverging(partition: Readable, asked: Asked) -> EpochEndOffset | None:
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


def _answer(fetch: Fetch, results: Results, reader: Reader) -> Work[FetchResponse]:
    answer = fetch.answer(results)
    topics: dict[tuple[str, Uuid], list[PartitionData]] = {}
    for key, read in answer.results:
        reader.note_sent(read)
        topics.setdefault((key.topic, key.topic_id), []).append(_partition_data(key, read))
        yield
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
