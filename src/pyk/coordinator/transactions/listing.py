"""What is told of transactions to those who look after them (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pyk.coordinator.consumer import regular_expressions
from pyk.coordinator.transactions.transaction import TITLES, Transaction
from pyk.turns import Work
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
) -> Work[list[Listed]]:
    """Raise KafkaError if the pattern is none."""
    found, is_wanted = [], _filter(request, now_ms)
    if request.transactional_id_pattern:
        transactions = yield from _with_ids_like(request.transactional_id_pattern, transactions)
    for transaction in transactions:
        if is_wanted(transaction):
            found.append(
                Listed(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.status.title,
                )
            )
        yield
    return found


def _with_ids_like(pattern: str, transactions: Iterable[Transaction]) -> Work[list[Transaction]]:
    regular_expressions.check(pattern)
    by_id = {transaction.transactional_id: transaction for transaction in transactions}
    found = set[str]()
    for _ in regular_expressions.tried(pattern, by_id, found):
        yield
    return [by_id[name] for name in sorted(found)]


def _filter(request: ListTransactionsRequest, now_ms: int) -> Callable[[Transaction], bool]:
    statuses = {TITLES.get(title) for title in request.state_filters}
    producer_ids = set(request.producer_id_filters)
    duration_ms = request.duration_filter

    def is_wanted(transaction: Transaction) -> bool:
        return (
            (not statuses or transaction.status in statuses)
            and (not producer_ids or transaction.producer_id in producer_ids)
            and (duration_ms < 0 or now_ms - transaction.started_ms > duration_ms)
        )

    return is_wanted
