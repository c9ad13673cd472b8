"""FindCoordinator, v0-6: who looks after a group, the transactions of an id, a share partition.

The topic that these live on is made when it is first needed, and the answer waits for it. Kafka
makes it too, but answers that there is no coordinator, and the client asks again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from pyk.coordinator.share_state.key import SharePartitionKey
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.call import Call
from pyk.handlers.context import Context
from pyk.turns import Work, answered, in_turns
from pyk.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from pyk.coordinator.shards import Shards

NOBODY = -1


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


def handle(
    request: FindCoordinatorRequest, call: Call, broker: Context
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    keys = request.coordinator_keys if asks_for_many(call) else [request.key]
    try:
        coordinator = _coordinator(request.key_type, call, broker)
    except KafkaError as refusal:
        return _answer(call, [_refused(key, refusal) for key in keys])
    work = _answers(keys, request.key_type, coordinator, call, broker)
    if coordinator.has_topic or _is_nothing(keys, request.key_type):
        return answered(work)
    return _create_and_answer(keys, coordinator, call, work)


def refuse(request: FindCoordinatorRequest, refusal: KafkaError) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=refusal.code,
        error_message=refusal.message,
        node_id=NOBODY,
        port=NOBODY,
        coordinators=[_refused(key, refusal) for key in request.coordinator_keys],
    )


def asks_for_many(call: Call) -> bool:
    """KIP-699."""
    return call.version >= 4


def knows_share_groups(call: Call) -> bool:
    """KIP-932."""
    return call.version >= 6


def _coordinator(key_type: int, call: Call, broker: Context) -> Shards[Any]:
    """Raise KafkaError."""
    if key_type == KeyType.GROUP:
        return broker.groups
    if key_type == KeyType.TRANSACTION:
        return broker.transactions.shards
    if key_type == KeyType.SHARE and knows_share_groups(call):
        return broker.share_coordinator.shards
    raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key_type} is no kind of coordinator")


def _checked(key: str, key_type: int) -> str | KafkaError:
    """The key as its coordinator writes it."""
    if key_type != KeyType.SHARE:
        return key
    try:
        return SharePartitionKey.parse(key).text
    except ValueError as error:
        return KafkaError(ErrorCode.INVALID_REQUEST, str(error))


def _is_nothing(keys: list[str], key_type: int) -> bool:
    """Whether there are keys, and no coordinator for any of them."""
    return bool(keys) and all(isinstance(_checked(key, key_type), KafkaError) for key in keys)


async def _create_and_answer(
    keys: list[str], coordinator: Shards[Any], call: Call, work: Work[FindCoordinatorResponse]
) -> FindCoordinatorResponse:
    try:
        await coordinator.create_topic()
    except KafkaError as refusal:
        return _answer(call, [_refused(key, refusal) for key in keys])
    return await in_turns(work)


def _answers(
    keys: list[str], key_type: int, coordinator: Shards[Any], call: Call, broker: Context
) -> Work[FindCoordinatorResponse]:
    found = []
    for key in keys:
        found.append(_found(key, _checked(key, key_type), coordinator, call, broker))
        yield
    return _answer(call, found)


def _found(
    key: str, checked: str | KafkaError, coordinator: Shards[Any], call: Call, broker: Context
) -> Coordinator:
    if isinstance(checked, KafkaError):
        return _refused(key, checked)
    if not coordinator.has_topic:
        return _refused(key, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    leader = broker.image.brokers.get(coordinator.coordinator_of(checked))
    if leader is None:
        return _refused(key, KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    host, port = broker.address_of(leader, call.peer)
    return Coordinator(key=key, node_id=leader.broker_id, host=host, port=port)


def _refused(key: str, refusal: KafkaError) -> Coordinator:
    return Coordinator(
        key=key,
        node_id=NOBODY,
        port=NOBODY,
        error_code=refusal.code,
        error_message=str(refusal),
    )


def _answer(call: Call, coordinators: list[Coordinator]) -> FindCoordinatorResponse:
    if asks_for_many(call):
        return FindCoordinatorResponse(coordinators=coordinators)
    (only,) = coordinators
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message if only.error_code else ErrorCode.NONE.name,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )
