"""What is told of transactions to those who look after them (KIP-664)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from pyk.coordinator.transactions.transaction import TITLES, Transaction
from pyk.errors import ErrorCode, KafkaError
from pyk.wire.messages.describe_transactions import TopicData
from pyk.wire.messages.describe_transactions import TransactionState as Described
from pyk.wire.messages.list_transactions import ListTransactionsRequest
from pyk.wire.messages.list_transactions import TransactionState as Listed

_PASSING: Final = ("Dead", "PrepareEpochFence")
"""Names that Kafka has for moments in which no transaction can be seen here."""


def described(transaction: Transaction) -> Described:
    return Described(
        transactional_id=transaction.transactional_id,
        transaction_state=transaction.status.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=[
            TopicData(topic=topic, partitions=partitions)
            for topic, partitions in transaction.by_topic()
        ],
    )


def unknown_states(request: ListTransactionsRequest) -> list[str]:
    known = {*TITLES, *_PASSING}
    return [title for title in request.state_filters if title not in known]


def listed(
    transactions: Iterable[Transaction], request: ListTransactionsRequest, now_ms: int
) -> Iterator[Listed]:
    """Raise KafkaError."""
    is_wanted = _filter(request, now_ms)
    for transaction in transactions:
        if is_wanted(transaction):
            yield Listed(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.status.title,
            )


def _filter(request: ListTransactionsRequest, now_ms: int) -> Callable[[Transaction], bool]:
    statuses = {TITLES.get(title) for title in request.state_filters}
    producer_ids = set(request.producer_id_filters)
    duration_ms = request.duration_filter
    pattern = _pattern(request.transactional_id_pattern)

    def is_wanted(transaction: Transaction) -> bool:
        return (
            (not statuses or transaction.status in statuses)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (duration_ms < 0 or now_ms - transaction.started_ms > duration_ms)
            and (pattern is None or pattern.fullmatch(transaction.transactional_id) is not None)
        )

    return is_wanted


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if not text:
        return None
    try:
        return re.compile(text)
    except re.error as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None
