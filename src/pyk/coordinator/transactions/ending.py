"""How a transaction ends: what a client may ask for, in both versions of transactions.

In v1 a transaction is named by producer id and epoch, which the next one has too. So a request that
comes late may end the next one: the known hole of v1. In v2 (KIP-890) the end takes the epoch with
it. The same epoch is the next transaction, and the epoch before is a request that is sent again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyk.coordinator.transactions.transaction import LAST_EPOCH, NONE, Status, Transaction
from pyk.errors import ErrorCode, KafkaError

_PREPARED: Final = {True: Status.PREPARE_COMMIT, False: Status.PREPARE_ABORT}
_COMPLETE: Final = {True: Status.COMPLETE_COMMIT, False: Status.COMPLETE_ABORT}


class End(NamedTuple):
    """What a client asks for."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    transaction_version: int


class ProducerIdNeeded(NamedTuple):
    """An answer of the machine: it cannot decide without a new producer id. Ask again with one."""


def prepared(
    current: Transaction, end: End, spare: int | None, now_ms: int
) -> Transaction | ProducerIdNeeded | None:
    """What the transaction becomes. None if it has become that before. Raise KafkaError."""
    if ends_with_a_new_epoch(end.transaction_version):
        return _prepared_v2(current, end, spare, now_ms)
    return _prepared_v1(current, end, now_ms)


def fenced(current: Transaction, transaction_version: int, now_ms: int) -> Transaction:
    """The transaction is to be aborted and its producer must not write any more."""
    return current.becomes(
        Status.PREPARE_ABORT,
        now_ms,
        producer_epoch=current.producer_epoch + 1,
        next_producer_id=NONE,
        client_version=transaction_version if ends_with_a_new_epoch(transaction_version) else 0,
    )


def ends_with_a_new_epoch(transaction_version: int) -> bool:
    return transaction_version >= 2


def _prepared_v1(current: Transaction, end: End, now_ms: int) -> Transaction | None:
    if end.producer_id != current.producer_id:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not current.is_held_by(end.producer_epoch):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    status = current.status
    if status is Status.ONGOING:
        return current.becomes(
            _PREPARED[end.is_commit], now_ms, next_producer_id=NONE, client_version=0
        )
    if status is _COMPLETE[end.is_commit]:
        return None
    if status is _PREPARED[end.is_commit]:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    raise _not_now(current, end)


def _prepared_v2(
    current: Transaction, end: End, spare: int | None, now_ms: int
) -> Transaction | ProducerIdNeeded | None:
    is_repeated = _is_repeated(current, end)
    if end.producer_id != current.producer_id and not is_repeated:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    status = current.status
    is_current = current.is_held_by(end.producer_epoch) and not status.is_prepared
    if not is_current and not (is_repeated and status not in (Status.ONGOING, Status.EMPTY)):
        raise KafkaError(ErrorCode.PRODUCER_FENCED)
    if status is _PREPARED[end.is_commit]:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if is_repeated:
        if status is _COMPLETE[end.is_commit]:
            return None
        raise _not_now(current, end)
    if end.is_commit and status is not Status.ONGOING:
        raise _not_now(current, end)
    if current.is_exhausted and spare is None:
        return ProducerIdNeeded()
    assert spare is not None or not current.is_exhausted
    return current.becomes(
        _PREPARED[end.is_commit],
        now_ms,
        producer_epoch=current.producer_epoch + 1,
        next_producer_id=spare if spare is not None and current.is_exhausted else NONE,
        client_version=end.transaction_version,
        # One that nothing was added to has not begun, and Kafka wants all to have a beginning.
        started_ms=current.started_ms if status is Status.ONGOING else now_ms,
    )


def _is_repeated(current: Transaction, end: End) -> bool:
    """Whether the request is for the transaction that was ended last."""
    if not ends_with_a_new_epoch(current.client_version):
        return False
    if end.producer_id == current.producer_id:
        return end.producer_epoch == current.producer_epoch - 1
    return (
        end.producer_id == current.previous_producer_id
        and end.producer_epoch == LAST_EPOCH - 1
        and current.producer_epoch == 0
    )


def _not_now(current: Transaction, end: End) -> KafkaError:
    wanted = "committed" if end.is_commit else "aborted"
    return KafkaError(
        ErrorCode.INVALID_TXN_STATE,
        f"{current.transactional_id} is {current.status.title} and cannot be {wanted}",
    )
