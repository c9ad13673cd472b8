"""One transactional id: who may use it, and where its transaction is.

    EMPTY -> ONGOING -> PREPARE_COMMIT -> COMPLETE_COMMIT -> ONGOING ...
                     -> PREPARE_ABORT  -> COMPLETE_ABORT  -> ONGOING ...

It is what a record of the log says. Once prepared the outcome stands: all that is left to do is to
tell the partitions, and whoever reads the log later tells them the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from itertools import groupby
from typing import Any, Final, Self

from msgspec import Struct
from msgspec.structs import replace

from pyk.coordinator.machine import Record
from pyk.types import TopicPartition
from pyk.wire.payloads.transaction_records import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

NONE: Final = -1
LAST_EPOCH: Final = 2**15 - 1
"""No producer is given it, so that there is always one left to fence with."""


class Status(IntEnum):
    """Kafka's numbers. It has two more, which no log contains."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5

    @property
    def title(self) -> str:
        """What clients call it, such as PrepareCommit."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        return self in (Status.PREPARE_COMMIT, Status.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """Whether there is no transaction. Only then may the id grow old."""
        return self in (Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT)


TITLES: Final = {status.title: status for status in Status}

_BEGUN_OR_NOT: Final = frozenset({Status.EMPTY, Status.ONGOING, Status.PREPARE_ABORT})

NEXT: Final[Mapping[Status, frozenset[Status]]] = {
    # Since transactions v2 a transaction that nothing was added to may be aborted.
    Status.EMPTY: _BEGUN_OR_NOT,
    Status.ONGOING: frozenset({Status.ONGOING, Status.PREPARE_COMMIT, Status.PREPARE_ABORT}),
    Status.PREPARE_COMMIT: frozenset({Status.COMPLETE_COMMIT}),
    Status.PREPARE_ABORT: frozenset({Status.COMPLETE_ABORT}),
    Status.COMPLETE_COMMIT: _BEGUN_OR_NOT,
    Status.COMPLETE_ABORT: _BEGUN_OR_NOT,
}
"""What may follow what."""


class Transaction(Struct, frozen=True, kw_only=True):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    """What markers carry. Since v2 it grows when the end is decided, so that the next transaction
    has another than what was written in this one."""
    timeout_ms: int
    status: Status = Status.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_ms: int
    started_ms: int = NONE
    previous_producer_id: int = NONE
    next_producer_id: int = NONE
    """The producer id from the end on, if this one has no epochs left."""
    client_version: int = 0
    """Of transactions, as the client understood them: 2 has a new epoch for each."""

    @classmethod
    def read(cls, key: TransactionLogKey, value: TransactionLogValue) -> Self:
        """Raise ValueError for a status that there is not."""
        return cls(
            transactional_id=key.transactional_id,
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            timeout_ms=value.transaction_timeout_ms,
            status=Status(value.transaction_status),
            partitions=frozenset(
                TopicPartition(each.topic, number)
                for each in value.transaction_partitions or ()
                for number in each.partition_ids
            ),
            updated_ms=value.transaction_last_update_timestamp_ms,
            started_ms=value.transaction_start_timestamp_ms,
            previous_producer_id=value.previous_producer_id,
            next_producer_id=value.next_producer_id,
            client_version=value.client_transaction_version,
        )

    def record(self, version: int) -> Record:
        """It says so on the log. Version 0 has no room for ids before and after."""
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.previous_producer_id if version else NONE,
            next_producer_id=self.next_producer_id if version else NONE,
            producer_epoch=self.producer_epoch,
            transaction_timeout_ms=self.timeout_ms,
            transaction_status=self.status,
            transaction_partitions=(
                None
                if self.status is Status.EMPTY
                else [PartitionsSchema(topic=t, partition_ids=n) for t, n in self.by_topic()]
            ),
            transaction_last_update_timestamp_ms=self.updated_ms,
            transaction_start_timestamp_ms=self.started_ms,
            client_transaction_version=self.client_version if version else 0,
        )
        return Record(self.key, value, version)

    @property
    def key(self) -> TransactionLogKey:
        return TransactionLogKey(transactional_id=self.transactional_id)

    def by_topic(self) -> list[tuple[str, list[int]]]:
        topics = groupby(sorted(self.partitions), key=lambda each: each.topic)
        return [(topic, [each.partition for each in found]) for topic, found in topics]

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left that could be given out."""
        return self.producer_epoch >= LAST_EPOCH - 1

    def is_held_by(self, producer_epoch: int) -> bool:
        """Whether a producer of that epoch is the one that may use it. Nobody has the last."""
        return producer_epoch == self.producer_epoch != LAST_EPOCH

    def becomes(self, status: Status, updated_ms: int, **changes: Any) -> Self:
        assert status in NEXT[self.status], f"{self.status.name} -> {status.name}"
        changed = replace(
            self,
            status=status,
            updated_ms=updated_ms,
            previous_producer_id=self.producer_id,
            **changes,
        )
        is_new = changed.producer_id != self.producer_id
        assert is_new or changed.producer_epoch >= self.producer_epoch, "an epoch of the past"
        return changed

    def completed(self, now_ms: int) -> Self:
        """What it becomes once all partitions know."""
        status = (
            Status.COMPLETE_COMMIT
            if self.status is Status.PREPARE_COMMIT
            else Status.COMPLETE_ABORT
        )
        ended = self.becomes(status, now_ms, partitions=frozenset(), next_producer_id=NONE)
        if self.next_producer_id == NONE:
            return ended
        return replace(ended, producer_id=self.next_producer_id, producer_epoch=0)
