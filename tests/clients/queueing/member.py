"""A member of a share group on the wire, which asks what a client asks, one thing at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pyk.errors import ErrorCode
from pyk.sharing.delivery import Acknowledge
from pyk.types import Uuid
from pyk.wire.apis import ApiKey
from pyk.wire.batch import iterate_batches
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pyk.wire.messages.share_fetch import AcknowledgementBatch as FetchedBatch
from pyk.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from pyk.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from pyk.wire.records import read_records
from tests.clients.raw import RawClient

if TYPE_CHECKING:
    from types import TracebackType

PATIENCE: Final = 60.0
PAUSE: Final = 0.01
ACCEPT: Final = [int(Acknowledge.ACCEPT)]


class Refused(Exception):
    """The broker has an error in place of an answer."""


class Partition(NamedTuple):
    topic_id: Uuid
    number: int


class Said(NamedTuple):
    """Of offsets of a partition, all the same or one by one."""

    partition: Partition
    first: int
    last: int
    types: list[int] = ACCEPT


class Got(NamedTuple):
    """Offsets that are the member's now."""

    partition: Partition
    first: int
    last: int
    delivery_count: int


class Record(NamedTuple):
    partition: Partition
    offset: int
    delivery_count: int
    value: bytes


class Member:
    def __init__(self, address: str, group: str, topic: str, name: str) -> None:
        self._raw = RawClient(address)
        self._group, self._topic, self._name = group, topic, name
        self._epoch = 0
        self._session_epoch = 0
        self.assigned: list[Partition] = []
        self._fetched: list[Partition] = []
        """Those that the session has."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._raw.__exit__(kind, error, trace)

    def fileno(self) -> int:
        return self._raw.fileno()

    def join(self) -> None:
        """Until there is something to fetch from."""
        deadline = time.monotonic() + PATIENCE
        self._raw.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key=self._group))
        while not self.assigned:
            assert time.monotonic() < deadline, "no partitions"
            self.heartbeat()
            if not self.assigned:
                time.sleep(PAUSE)

    def heartbeat(self) -> bool:
        """Whether the coordinator is there."""
        request = ShareGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._name,
            member_epoch=self._epoch,
            subscribed_topic_names=None if self._epoch else [self._topic],
        )
        answer = self._raw.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
        if answer.error_code:
            return False
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self.assigned = [
                Partition(topic.topic_id, number)
                for topic in answer.assignment.topic_partitions
                for number in topic.partitions
            ]
        return True

    def fetch(
        self, said: Sequence[Said] = (), *, records_max: int = 500, max_wait_ms: int = 500
    ) -> tuple[list[Got], list[tuple[Partition, Any]]]:
        """What it gets, with the batches that it is in. Raise Refused."""
        self.ask_for(said, records_max=records_max, max_wait_ms=max_wait_ms)
        return self.receive()

    def ask_for(
        self, said: Sequence[Said] = (), *, records_max: int = 500, max_wait_ms: int = 500
    ) -> None:
        batches: dict[Partition, list[FetchedBatch]] = {}
        for partition, first, last, types in said:
            batch = FetchedBatch(first_offset=first, last_offset=last, acknowledge_types=types)
            batches.setdefault(partition, []).append(batch)
        new = [each for each in self.assigned if each not in self._fetched]
        self._fetched += new
        topics: dict[Uuid, list[FetchPartition]] = {}
        for each in dict.fromkeys([*new, *batches]):
            wanted = FetchPartition(
                partition_index=each.number, acknowledgement_batches=batches.get(each, [])
            )
            topics.setdefault(each.topic_id, []).append(wanted)
        request = ShareFetchRequest(
            group_id=self._group,
            member_id=self._name,
            share_session_epoch=self._session_epoch,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_records=records_max,
            batch_size=records_max,
            topics=[FetchTopic(topic_id=id, partitions=found) for id, found in topics.items()],
            forgotten_topics_data=[],
        )
        self._session_epoch += 1
        self._raw.send(ApiKey.SHARE_FETCH, 1, request)

    def receive(self) -> tuple[list[Got], list[tuple[Partition, Any]]]:
        """Raise Refused."""
        answer = self._raw.receive(ApiKey.SHARE_FETCH, 1)
        _check(answer.error_code)
        got: list[Got] = []
        records: list[tuple[Partition, Any]] = []
        for topic in answer.responses:
            for each in topic.partitions:
                _check(each.error_code)
                _check(each.acknowledge_error_code)
                partition = Partition(topic.topic_id, each.partition_index)
                got += [
                    Got(partition, a.first_offset, a.last_offset, a.delivery_count)
                    for a in each.acquired_records
                ]
                if each.records:
                    records.append((partition, each.records))
        return got, records

    def acknowledge(self, said: Sequence[Said]) -> None:
        """Raise Refused."""
        topics: dict[Uuid, dict[int, list[AcknowledgementBatch]]] = {}
        for (topic_id, number), first, last, types in said:
            batch = AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=types
            )
            topics.setdefault(topic_id, {}).setdefault(number, []).append(batch)
        request = ShareAcknowledgeRequest(
            group_id=self._group,
            member_id=self._name,
            share_session_epoch=self._session_epoch,
            topics=[
                AcknowledgeTopic(
                    topic_id=topic_id,
                    partitions=[
                        AcknowledgePartition(partition_index=number, acknowledgement_batches=found)
                        for number, found in numbers.items()
                    ],
                )
                for topic_id, numbers in topics.items()
            ],
        )
        self._session_epoch += 1
        answer = self._raw.ask(ApiKey.SHARE_ACKNOWLEDGE, 1, request)
        _check(answer.error_code)
        for topic in answer.responses:
            for each in topic.partitions:
                _check(each.error_code)


def records_of(got: Sequence[Got], found: Sequence[tuple[Partition, Any]]) -> Iterator[Record]:
    """Those of the batches that are the member's."""
    for partition, data in found:
        counts = {
            offset: each.delivery_count
            for each in got
            if each.partition == partition
            for offset in range(each.first, each.last + 1)
        }
        records = bytes(data)
        for position, header in iterate_batches(records, torn_tail_allowed=False):
            for record in read_records(records, position, header):
                if record.offset in counts:
                    count = counts[record.offset]
                    yield Record(partition, record.offset, count, record.value or b"")


def _check(code: int) -> None:
    if code:
        raise Refused(ErrorCode(code).name)
