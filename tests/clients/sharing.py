"""A member of a share group that says exactly what it is told to, to any broker."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyk.types import Uuid
from pyk.wire.apis import ApiKey
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pyk.wire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from pyk.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.clients.raw import RawClient

WAIT = 90.0
ACCEPT, RELEASE, REJECT = 1, 2, 3
Acquired = tuple[int, int, int]
"""A partition, the first offset and the last."""


class ShareMember:
    """It has joined, and has been given partitions."""

    def __init__(self, client: RawClient, group: str, *topics: str) -> None:
        self.client, self.group = client, group
        self.member_id = base64.urlsafe_b64encode(b"\0" + os.urandom(15)).decode()[:22]
        self.assigned: dict[Uuid, list[int]] = {}
        self._epoch, self._session = 0, 0
        self._topics: list[str] | None = list(topics)
        request = FindCoordinatorRequest(coordinator_keys=[group])
        self._until(lambda: self._has_a_coordinator(request))
        self._until(self._has_been_given_something)

    def _has_a_coordinator(self, request: FindCoordinatorRequest) -> bool:
        (found,) = self.client.ask(ApiKey.FIND_COORDINATOR, 4, request).coordinators
        return not found.error_code

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT
        while not is_so():
            assert time.monotonic() < deadline

    def _has_been_given_something(self) -> bool:
        answer = self._heartbeat(self._epoch)
        if answer.error_code:
            return False
        self._topics = None
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            given = answer.assignment.topic_partitions
            self.assigned = {each.topic_id: each.partitions for each in given}
        return bool(self.assigned)

    def _heartbeat(self, epoch: int) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=epoch,
            subscribed_topic_names=self._topics,
        )
        answer = self.client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, request)
        assert isinstance(answer, ShareGroupHeartbeatResponse)
        return answer

    def fetch(self, max_records: int = 500) -> list[Acquired]:
        """What it is handed, as soon as there is something."""
        found: list[Acquired] = []
        deadline = time.monotonic() + WAIT
        while not found:
            assert time.monotonic() < deadline
            found = self._fetch(max_records)
        return found

    def _fetch(self, max_records: int) -> list[Acquired]:
        topics = [
            FetchTopic(
                topic_id=topic_id,
                partitions=[
                    FetchPartition(partition_index=number, acknowledgement_batches=[])
                    for number in numbers
                ],
            )
            for topic_id, numbers in self.assigned.items()
        ]
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._session,
            max_wait_ms=500,
            min_bytes=1,
            max_records=max_records,
            batch_size=max_records,
            share_acquire_mode=1,
            topics=topics if self._session == 0 else [],
            forgotten_topics_data=[],
        )
        answer = self.client.ask(ApiKey.SHARE_FETCH, 2, request)
        assert answer.error_code == 0, answer.error_message
        self._session += 1
        return [
            (each.partition_index, span.first_offset, span.last_offset)
            for topic in answer.responses
            for each in topic.partitions
            for span in each.acquired_records
        ]

    def say(self, kind: int, partition: int, first: int, last: int) -> None:
        """Of records of the only topic."""
        (topic_id,) = self.assigned
        said = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        partitions = [
            AcknowledgePartition(partition_index=partition, acknowledgement_batches=[said])
        ]
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self._session,
            topics=[AcknowledgeTopic(topic_id=topic_id, partitions=partitions)],
        )
        answer = self.client.ask(ApiKey.SHARE_ACKNOWLEDGE, 2, request)
        assert answer.error_code == 0, answer.error_message
        ((outcome,),) = [topic.partitions for topic in answer.responses]
        assert outcome.error_code == 0, outcome.error_message
        self._session += 1

    def leave(self) -> None:
        self._heartbeat(-1)


@contextmanager
def share_member(address: str, group: str, *topics: str) -> Iterator[ShareMember]:
    with RawClient(address) as client:
        member = ShareMember(client, group, *topics)
        yield member
        member.leave()
