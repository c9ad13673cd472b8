"""InitProducerId, v0-5: an id for a producer that is idempotent. Transactions are to come."""

from __future__ import annotations

from collections.abc import Awaitable

from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NONE = -1


def handle(
    request: InitProducerIdRequest, call: Call, broker: Context
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if (request.producer_id == NONE) != (request.producer_epoch == NONE):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a producer id and its epoch come together")
    if request.transactional_id == "":
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "transactions are not served yet")
    producer_id = broker.producer_ids.take()
    if producer_id is not None:
        return _answer(producer_id)
    return _wait(broker)


def refuse(request: InitProducerIdRequest, refusal: KafkaError) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=refusal.code, producer_epoch=NONE)


async def _wait(broker: Context) -> InitProducerIdResponse:
    return _answer(await broker.producer_ids.take_or_wait())


def _answer(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
