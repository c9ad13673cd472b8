"""InitProducerId, v0-5: an id for a producer, idempotent or transactional."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.handlers.group_calls import then
from pyk.handlers.transaction_calls import check_transactional_id
from pyk.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NONE = -1


def handle(
    request: InitProducerIdRequest, call: Call, broker: Context
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together")
    if request.transactional_id is not None:
        return _transactional(request, call, broker)
    producer_id = broker.producer_ids.take()
    if producer_id is not None:
        return _answer(producer_id)
    return _wait(broker)


def refuse(request: InitProducerIdRequest, refusal: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=refusal.code, producer_epoch=NONE)


def knows_fencing(call: Call) -> bool:
    """KIP-588."""
    return call.version >= 4


def _transactional(
    request: InitProducerIdRequest, call: Call, broker: Context
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    transactional_id = request.transactional_id
    check_transactional_id(transactional_id)
    assert transactional_id

    def refused(refusal: KafkaError) -> InitProducerIdResponse:
        code = refusal.code
        if code is ErrorCode.PRODUCER_FENCED and not knows_fencing(call):
            code = ErrorCode.INVALID_PRODUCER_EPOCH
        return InitProducerIdResponse(error_code=code, producer_epoch=NONE)

    try:
        outcome = broker.transactions.execute_with_spare(
            transactional_id,
            lambda machine, spare, ticket, now: machine.init_producer(request, spare, ticket, now),
        )
    except KafkaError as refusal:
        return refused(refusal)
    return then(outcome, lambda response: response, refused)


async def _wait(broker: Context) -> InitProducerIdResponse:
    return _answer(await broker.producer_ids.take_or_wait())


def _answer(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
