"""A cluster as a client sees it: who its brokers are, who leads what, and connections to them.

Knowledge goes stale. What a broker refuses for that reason is asked again of whoever the metadata
then names, until `patience` is over.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from pyk.client.address import Address, parse_addresses
from pyk.client.connection import Answer, Connection, Unreachable
from pyk.client.settings import ClientSettings
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition, Uuid
from pyk.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

BACKOFF: Final = 0.1
_ABSENT: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION}
)

Asked = TypeVar("Asked")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: Mapping[int, MetadataResponsePartition]
    """In the order of their numbers."""

    @property
    def all_partitions(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, number) for number in self.partitions]


class Cluster:
    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._brokers: dict[int, Address] = {}
        self._connections: dict[Address, Connection] = {}
        self._topics: dict[str, Topic] = {}
        self._controller_id = -1
        self.coordinators: dict[tuple[int, str], int] = {}
        """The brokers that look after groups and transactional ids, by what they are and their
        names, as far as they are known: see `coordinators`."""

    @classmethod
    def connect(cls, bootstrap: str) -> Self:
        """The cluster of which these addresses, with commas between them, are members."""
        return cls(ClientSettings(bootstrap=parse_addresses(bootstrap)))

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def any_broker(self) -> Connection:
        """Whoever answers: one that is connected, or the first of the bootstrap servers that can
        be. Raise Unreachable."""
        for connection in self._connections.values():
            return connection
        failures = []
        for address in dict.fromkeys((*self.settings.bootstrap, *self._brokers.values())):
            try:
                return self._connected(address)
            except Unreachable as failed:
                failures.append(failed)
        raise failures[0]

    def broker(self, broker_id: int) -> Connection:
        """Raise KafkaError if the cluster has no such broker, Unreachable."""
        if broker_id not in self._brokers:
            self.metadata(())
        if broker_id not in self._brokers:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"there is no broker {broker_id}; there are "
                f"{', '.join(map(str, sorted(self._brokers)))}",
            )
        return self._connected(self._brokers[broker_id])

    def controller(self) -> Connection:
        """Whom to send changes of the cluster to: in a KRaft cluster any broker will do."""
        if self._controller_id < 0:
            self.metadata(())
        if self._controller_id in self._brokers:
            return self.broker(self._controller_id)
        return self.any_broker()

    def ask(
        self,
        request: object,
        answer: type[Answer],
        *,
        of: Callable[[], Connection] | None = None,
        is_repeatable: bool = True,
    ) -> Answer:
        """The answer of any broker, or of the one that `of` finds. A connection that has broken
        meanwhile is made anew, once, and the request sent again. One that is not repeatable means
        another thing if it was carried out already: it is sent only once."""
        find = of or self.any_broker
        connection = find()
        if not is_repeatable and connection.has_ended:
            self.forget(connection)
            connection = find()
        try:
            return connection.ask(request, answer)
        except Unreachable as lost:
            self.forget(connection)
            if not is_repeatable:
                reason = f"{lost.reason}; what was asked for may have been done"
                raise Unreachable(lost.address, reason) from lost
        return find().ask(request, answer)

    def forget(self, connection: Connection) -> None:
        """It is broken."""
        connection.close()
        self._connections.pop(connection.address, None)

    def metadata(
        self, topics: Iterable[str] | None = None, *, may_create: bool = False
    ) -> MetadataResponse:
        """What the cluster says of these topics, or of all of them. Errors are in it."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=may_create)
        answer = self.ask(request, MetadataResponse)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))
        self._brokers = {b.node_id: Address(b.host, b.port) for b in answer.brokers}
        self._controller_id = answer.controller_id
        for found in answer.topics:
            if found.name is not None and not found.error_code:
                self._topics[found.name] = _topic(found)
        return answer

    def topic(self, name: str, *, may_create: bool = False, is_fresh: bool = False) -> Topic:
        """A topic with its leaders, created if the broker does that. Raise KafkaError."""
        if is_fresh:
            self._topics.pop(name, None)
        deadline = time.monotonic() + self.settings.patience
        while name not in self._topics:
            (found,) = self.metadata([name], may_create=may_create).topics
            code = ErrorCode(found.error_code)
            is_coming = code is ErrorCode.LEADER_NOT_AVAILABLE or (
                may_create and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            if code and not (is_coming and time.monotonic() < deadline):
                raise KafkaError(code, _why_not(code, name))
            if code:
                time.sleep(BACKOFF)
        return self._topics[name]

    def leader(self, partition: TopicPartition) -> Connection:
        """Raise KafkaError if the partition has none, or does not exist; Unreachable."""
        topic = self.topic(partition.topic)
        found = topic.partitions.get(partition.partition)
        if found is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{partition.topic} has no partition {partition.partition}; "
                f"it has {len(topic.partitions)}",
            )
        if found.leader_id not in self._brokers:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE,
                f"partition {partition.partition} of {partition.topic} has no leader",
            )
        return self._connected(self._brokers[found.leader_id])

    def ask_leaders(
        self,
        wanted: Mapping[TopicPartition, Asked],
        ask: Callable[[Connection, dict[TopicPartition, Asked]], dict[TopicPartition, Result]],
        error_of: Callable[[Result], KafkaError | None],
    ) -> dict[TopicPartition, Result | KafkaError]:
        """What each partition's leader answers to `ask`. Where that is an error that another
        leader, or time, may mend, it is asked again."""
        results: dict[TopicPartition, Result | KafkaError] = {}
        left = dict(wanted)
        deadline = time.monotonic() + self.settings.patience
        while left:
            found, failed = self._ask_leaders_once(left, ask)
            refused = {p: error for p, result in found.items() if (error := error_of(result))}
            # A broker may not have heard yet of what the metadata has. If that does not have it
            # either, it is not there.
            again = {p for p, error in refused.items() if is_passing(error)}
            again |= {p for p, error in failed.items() if error.code not in _ABSENT}
            again = again if time.monotonic() < deadline else set()
            outcome: dict[TopicPartition, Result | KafkaError] = {**found, **failed, **refused}
            results.update({p: result for p, result in outcome.items() if p not in again})
            left = {p: left[p] for p in again}
            if left:
                time.sleep(BACKOFF)
                # If nobody answers now, somebody may before patience is over.
                with suppress(Unreachable):
                    self.refresh({partition.topic for partition in left})
        return results

    def refresh(self, topics: Iterable[str]) -> None:
        """Forget who leads these, and ask again."""
        names = list(topics)
        for name in names:
            self._topics.pop(name, None)
        self.metadata(names)

    def by_leader(
        self, wanted: Mapping[TopicPartition, Asked]
    ) -> tuple[
        list[tuple[Connection, dict[TopicPartition, Asked]]], dict[TopicPartition, KafkaError]
    ]:
        """The partitions by the connections to their leaders, and those that have none now."""
        groups: dict[Address, dict[TopicPartition, Asked]] = defaultdict(dict)
        failed: dict[TopicPartition, KafkaError] = {}
        for partition, asked in wanted.items():
            try:
                groups[self.leader(partition).address][partition] = asked
            except KafkaError as error:
                failed[partition] = error
            except Unreachable as error:
                failed[partition] = unreachable_leader(error)
        return [(self._connections[address], group) for address, group in groups.items()], failed

    def _ask_leaders_once(
        self,
        wanted: Mapping[TopicPartition, Asked],
        ask: Callable[[Connection, dict[TopicPartition, Asked]], dict[TopicPartition, Result]],
    ) -> tuple[dict[TopicPartition, Result], dict[TopicPartition, KafkaError]]:
        found: dict[TopicPartition, Result] = {}
        groups, failed = self.by_leader(wanted)
        for connection, group in groups:
            try:
                found.update(ask(connection, group))
            except Unreachable as error:
                self.forget(connection)
                failed.update(dict.fromkeys(group, unreachable_leader(error)))
        return found, failed

    def _connected(self, address: Address) -> Connection:
        found = self._connections.get(address)
        if found is None:
            found = self._connections[address] = Connection.open(
                address,
                client_id=self.settings.client_id,
                connect_timeout=self.settings.connect_timeout,
                timeout=self.settings.request_timeout,
            )
        return found


def is_passing(error: KafkaError) -> bool:
    """Whether the same may succeed a little later."""
    return error.code.retriable and error.code is not ErrorCode.CORRUPT_MESSAGE


def unreachable_leader(error: Unreachable) -> KafkaError:
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"its leader is not reachable: {error}")


def _topic(found: MetadataResponseTopic) -> Topic:
    partitions = sorted(found.partitions, key=lambda partition: partition.partition_index)
    return Topic(
        found.name or "",
        found.topic_id,
        found.is_internal,
        {partition.partition_index: partition for partition in partitions},
    )


def _why_not(code: ErrorCode, name: str) -> str:
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"there is no topic {name}"
    if code is ErrorCode.INVALID_TOPIC_EXCEPTION:
        return f"{name!r} cannot be the name of a topic"
    return f"topic {name}: {code.name}"
