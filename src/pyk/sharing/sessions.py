"""Share sessions: which partitions a member of a share group fetches from.

A session belongs to a member, and ends with the connection that it began on: what its member holds
is then for others. Its epoch counts requests, so that one that comes twice is noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from pyk.errors import ErrorCode, KafkaError
from pyk.types import Uuid

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_INT32_MAX: Final = 2**31 - 1


class SharedPartition(NamedTuple):
    """A partition, as share sessions name it."""

    topic_id: Uuid
    partition: int


class SessionKey(NamedTuple):
    group_id: str
    member_id: str


class ShareSession:
    __slots__ = ("connection", "epoch", "key", "partitions")

    def __init__(self, key: SessionKey, connection: object) -> None:
        self.key = key
        self.connection = connection
        """The session ends with it."""
        self.epoch = _next(INITIAL_EPOCH)
        """That of the request to come."""
        self.partitions: dict[SharedPartition, bool] = {}
        """Each with whether the next answer has to mention it, be there news or not."""

    def in_turn(self, epoch: int) -> list[SharedPartition]:
        """Those that are fetched from, with another one first in each request."""
        partitions = list(self.partitions)
        if epoch < 1 or len(partitions) < 2:
            return partitions
        first = epoch % len(partitions)
        return partitions[first:] + partitions[:first]

    def is_told(self, partition: SharedPartition, *, has_records: bool, is_error: bool) -> bool:
        """Whether an answer mentions the partition. An error is followed up in the next one."""
        was_owed = self.partitions.get(partition)
        if was_owed is None:
            return True
        if is_error != was_owed:
            self.partitions[partition] = is_error
        if has_records:
            # What had records is asked last the next time.
            self.partitions[partition] = self.partitions.pop(partition)
        return has_records or was_owed or is_error


class ShareSessions:
    def __init__(self, sessions_max: Callable[[], int]) -> None:
        self._sessions_max = sessions_max
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_group: Counter[str] = Counter()
        self._by_connection: dict[object, dict[SessionKey, ShareSession]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        return group_id in self._by_group

    def begin(
        self, key: SessionKey, wanted: Iterable[SharedPartition], connection: object
    ) -> ShareSession:
        """A new session, also in the place of one that the member had. Raise KafkaError."""
        before = self._sessions.get(key)
        if before is not None:
            self.end(before)
        if len(self._sessions) >= self._sessions_max():
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[key] = ShareSession(key, connection)
        self._by_group[key.group_id] += 1
        self._by_connection.setdefault(connection, {})[key] = session
        session.partitions = dict.fromkeys(wanted, False)
        return session

    def go_on(
        self,
        key: SessionKey,
        epoch: int,
        wanted: Iterable[SharedPartition] = (),
        forgotten: Iterable[SharedPartition] = (),
    ) -> ShareSession:
        """The session, with partitions more and partitions less. Raise KafkaError."""
        session = self.find(key)
        if session.epoch != epoch:
            raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        for partition in wanted:
            session.partitions.setdefault(partition, True)
        for partition in forgotten:
            session.partitions.pop(partition, None)
        session.epoch = _next(session.epoch)
        return session

    def find(self, key: SessionKey) -> ShareSession:
        """Raise KafkaError."""
        session = self._sessions.get(key)
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        return session

    def end(self, session: ShareSession) -> bool:
        """Whether it was there: its member may have begun another."""
        if self._sessions.get(session.key) is not session:
            return False
        del self._sessions[session.key]
        self._by_group[session.key.group_id] -= 1
        if not self._by_group[session.key.group_id]:
            del self._by_group[session.key.group_id]
        self._by_connection.get(session.connection, {}).pop(session.key, None)
        return True

    def has(self, key: SessionKey) -> bool:
        return key in self._sessions

    def knows(self, connection: object) -> bool:
        """Whether a session ever began on it."""
        return connection in self._by_connection

    def forget(self, connection: object) -> list[ShareSession]:
        """It is gone. Those that began on it and have not ended."""
        return list(self._by_connection.pop(connection, {}).values())


def _next(epoch: int) -> int:
    return 1 if epoch == _INT32_MAX else epoch + 1
