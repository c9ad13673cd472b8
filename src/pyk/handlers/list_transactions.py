"""ListTransactions, v0-2: the transactions that this broker looks after (KIP-664)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from pyk.coordinator.transactions.listing import listed, unknown_states
from pyk.errors import KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.turns import Work, answered
from pyk.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)

if TYPE_CHECKING:
    from pyk.coordinator.transactions.transaction import Transaction


def handle(
    request: ListTransactionsRequest, call: Call, broker: Context
) -> ListTransactionsResponse | Awaitable[ListTransactionsResponse]:

    # Those of a shard that could not be loaded are left out.
    shards = [shard for shard in broker.transactions.shards if not shard.has_failed]
    for shard in shards:
        shard.check_loaded()
    transactions = [each for shard in shards for each in shard.machine]
    return answered(_listed(transactions, request, broker.now_ms()))


def _listed(
    transactions: list[Transaction], request: ListTransactionsRequest, now_ms: int
) -> Work[ListTransactionsResponse]:
    states = yield from listed(transactions, request, now_ms)
    return ListTransactionsResponse(
        unknown_state_filters=unknown_states(request), transaction_states=states
    )


def refuse(request: ListTransactionsRequest, refusal: KafkaError) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        error_code=refusal.code, unknown_state_filters=[], transaction_states=[]
    )
