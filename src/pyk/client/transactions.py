"""Transactions as their coordinators know them, listed, described and ended (KIP-664)."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyk.client.cluster import BACKOFF, Cluster
from pyk.client.connection import Connection
from pyk.client.coordinators import PASSING, KeyType, ask_coordinators
from pyk.client.topics import refusal
from pyk.errors import ErrorCode, KafkaError
from pyk.types import TopicPartition, Versions
from pyk.wire.apis import ApiKey
from pyk.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from pyk.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from pyk.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
STATES: Final = ("Empty", *OPEN_STATES, "CompleteCommit", "CompleteAbort")

_LIST: Final = Versions(0, 2)
_LIST_BY_DURATION: Final = Versions(1, 2)
"""Since Kafka 3.8."""
_LIST_BY_PATTERN: Final = 2
"""Since Kafka 4.1."""
_INIT: Final = Versions(0, 5)
"""What comes after is for two-phase commit (KIP-939)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which transactions to list. Where nothing is said, all."""

    states: Collection[str] = ()
    producer_ids: Collection[int] = ()
    longer_than_ms: int | None = None
    """Only those that are open, and for longer than that."""
    pattern: str | None = None
    """A regular expression that the whole transactional id matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None
    partitions: tuple[TopicPartition, ...]

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_STATES


def list_transactions(cluster: Cluster, filters: Filters = Filters()) -> list[Listed]:
    """Those of all brokers, by id. Raise KafkaError, Unreachable."""
    found = [
        each
        for broker in cluster.metadata(()).brokers
        for each in _list_transactions_of(cluster, broker.node_id, filters)
    ]
    return sorted(found, key=lambda each: each.transactional_id)


def _list_transactions_of(cluster: Cluster, broker_id: int, filters: Filters) -> list[Listed]:
    connection = cluster.broker(broker_id)
    wanted = _LIST if filters.longer_than_ms is None else _LIST_BY_DURATION
    version = connection.version_of(ApiKey.LIST_TRANSACTIONS, wanted)
    knows_patterns = version >= _LIST_BY_PATTERN
    request = ListTransactionsRequest(
        state_filters=list(filters.states),
        producer_id_filters=list(filters.producer_ids),
        duration_filter=-1 if filters.longer_than_ms is None else filters.longer_than_ms,
        transactional_id_pattern=filters.pattern if knows_patterns else None,
    )
    shape = _shape(None if knows_patterns else filters.pattern)
    deadline = time.monotonic() + cluster.settings.patience
    of_broker = partial(cluster.broker, broker_id)
    while True:
        answer = cluster.ask(request, ListTransactionsResponse, of=of_broker)
        if not answer.error_code:
            return [
                Listed(
                    transactional_id=each.transactional_id,
                    coordinator=broker_id,
                    producer_id=each.producer_id,
                    state=each.transaction_state,
                )
                for each in answer.transaction_states
                if shape.fullmatch(each.transactional_id)
            ]
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.INVALID_REGULAR_EXPRESSION:
            raise KafkaError(code, f"{filters.pattern!r} is not a regular expression")
        if code not in PASSING or time.monotonic() > deadline:
            raise KafkaError(
                code, f"broker {broker_id} does not list its transactions: {code.name}"
            )
        time.sleep(BACKOFF)


def describe_transactions(
    cluster: Cluster, transactional_ids: Iterable[str]
) -> dict[str, Transaction | KafkaError]:
    """What is known of each."""

    def ask(coordinator: Connection, asked: list[str]) -> dict[str, TransactionState]:
        request = DescribeTransactionsRequest(transactional_ids=asked)
        answer = coordinator.ask(request, DescribeTransactionsResponse)
        return {each.transactional_id: each for each in answer.transaction_states}

    wanted = list(dict.fromkeys(transactional_ids))
    results = ask_coordinators(cluster, wanted, ask, _error_of, KeyType.TRANSACTION)
    described: dict[str, Transaction | KafkaError] = {}
    for name in wanted:
        found = results[name]
        if isinstance(found, KafkaError):
            described[name] = found
        else:
            described[name] = _transaction(found, cluster.coordinators[KeyType.TRANSACTION, name])
    return described


def fence(cluster: Cluster, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
    """End what is open under the id, and let its producer write no more. The producer id and epoch
    that are next. The id is made if it is not there, and keeps `timeout_ms` as its time-out. Raise
    KafkaError."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )

    def ask(coordinator: Connection, asked: list[str]) -> dict[str, InitProducerIdResponse]:
        version = coordinator.version_of(ApiKey.INIT_PRODUCER_ID, _INIT)
        return {asked[0]: coordinator.ask(request, InitProducerIdResponse, version=version)}

    deadline = time.monotonic() + cluster.settings.patience
    while True:
        results = ask_coordinators(cluster, [transactional_id], ask, _error_of, KeyType.TRANSACTION)
        found = results[transactional_id]
        if not isinstance(found, KafkaError):
            return found.producer_id, found.producer_epoch
        # So it is said while partitions are told.
        is_ending = found.code is ErrorCode.CONCURRENT_TRANSACTIONS
        if not is_ending or time.monotonic() > deadline:
            raise found
        time.sleep(BACKOFF)


def _error_of(found: TransactionState | InitProducerIdResponse) -> KafkaError | None:
    return refusal(found.error_code)


def _transaction(found: TransactionState, coordinator: int) -> Transaction:
    return Transaction(
        transactional_id=found.transactional_id,
        coordinator=coordinator,
        state=found.transaction_state,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        started_ms=found.transaction_start_time_ms
        if found.transaction_start_time_ms >= 0
        else None,
        partitions=tuple(
            sorted(
                TopicPartition(topic.topic, number)
                for topic in found.topics
                for number in topic.partitions
            )
        ),
    )


def _shape(pattern: str | None) -> re.Pattern[str]:
    """Raise KafkaError if it is no regular expression."""
    try:
        return re.compile(".*" if pattern is None else pattern, re.DOTALL)
    except re.error as wrong:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"{pattern!r} is not a regular expression: {wrong}",
        ) from wrong
