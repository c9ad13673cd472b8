"""A partition that this broker leads and that has no log yet: nobody has written to it.

Whoever reads it finds it empty, without a log being made for that, and can wait for the first
records: those who wait are woken when its log is made.
"""

from __future__ import annotations

from pyk.errors import ErrorCode, KafkaError
from pyk.log.epochs import UNDEFINED, EpochEnd
from pyk.replication.partition import (
    NO_EPOCH,
    Fetched,
    Isolation,
    Offsets,
    Wakeable,
    check_leader_epoch,
)
from pyk.types import TopicPartition, Uuid

_EMPTY = Offsets(0, 0, 0, 0)


class Unused:
    """What readers ask of a `Partition`."""

    __slots__ = ("_waiters", "leader_epoch", "partition", "topic_id")

    def __init__(self, partition: TopicPartition, topic_id: Uuid, leader_epoch: int) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self._waiters: dict[Wakeable, None] = {}

    @property
    def offsets(self) -> Offsets:
        return _EMPTY

    def check_leader_epoch(self, leader_epoch: int) -> None:
        """Raise KafkaError."""
        check_leader_epoch(leader_epoch, self.leader_epoch, self.partition)

    def fetch(self, offset: int, bytes_max: int, isolation: Isolation) -> Fetched:
        """Raise KafkaError."""
        if offset != 0:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{self.partition} is empty, and has no {offset}"
            )
        return Fetched(None, [] if isolation is Isolation.READ_COMMITTED else None, _EMPTY)

    def visible_end(self, isolation: Isolation) -> int:
        return 0

    def epoch_for(self, offset: int) -> int:
        return NO_EPOCH

    def end_of_epoch(self, leader_epoch: int) -> EpochEnd:
        return EpochEnd(leader_epoch, 0) if leader_epoch == self.leader_epoch else UNDEFINED

    def add_waiter(self, waiter: Wakeable) -> None:
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: Wakeable) -> None:
        self._waiters.pop(waiter, None)

    def wake_all(self) -> None:
        for waiter in list(self._waiters):
            waiter.wake()
