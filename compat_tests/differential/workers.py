"""Members of a share group on each side, each on a connection of its own, with which it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from compat_tests.differential.comparison import Comparison
from compat_tests.differential.sides import HUNG_UP, Side, until
from pyk.wire.apis import ApiKey
from pyk.wire.messages.find_coordinator import FindCoordinatorRequest
from pyk.wire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
    PartitionData,
)
from pyk.wire.messages.share_acknowledge import (
    AcknowledgementBatch as Acknowledged,
)
from pyk.wire.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from pyk.wire.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    ShareFetchRequest,
)
from tests.clients.raw import RawClient

FETCH, ACKNOWLEDGE = ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE
Batch = tuple[int, int, list[int]]
"""The first offset and the last, and what is said of them."""
Said = dict[str, dict[int, Sequence[Batch]]]
"""By topics and the numbers of partitions."""
FETCHED = (FetchTopic, FetchPartition, AcknowledgementBatch)
ACKNOWLEDGED = (AcknowledgeTopic, AcknowledgePartition, Acknowledged)
LONG_MS, SHORT_MS = 5000, 50
RELEASE = 2


def initialise(compare: Comparison, group: str, topic: str, partitions: int = 1) -> None:
    """Let the group begin with partitions at 0, as its coordinator does."""
    compare.sides.each(lambda side: _initialise(side, group, topic, partitions))


def _initialise(side: Side, group: str, topic: str, partitions: int) -> None:
    find = FindCoordinatorRequest(
        key_type=2, coordinator_keys=[f"{group}:AAAAAAAAAAAAAAAAAAAAAQ:0"]
    )
    until(lambda: not side.ask(ApiKey.FIND_COORDINATOR, 6, find).coordinators[0].error_code)
    data = [
        PartitionData(partition=number, state_epoch=0, start_offset=0)
        for number in range(partitions)
    ]
    request = InitializeShareGroupStateRequest(
        group_id=group,
        topics=[InitializeStateData(topic_id=side.id_of(topic), partitions=data)],
    )

    def is_done() -> bool:
        answer = side.ask(ApiKey.INITIALIZE_SHARE_GROUP_STATE, 0, request)
        return not any(p.error_code for t in answer.results for p in t.partitions)

    until(is_done)


class Worker:
    """The same member at both sides."""

    def __init__(
        self, compare: Comparison, group: str, name: str, version: int, clients: list[RawClient]
    ) -> None:
        self._compare, self._group, self._name, self._version = compare, group, name, version
        self._clients = clients
        self.epoch = 0

    def fetch(
        self,
        case: str,
        topics: Said | None = None,
        forgotten: dict[str, list[int]] | None = None,
        *,
        epoch: int | None = None,
        waits: bool = True,
        **more: Any,
    ) -> Any:
        """What pyk answers. Each topic has its partitions with what is acknowledged of them."""

        def make(side: Side) -> ShareFetchRequest:
            options = {
                "group_id": self._group,
                "member_id": self._name,
                "max_wait_ms": LONG_MS if waits else SHORT_MS,
                "min_bytes": 1,
                "max_bytes": 2**20,
                "max_records": 500,
                "batch_size": 500,
                **more,
            }
            return ShareFetchRequest(
                share_session_epoch=self.epoch if epoch is None else epoch,
                topics=_topics(FETCHED, side, topics or {}),
                forgotten_topics_data=[
                    ForgottenTopic(topic_id=side.id_of(topic), partitions=numbers)
                    for topic, numbers in (forgotten or {}).items()
                ],
                **options,
            )

        return self._ask(FETCH, case, make, epoch)

    def acknowledge(
        self,
        case: str,
        topics: Said | None = None,
        *,
        epoch: int | None = None,
        **more: Any,
    ) -> Any:
        def make(side: Side) -> ShareAcknowledgeRequest:
            options = {"group_id": self._group, "member_id": self._name, **more}
            return ShareAcknowledgeRequest(
                share_session_epoch=self.epoch if epoch is None else epoch,
                topics=_topics(ACKNOWLEDGED, side, topics or {}),
                **options,
            )

        return self._ask(ACKNOWLEDGE, case, make, epoch)

    def _ask(self, key: ApiKey, case: str, make: Any, epoch: int | None) -> Any:
        answers, plain = [], []
        for side, client in zip(self._compare.sides, self._clients, strict=True):
            try:
                answer = client.ask(key, self._version, make(side))
            except (EOFError, ConnectionResetError):
                answer = HUNG_UP
            answers.append(answer)
            plain.append(_spread(side.plain(answer)))
        self._compare.judge(f"{key.name} v{self._version} {case}", *plain)
        if epoch is None and not answers[1].error_code:
            self.epoch += 1
        return answers[1]


@contextmanager
def worker(compare: Comparison, group: str, name: str, version: int) -> Iterator[Worker]:
    clients = [RawClient(side.address) for side in compare.sides]
    try:
        yield Worker(compare, group, name, version, clients)
    finally:
        for client in clients:
            client.__exit__(None, None, None)


def released(side: Side, group: str, topic: str) -> Iterator[dict[int, int]]:
    """What one member is handed that releases all of it, again and again, until there is no more:
    how often each offset was delivered."""
    member: dict[str, Any] = {"group_id": group, "member_id": "ann"}
    limits: dict[str, Any] = {"min_bytes": 1, "max_bytes": 2**20}
    limits |= {"max_records": 500, "batch_size": 500}
    with RawClient(side.address) as client:
        epoch, wait_ms = 0, LONG_MS
        while True:
            fetch = ShareFetchRequest(
                share_session_epoch=epoch,
                max_wait_ms=wait_ms,
                topics=_topics(FETCHED, side, {topic: {0: []}}),
                forgotten_topics_data=[],
                **member,
                **limits,
            )
            answer = client.ask(FETCH, 1, fetch)
            ranges = [
                (each.first_offset, each.last_offset, each.delivery_count)
                for response in answer.responses
                for partition in response.partitions
                for each in partition.acquired_records
            ]
            if not ranges:
                return
            yield {
                offset: count for first, last, count in ranges for offset in range(first, last + 1)
            }
            back = [(first, last, [RELEASE]) for first, last, _ in ranges]
            request = ShareAcknowledgeRequest(
                share_session_epoch=epoch + 1,
                topics=_topics(ACKNOWLEDGED, side, {topic: {0: back}}),
                **member,
            )
            assert not client.ask(ACKNOWLEDGE, 1, request).error_code
            epoch, wait_ms = epoch + 2, 10 * SHORT_MS


def _topics(kinds: tuple[Any, Any, Any], side: Side, said: Said) -> list[Any]:
    """As one API has it, with its messages for a topic, a partition and a batch."""
    topic_kind, partition_kind, batch_kind = kinds
    return [
        topic_kind(
            topic_id=side.id_of(topic),
            partitions=[
                partition_kind(
                    partition_index=number,
                    acknowledgement_batches=[
                        batch_kind(first_offset=first, last_offset=last, acknowledge_types=how)
                        for first, last, how in batches
                    ],
                )
                for number, batches in partitions.items()
            ],
        )
        for topic, partitions in said.items()
    ]


def _spread(value: Any) -> Any:
    """With a number of deliveries for each offset: how they are put together is a side's own."""
    if isinstance(value, list):
        return sorted((_spread(each) for each in value), key=repr)
    if not isinstance(value, dict):
        return value
    spread = {name: _spread(each) for name, each in value.items()}
    if "acquired_records" in value:
        spread["acquired_records"] = [
            (offset, each["delivery_count"])
            for each in value["acquired_records"]
            for offset in range(each["first_offset"], each["last_offset"] + 1)
        ]
    return spread
