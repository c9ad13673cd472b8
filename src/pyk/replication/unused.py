"""A partition that this broker leads and that has no log yet: nobody has written to it.

Whoever reads it finds it empty, without a log being made for that, and can wait for the first
records.
"""

from __future__ import annotations

from pyk.errors import ErrorCode, KafkaError
from pyk.log.epochs import UNDEFINED, EpochEnd
from pyk.replication.partition import (
    NO_EPOCH,
    Fetched,
    Isolation,
    Offsets,
    Partition,
    Wakeable,
    check_leader_epoch,
)
from pyk.types import TopicPartition, Uuid

_EMPTY = Offsets(0, 0, 0, 0)


class Unused:
    """What readers ask of a `Partition`."""

    __slots__ = ("_used", "_waiters", "leader_epoch", "partition", "topic_id")

    def __init__(self, partition: TopicPartition, topic_id: Uuid, leader_epoch: int) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self._waiters: dict[Wakeable, None] = {}
        self._used: Partition | None = None
        """What it has become."""

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
        return 0 if self._used is None else self._used.visible_end(isolation)

    def epoch_for(self, offset: int) -> int:
        """As of the records to come: in Kafka an epoch begins when its leader does."""
        return self.leader_epoch if offset == 0 else NO_EPOCH

    def end_of_epoch(self, leader_epoch: int) -> EpochEnd:
        return EpochEnd(leader_epoch, 0) if leader_epoch == self.leader_epoch else UNDEFINED

    def add_waiter(self, waiter: Wakeable) -> None:
        if self._used is not None:
            self._used.add_waiter(waiter)
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: Wakeable) -> None:
        if self._used is not None:
            self._used.remove_waiter(waiter)
        self._waiters.pop(waiter, None)

    def wake_all(self) -> None:
        for waiter in list(self._waiters):
            waiter.wake()

    def become(self, partition: Partition) -> None:
        """It has a log from now on. Whoever waits goes on there."""
        self._used = partition
        for waiter in self._waiters:
            partition.add_waiter(waiter)
        self.wake_all()
