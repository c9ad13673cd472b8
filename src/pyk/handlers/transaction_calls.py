"""What handlers of transactions share: who may write to a partition in a transaction (KIP-890)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from enum import Enum, auto
from inspect import isawaitable
from typing import Final, NamedTuple

import trio

from pyk.coordinator.transactions.transactions import Caller
from pyk.errors import ErrorCode, KafkaError
from pyk.handlers.context import Context
from pyk.types import TopicPartition

PATIENCE: Final = 0.1
"""Seconds that a producer waits for the end of its last transaction, as in Kafka. It would ask
again otherwise."""

Refusals = Mapping[TopicPartition, KafkaError]


class Support(Enum):
    """What a client knows of transactions, by the version of what it asks for."""

    OLD_ERRORS = auto()
    ABORTABLE_ERRORS = auto()
    """It knows that it may have to abort."""
    ADDING = auto()
    """Partitions join the transaction when they are first written to."""


class Writer(NamedTuple):
    """Who writes in a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def check_transactional_id(transactional_id: str | None) -> None:
    """Raise KafkaError."""
    if not transactional_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")


def caller_of(transactional_id: str, producer_id: int, producer_epoch: int) -> Caller:
    return Caller(transactional_id, producer_id, producer_epoch)


def join(
    writer: Writer,
    needed: Callable[[], Collection[TopicPartition]],
    support: Support,
    broker: Context,
) -> Refusals | Awaitable[Refusals]:
    """Have the coordinator add the partitions to the transaction, or say that they are in it. What
    it refuses, as clients who write hear it.

    `needed` takes guards, and is called again if the last transaction has to end first: its marker
    takes away those that were there before.
    """
    broker.transactions.settle(writer.transactional_id)
    partitions = needed()
    if not partitions:
        return {}
    try:
        outcome = _asked(writer, partitions, support, broker)
    except KafkaError as refusal:
        if support is Support.ADDING and refusal.code is ErrorCode.CONCURRENT_TRANSACTIONS:
            return _join_later(writer, needed, support, broker)
        return _all_refused(partitions, refusal)
    if isawaitable(outcome):
        return _joined_later(outcome, partitions, support)
    return _refusals(outcome, support)


def _asked(
    writer: Writer, partitions: Collection[TopicPartition], support: Support, broker: Context
) -> frozenset[TopicPartition] | Awaitable[frozenset[TopicPartition]]:
    caller, coordinator = caller_of(*writer), broker.transactions
    if support is Support.ADDING:
        return coordinator.execute(
            writer.transactional_id,
            lambda machine, ticket, now: machine.add_partitions(caller, partitions, 2, ticket, now),
        )
    return coordinator.execute(
        writer.transactional_id,
        lambda machine, ticket, now: machine.verify(caller, partitions, ticket, now),
    )


async def _join_later(
    writer: Writer,
    needed: Callable[[], Collection[TopicPartition]],
    support: Support,
    broker: Context,
) -> Refusals:
    with trio.move_on_after(PATIENCE):
        while True:
            await broker.transactions.wait_for_completion()
            partitions = needed()
            if not partitions:
                return {}
            try:
                outcome = _asked(writer, partitions, support, broker)
                missing = await outcome if isawaitable(outcome) else outcome
            except KafkaError as refused:
                if refused.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    return _all_refused(partitions, refused)
            else:
                return _refusals(missing, support)
    return _all_refused(needed(), KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS))


async def _joined_later(
    outcome: Awaitable[frozenset[TopicPartition]],
    partitions: Collection[TopicPartition],
    support: Support,
) -> Refusals:
    try:
        return _refusals(await outcome, support)
    except KafkaError as refusal:
        return _all_refused(partitions, refusal)


def _refusals(missing: frozenset[TopicPartition], support: Support) -> Refusals:
    refusal = KafkaError(ErrorCode.TRANSACTION_ABORTABLE)
    if support is Support.OLD_ERRORS:
        refusal = KafkaError(
            ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction"
        )
    return dict.fromkeys(missing, refusal)


def _all_refused(partitions: Collection[TopicPartition], refusal: KafkaError) -> Refusals:
    if refusal.code is ErrorCode.PRODUCER_FENCED:
        # Since Kafka 2.7 a producer may abort and go on (KIP-588).
        refusal = KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, refusal.message)
    return dict.fromkeys(partitions, refusal)
