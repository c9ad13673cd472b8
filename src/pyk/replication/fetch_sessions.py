"""Fetch sessions (KIP-227): a consumer says once what it reads, and is told only what has changed.

    FetchSessions.begin(request) -> Fetch.wanted -> read them -> Fetch.answer(results)

- A full fetch names all partitions. If it wants a session and there is room for one, it gets one.
- An incremental fetch names what it adds, changes or forgets. Its answer leaves out partitions of
  which nothing is new.
- Partitions that had something go to the end of their session, so that none is starved when the
  answer is full before its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct, field

from pyk.errors import ErrorCode, KafkaError
from pyk.types import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from random import Random

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
"""Of a fetch that wants no session, or ends the one it has."""
INITIAL_EPOCH: Final = 0
EVICTION_MS: Final = 120_000
"""A session that was not used for so long makes room for another."""

_INT32_MAX: Final = 2**31 - 1
_UNKNOWN: Final = -1


class PartitionKey(NamedTuple):
    """By name before version 13 of Fetch, by id since."""

    topic: str
    topic_id: Uuid
    partition: int

    @classmethod
    def named(cls, topic: str, partition: int) -> PartitionKey:
        return cls(topic, ZERO_UUID, partition)

    @classmethod
    def identified(cls, topic_id: Uuid, partition: int) -> PartitionKey:
        return cls("", topic_id, partition)


class Asked(NamedTuple):
    """What a client wants of a partition."""

    fetch_offset: int
    bytes_max: int
    current_leader_epoch: int = _UNKNOWN
    last_fetched_epoch: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN
    """Of a follower."""


class Result(Protocol):
    """What of an answer says whether there is anything new."""

    @property
    def error_code(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def has_more_to_say(self) -> bool:
        """Whether there are records, another replica to read from, or a log that has diverged."""

    @property
    def has_records(self) -> bool: ...


R = TypeVar("R", bound=Result)


class Cached(Struct):
    """A partition of a session, and what its client was last told."""

    asked: Asked
    high_watermark: int = _UNKNOWN
    log_start_offset: int = _UNKNOWN

    def is_new(self, result: Result) -> bool:
        """Whether the client has to hear of it. It is taken for told then."""
        is_new = result.has_more_to_say
        if result.high_watermark != self.high_watermark:
            self.high_watermark = result.high_watermark
            is_new = True
        if result.log_start_offset != self.log_start_offset:
            self.log_start_offset = result.log_start_offset
            is_new = True
        if result.error_code:
            # So that it hears of the partition again as soon as the error is over.
            self.high_watermark = _UNKNOWN
            is_new = True
        return is_new


class Session(Struct):
    session_id: int
    uses_topic_ids: bool
    last_used_ms: int
    epoch: int = INITIAL_EPOCH + 1
    """Of the next fetch."""
    partitions: dict[PartitionKey, Cached] = field(default_factory=dict)

    def update(self, asked: Iterable[tuple[PartitionKey, Asked]]) -> None:
        for key, wanted in asked:
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = Cached(wanted)
            else:
                known.asked = wanted

    def move_to_end(self, key: PartitionKey) -> None:
        self.partitions[key] = self.partitions.pop(key)


class Answer(NamedTuple, Generic[R]):
    session_id: int
    results: list[tuple[PartitionKey, R]]


class Fetch(Struct):
    """One request: what it wants, and what of the results it is to be told."""

    wanted: list[tuple[PartitionKey, Asked]]
    session: Session | None
    is_incremental: bool
    _create: Callable[[Sequence[tuple[PartitionKey, Asked]]], Session | None]

    def answer(self, results: Sequence[tuple[PartitionKey, R]]) -> Answer[R]:
        if not self.is_incremental:
            session = self._create(self.wanted)
            for key, result in results:
                if session is not None:
                    session.partitions[key].is_new(result)
            return Answer(session.session_id if session else NO_SESSION, list(results))
        session = self.session
        assert session is not None
        told = []
        for key, result in results:
            cached = session.partitions.get(key)
            if cached is not None and cached.is_new(result):
                told.append((key, result))
                if result.has_records:
                    session.move_to_end(key)
        return Answer(session.session_id, told)


class FetchSessions:
    def __init__(self, slots: int, rng: Random) -> None:
        self.slots = slots
        self._rng = rng
        self._sessions: dict[int, Session] = {}
        """The one that was used longest ago first."""

    def __len__(self) -> int:
        return len(self._sessions)

    def partitions_of(self, session_id: int) -> list[PartitionKey]:
        """What the session reads, if there is one."""
        session = self._sessions.get(session_id)
        return [] if session is None else list(session.partitions)

    def begin(
        self,
        session_id: int,
        epoch: int,
        asked: Sequence[tuple[PartitionKey, Asked]],
        forgotten: Iterable[PartitionKey],
        *,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> Fetch:
        """Raise KafkaError: the client then begins a session anew."""
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            self._sessions.pop(session_id, None)
            wants_session = epoch == INITIAL_EPOCH

            def create(wanted: Sequence[tuple[PartitionKey, Asked]]) -> Session | None:
                return self._create(wanted, uses_topic_ids, now_ms) if wants_session else None

            return Fetch(list(dict(asked).items()), None, False, create)
        session = self._find(session_id, epoch, uses_topic_ids)
        session.update(asked)
        for key in forgotten:
            session.partitions.pop(key, None)
        del self._sessions[session_id]
        if not session.partitions:
            return Fetch([], None, False, lambda _: None)
        session.epoch = 1 if session.epoch == _INT32_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        self._sessions[session_id] = session
        wanted = [(key, cached.asked) for key, cached in session.partitions.items()]
        return Fetch(wanted, session, True, lambda _: None)

    def _find(self, session_id: int, epoch: int, uses_topic_ids: bool) -> Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise KafkaError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"there is no fetch session {session_id}"
            )
        if session.epoch != epoch:
            raise KafkaError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {session_id} is at epoch {session.epoch}, and not {epoch}",
            )
        if session.uses_topic_ids != uses_topic_ids:
            raise KafkaError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                f"fetch session {session_id} has begun with topic "
                + ("ids" if session.uses_topic_ids else "names"),
            )
        return session

    def _create(
        self, wanted: Sequence[tuple[PartitionKey, Asked]], uses_topic_ids: bool, now_ms: int
    ) -> Session | None:
        if len(self._sessions) >= self.slots and not self._evict(now_ms):
            return None
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._rng.randint(1, _INT32_MAX)
        session = Session(session_id, uses_topic_ids, now_ms)
        session.update(wanted)
        self._sessions[session_id] = session
        return session

    def _evict(self, now_ms: int) -> bool:
        """Whether there is room for one more, because one was not used for long."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            del self._sessions[oldest.session_id]
            return True
        return False
