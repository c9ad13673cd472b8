"""How partitions are told that a transaction has ended.

Those of the topic of groups are told through their shards: what was committed there in the
transaction counts from then on, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from pyk.coordinator.internal_topics import GROUP_TOPIC
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import INT64_MAX
from pyk.metadata.mirror import Mirror
from pyk.replication.partition import Marker, Partition
from pyk.replication.replicas import Replicas
from pyk.types import TopicPartition

if TYPE_CHECKING:
    from pyk.coordinator.group_coordinator import GroupShards


class Written(NamedTuple):
    """A marker that is on the log of a partition."""

    led: Partition
    end_offset: int
    leader_epoch: int
    is_flush_due: bool

    @property
    def is_committed(self) -> bool:
        is_durable = not self.is_flush_due
        return is_durable and self.led.is_committed(self.end_offset, self.leader_epoch)

    async def wait_committed(self) -> None:
        """Raise KafkaError."""
        await self.led.wait_committed(
            self.end_offset, self.leader_epoch, is_flush_due=self.is_flush_due
        )


class Markers:
    """Writes them to the partitions that this broker leads."""

    def __init__(
        self,
        mirror: Mirror,
        replicas: Replicas,
        groups: Callable[[], GroupShards],
        now_ms: Callable[[], int],
    ) -> None:
        self._mirror = mirror
        self._replicas = replicas
        self._groups = groups
        self._now_ms = now_ms

    def have_logs(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether none of their logs has to be made or opened before it takes a marker."""
        return not any(self._is_without_log(partition) for partition in partitions)

    async def ensure_logs(self, partitions: Iterable[TopicPartition]) -> None:
        """See that they have, as far as that can be: `write` says what is wrong with others."""
        topics = self._mirror.image.topics
        known = [(topics[p.topic], p.partition) for p in partitions if p.topic in topics]
        await self._replicas.ensure_logs(known)

    def write(self, partition: TopicPartition, marker: Marker) -> Written:
        """Raise KafkaError."""
        led = self._leader_of(partition)
        if partition.topic == GROUP_TOPIC:
            produced = self._groups().at(partition.partition).end_transaction(marker)
        else:
            produced = led.end_transaction(marker, self._now_ms())
        return Written(led, produced.end_offset, produced.leader_epoch, produced.is_flush_due)

    def written_before(self, partition: TopicPartition, marker: Marker) -> Written | None:
        """The marker, if it is there already, as far as one can tell: it may not be committed, nor
        flushed where that is asked for. Raise KafkaError."""
        led = self._leader_of(partition)
        if not led.has_ended(marker):
            return None
        log = led.log
        is_flush_due = log.config.flush_messages != INT64_MAX and log.flushed_end < log.end_offset
        return Written(led, log.end_offset, led.leader_epoch, is_flush_due)

    def _is_without_log(self, partition: TopicPartition) -> bool:
        topic = self._mirror.image.topics.get(partition.topic)
        try:
            return topic is not None and self._replicas.begun(topic, partition.partition) is None
        except KafkaError:
            return False  # It is not led here, and `write` says so.

    def _leader_of(self, partition: TopicPartition) -> Partition:
        topic = self._mirror.image.topics.get(partition.topic)
        if topic is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {partition.topic!r}"
            )
        return self._replicas.leader_of(topic, partition.partition)
