"""EndTxn, v0-5: commit a transaction, or abort it. Since v5 the producer gets its next epoch."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.coordinator.transactions.ending import End
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import then
from pyk.handlers.transaction_calls import check_transactional_id
from pyk.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(
    request: EndTxnRequest, call: Call, broker: Context
) -> EndTxnResponse | Awaitable[EndTxnResponse]:
    check_transactional_id(request.transactional_id)
    version = 2 if takes_the_epoch_with_it(call) else 0
    end = End(request.producer_id, request.producer_epoch, request.committed, version)

    def refused(refusal: KafkaError) -> EndTxnResponse:
        code = refusal.code
        if code is ErrorCode.PRODUCER_FENCED and not knows_fencing(call):
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return EndTxnResponse(error_code=code)

    try:
        outcome = broker.transactions.execute_with_spare(
            request.transactional_id,
            lambda machine, spare, ticket, now: machine.end(
                request.transactional_id, end, spare, ticket, now
            ),
        )
    except KafkaError as refusal:
        return refused(refusal)
    return then(outcome, lambda response: response, refused)


def refuse(request: EndTxnRequest, refusal: KafkaError) -> EndTxnResponse:
    return EndTxnResponse(error_code=refusal.code)


def takes_the_epoch_with_it(call: Call) -> bool:
    """KIP-890."""
    return call.version >= 5


def knows_fencing(call: Call) -> bool:
    """KIP-588."""
    return call.version >= 2
