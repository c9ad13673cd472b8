"""DescribeTransactions, v0: where transactions are, by their transactional ids (KIP-664)."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import then, together
from pyk.handlers.transaction_calls import check_transactional_id
from pyk.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(
    request: DescribeTransactionsRequest, call: Call, broker: Context
) -> DescribeTransactionsResponse | Awaitable[DescribeTransactionsResponse]:
    outcomes = (_described(each, broker) for each in request.transactional_ids)
    return together(
        outcomes, lambda states: DescribeTransactionsResponse(transaction_states=states)
    )


def refuse(
    request: DescribeTransactionsRequest, refusal: KafkaError
) -> DescribeTransactionsResponse:
    states = [_refused(each, refusal.code) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=states)


def _described(
    transactional_id: str, broker: Context
) -> TransactionState | Awaitable[TransactionState]:
    def refused(refusal: KafkaError) -> TransactionState:
        return _refused(transactional_id, refusal.code)

    try:
        check_transactional_id(transactional_id)
        outcome = broker.transactions.execute(
            transactional_id,
            lambda machine, ticket, now: machine.describe(transactional_id, ticket, now),
        )
    except KafkaError as refusal:
        return refused(refusal)
    return then(outcome, lambda state: state, refused)


def _refused(transactional_id: str, code: ErrorCode) -> TransactionState:
    return TransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=[],
    )
