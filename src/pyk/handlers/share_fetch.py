"""ShareFetch, v1-2: records for one member of a share group alone, for a time (KIP-932).

    session -> acknowledgements -> what is there? -> enough? -> hand it out -> persist -> answer
                                        ^              |
                                        +-- wait for more, or until the time is up

What is there is looked at first, and handed out only when it is enough to answer with. What a
member accepts and what it is handed for it are persisted together.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from inspect import isawaitable
from typing import Final, NamedTuple, TypeAlias

import trio

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.acknowledgements import (
    PARTITIONS_AT_ONCE,
    Acknowledged,
    Outcome,
    acknowledges,
    hear,
    hear_in_turns,
    is_wide,
    knows_renewal,
    release,
    session_key,
)
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.parked import Parked
from pyk.handlers.share_calls import check_enabled
from pyk.metadata.image import Topic
from pyk.sharing.handout import NOTHING, Handed, Seen, Wish
from pyk.sharing.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    SessionKey,
    SharedPartition,
    ShareSession,
)
from pyk.sharing.share import Share
from pyk.types import Uuid
from pyk.wire.messages.share_fetch import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

RECORD_LIMIT: Final = 1
"""The mode in which the number of records is a limit, and not a hint (KIP-1206)."""

ROUNDS: Final = 8
"""How often to look further where all that was there is for nobody, such as aborted records, before
others have their turn."""

NO_LEADER: Final = LeaderIdAndEpoch(leader_id=0, leader_epoch=0)

Result: TypeAlias = Handed | KafkaError
Results: TypeAlias = dict[SharedPartition, Result]
Later: TypeAlias = Coroutine[None, None, ShareFetchResponse]


class Fetch(NamedTuple):
    """One request on its way."""

    session: ShareSession
    partitions: list[SharedPartition]
    """Those to fetch from, in turn."""
    acknowledged: Acknowledged
    is_first: bool
    is_last: bool


def handle(
    request: ShareFetchRequest, call: Call, broker: Context
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    check_enabled(broker)
    key = session_key(request.group_id, request.member_id)
    is_renewal = knows_renewal(call) and request.is_renew_ack
    if is_renewal:
        _check_renewal(request)
    try:
        session = _session(request, key, call, broker)
    except KafkaError as refusal:
        if refusal.code is ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return _refuse_slowly(request, refusal)
        raise
    epoch = request.share_session_epoch
    is_last = epoch == FINAL_EPOCH
    partitions = [] if is_last or is_renewal else session.in_turn(epoch)
    fetch = Fetch(session, partitions, Acknowledged(), epoch == INITIAL_EPOCH, is_last)
    is_many = len(partitions) > PARTITIONS_AT_ONCE or is_wide(request.topics)
    if is_many or any(_without_log(each, broker) for each in partitions):
        return _begin_in_turns(fetch, request, call, broker, is_renewal=is_renewal)
    if acknowledges(request.topics):
        acknowledged = hear(request.topics, key, call, broker, is_renewal=is_renewal)
        acknowledged.keep(records_max=request.max_records if partitions else 0)
        fetch = fetch._replace(acknowledged=acknowledged)
    return _read(fetch, request, broker)


async def _begin_in_turns(
    fetch: Fetch, request: ShareFetchRequest, call: Call, broker: Context, *, is_renewal: bool
) -> ShareFetchResponse:
    """Some partitions at a time: to read the state of one that is new here takes a while."""
    key = fetch.session.key
    if acknowledges(request.topics):
        heard = await hear_in_turns(request.topics, key, call, broker, is_renewal=is_renewal)
        fetch = fetch._replace(acknowledged=heard)
    missing = [found for each in fetch.partitions if (found := _without_log(each, broker))]
    if missing:
        await broker.ensure_logs_in_time(missing)
    for count, partition in enumerate(fetch.partitions, start=1):
        with suppress(KafkaError):  # The reader hears it again.
            _share(key.group_id, partition, broker)
        if count % PARTITIONS_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
    response = _read(fetch, request, broker)
    return await response if isawaitable(response) else response


def _read(
    fetch: Fetch, request: ShareFetchRequest, broker: Context
) -> ShareFetchResponse | Awaitable[ShareFetchResponse]:
    acknowledged, is_last = fetch.acknowledged, fetch.is_last
    reader = Reader(request, fetch, broker)
    results = None
    try:
        if not acknowledged.pending and not is_last:
            results = reader.read(is_late=request.max_wait_ms <= 0)
    finally:
        acknowledged.keep()
    if results is not None:
        return _finish(results, fetch, reader, broker)
    if acknowledged.pending or is_last:
        return _fetch_later(fetch, reader, request, broker)
    return _park(fetch, reader, request, broker)


def refuse(request: ShareFetchRequest, refusal: KafkaError) -> ShareFetchResponse:
    return ShareFetchResponse(
        error_code=refusal.code,
        acquisition_lock_timeout_ms=0,
        responses=[],
        node_endpoints=[],
    )


def _check_renewal(request: ShareFetchRequest) -> None:
    """Nothing is fetched with it. Raise KafkaError."""
    fields = {
        "maxBytes": request.max_bytes,
        "minBytes": request.min_bytes,
        "maxRecords": request.max_records,
        "maxWaitMs": request.max_wait_ms,
    }
    wrong = [f"{name} must be set to 0, " for name, value in fields.items() if value]
    if wrong:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "".join(wrong) + "if isRenewAck is true.")


def _session(
    request: ShareFetchRequest, key: SessionKey, call: Call, broker: Context
) -> ShareSession:
    """Raise KafkaError."""
    epoch, sessions = request.share_session_epoch, broker.shares.sessions
    if epoch == FINAL_EPOCH:
        return sessions.find(key)
    wanted = [
        SharedPartition(topic.topic_id, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    ]
    if epoch == INITIAL_EPOCH:
        if acknowledges(request.topics):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if not sessions.knows(call.peer):
            call.peer.when_gone(lambda: broker.shares.on_disconnect(call.peer))
        return sessions.begin(key, wanted, call.peer)
    forgotten = [
        SharedPartition(topic.topic_id, number)
        for topic in request.forgotten_topics_data
        for number in topic.partitions
    ]
    return sessions.go_on(key, epoch, wanted, forgotten)


async def _refuse_slowly(request: ShareFetchRequest, refusal: KafkaError) -> ShareFetchResponse:
    """Who is refused for want of room would ask again at once."""
    await trio.sleep(max(request.max_wait_ms, 0) / 1000)
    return refuse(request, refusal)


class Reader:
    """Looks at partitions, and hands out what they have, up to the limits of one request."""

    def __init__(self, request: ShareFetchRequest, fetch: Fetch, broker: Context) -> None:
        key = fetch.session.key
        self.shares: dict[SharedPartition, Share] = {}
        self.waits: dict[SharedPartition, Awaitable[None]] = {}
        """What was handed out may be sent when these are over."""
        self._joined: set[SharedPartition] = set()
        """Where what is accepted is persisted with what is handed out."""
        self._acknowledged = fetch.acknowledged
        self._wish = Wish(
            key.member_id,
            request.max_records,
            request.batch_size,
            request.share_acquire_mode == RECORD_LIMIT,
        )
        self._max_bytes = min(request.max_bytes, broker.settings.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)
        self.goes_on = False
        """Whether there is no need to wait for more, but others should have their turn."""
        self._refusals: Results = {}
        for each in fetch.partitions:
            try:
                self.shares[each] = _share(key.group_id, each, broker)
            except KafkaError as refusal:
                self._refusals[each] = refusal

    def read(self, *, is_late: bool) -> Results | None:
        """What is handed out, or None if it is worth waiting for more. `is_late` is when anything
        will do."""
        if not self.shares or self._max_bytes <= 0 or self._wish.records_max <= 0:
            return self._refusals
        self.goes_on = False
        for _ in range(ROUNDS):
            seen, size, results = self._look()
            if not results and not is_late and size < max(self._min_bytes, 1):
                return None
            self._hand_out(seen, results)
            is_news = has_moved = False
            for result in results.values():
                is_news = is_news or isinstance(result, KafkaError) or bool(result.acquired)
                has_moved = has_moved or (isinstance(result, Handed) and result.has_moved)
            if is_news or not has_moved:
                break
        else:
            self.goes_on = True
        if is_news or is_late:
            return {**dict.fromkeys(self.shares, NOTHING), **results, **self._refusals}
        return None

    def _look(self) -> tuple[dict[SharedPartition, Seen], int, Results]:
        """What is there, up to the first partition that has enough by itself, or as much as is
        handed out at a time, and its size. Each may have as much of the answer as the others."""
        bytes_max = max(self._max_bytes // len(self.shares), 1)
        found: dict[SharedPartition, Seen] = {}
        failed: Results = {}
        size, is_alone = 0, len(self.shares) == 1
        for partition, share in self.shares.items():
            try:
                seen = share.look(bytes_max)
            except KafkaError as refusal:
                failed[partition] = refusal
                continue
            if seen is not None:
                found[partition] = seen
                size += seen.piece.records.size
                if is_alone or size < self._min_bytes:
                    continue
                is_full = len(found) >= PARTITIONS_AT_ONCE
                if is_full or share.offers(seen, self._wish.records_max):
                    break
        return found, size, failed

    def _hand_out(self, found: dict[SharedPartition, Seen], results: Results) -> None:
        left = self._wish.records_max
        for count, (partition, seen) in enumerate(found.items()):
            if left <= 0 or count == PARTITIONS_AT_ONCE:
                break  # Those that are left are first in the session's next request.
            wish = self._wish
            if left < wish.records_max:
                wish = wish._replace(records_max=left)
            share = self.shares[partition]
            accepted = self._acknowledged.take(partition, share)
            if accepted is not None:
                self._joined.add(partition)
            try:
                handed, wait = share.hand_out(seen, wish, accepted)
            except KafkaError as refusal:
                self._refuse(partition, refusal, results)
                continue
            results[partition] = handed
            left -= handed.records_count
            if wait is not None:
                self.waits[partition] = wait

    async def finish(self, results: Results) -> None:
        """Wait until everything may be sent."""
        for partition, wait in self.waits.items():
            try:
                await wait
            except KafkaError as refusal:
                self._refuse(partition, refusal, results)

    def _refuse(self, partition: SharedPartition, refusal: KafkaError, results: Results) -> None:
        results[partition] = refusal
        if partition in self._joined:
            self._acknowledged.outcomes[partition] = refusal


def _share(group_id: str, partition: SharedPartition, broker: Context) -> Share:
    topic = broker.image.topic_by_id(partition.topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not 0 <= partition.partition < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return broker.shares.of(group_id, topic, partition.partition)


def _without_log(partition: SharedPartition, broker: Context) -> tuple[Topic, int] | None:
    """The partition, if its log is not there or not open."""
    topic = broker.image.topic_by_id(partition.topic_id)
    if topic is not None:
        with suppress(KafkaError):  # The reader hears it again.
            if broker.replicas.begun(topic, partition.partition) is None:
                return topic, partition.partition
    return None


async def _fetch_later(
    fetch: Fetch, reader: Reader, request: ShareFetchRequest, broker: Context
) -> ShareFetchResponse:
    await fetch.acknowledged.settle()
    response: ShareFetchResponse = await _park(fetch, reader, request, broker)
    if fetch.is_last:
        await release(fetch.session, broker)
    return response


def _park(fetch: Fetch, reader: Reader, request: ShareFetchRequest, broker: Context) -> Parked:
    def attempt(is_late: bool) -> ShareFetchResponse | Later | None:
        results = reader.read(is_late=is_late)
        if results is not None:
            return _finish(results, fetch, reader, broker)
        if reader.goes_on:
            parked.wake()
        return None

    deadline = trio.current_time() + request.max_wait_ms / 1000
    watched = list(reader.shares.values())
    parked = Parked(broker.news, attempt, watched, deadline)
    return parked


def _finish(
    results: Results, fetch: Fetch, reader: Reader, broker: Context
) -> ShareFetchResponse | Later:
    if reader.waits or fetch.acknowledged.pending:
        return _finish_later(results, fetch, reader, broker)
    return _answer(results, fetch, broker)


async def _finish_later(
    results: Results, fetch: Fetch, reader: Reader, broker: Context
) -> ShareFetchResponse:
    await reader.finish(results)
    await fetch.acknowledged.settle()
    return _answer(results, fetch, broker)


def _answer(results: Results, fetch: Fetch, broker: Context) -> ShareFetchResponse:
    told: Results = {}
    for partition, result in results.items():
        if _is_told(partition, result, fetch.session) or fetch.is_first:
            told[partition] = result
    for partition in fetch.acknowledged.outcomes:
        told.setdefault(partition, NOTHING)
    topics: dict[Uuid, ShareFetchableTopicResponse] = {}
    for partition, result in told.items():
        refusal = fetch.acknowledged.outcomes.get(partition)
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = ShareFetchableTopicResponse(topic_id=partition.topic_id, partitions=[])
            topics[partition.topic_id] = topic
        topic.partitions.append(_partition_data(partition.partition, result, refusal))
    terms = broker.shares.terms_of(fetch.session.key.group_id)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=terms.lock_timeout_ms,
        responses=list(topics.values()),
        node_endpoints=[],
    )


def _is_told(partition: SharedPartition, result: Result, session: ShareSession) -> bool:
    if isinstance(result, KafkaError):
        return session.is_told(partition, has_records=False, is_error=True)
    return session.is_told(partition, has_records=bool(result.acquired), is_error=False)


def _partition_data(number: int, result: Result, refusal: Outcome) -> PartitionData:
    error = result if isinstance(result, KafkaError) else None
    handed = NOTHING if isinstance(result, KafkaError) else result
    return PartitionData(
        partition_index=number,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        acknowledge_error_code=ErrorCode.NONE if refusal is None else refusal.code,
        acknowledge_error_message=None if refusal is None else refusal.message,
        current_leader=NO_LEADER,
        records=handed.records,
        acquired_records=[
            AcquiredRecords(
                first_offset=each.first_offset,
                last_offset=each.last_offset,
                delivery_count=each.delivery_count,
            )
            for each in handed.acquired
        ],
    )
