"""The partitions that this broker has, made from the cluster's image when they are first asked for.

A log that is there under another topic's id is that of a topic which was deleted while this broker
was away: it goes, and the new one begins empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyk.config.topic import TopicConfig
from pyk.errors import ErrorCode, KafkaError
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.log import Log
from pyk.metadata.image import ClusterImage, Topic
from pyk.replication.flushing import Flusher
from pyk.replication.leader import Leader
from pyk.replication.partition import Partition
from pyk.types import TopicPartition


class Replicas:
    def __init__(
        self,
        node_id: int,
        directory: DataDirectory,
        flusher: Flusher,
        config_of: Callable[[str], TopicConfig],
    ) -> None:
        self._node_id = node_id
        self._directory = directory
        self._flusher = flusher
        self._config_of = config_of
        self._led: dict[tuple[str, int], Partition] = {}
        """By topic and number."""
        self._image = ClusterImage()
        self._defaults: TopicConfig | None = None
        """What topics have that nobody has configured: another object when that changes."""

    def leader_of(self, topic: Topic, number: int) -> Partition:
        """The partition, which this broker leads. Raise KafkaError if it does not, or if there is
        none of that number, or if its log is damaged."""
        self._check_leads(topic, number)
        led = self._led.get((topic.name, number))
        if led is None or led.topic_id != topic.topic_id:
            partition = TopicPartition(topic.name, number)
            led = self._led[partition] = self._begin_to_lead(topic, partition)
        return led

    def leader_of_used(self, topic: Topic, number: int) -> Partition | None:
        """The same, or None if it was never used: a log is not made for those who only look."""
        partition = TopicPartition(topic.name, number)
        directory = self._directory
        if partition in self._led or directory.has(partition) or partition in directory.failed:
            return self.leader_of(topic, number)
        self._check_leads(topic, number)
        return None

    def _check_leads(self, topic: Topic, number: int) -> None:
        if not 0 <= number < len(topic.partitions):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic.name} has {len(topic.partitions)} partitions, and none of number {number}",
            )
        state = topic.partitions[number]
        if state.leader != self._node_id:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{topic.name}-{number} is led by {state.leader}, and not here",
            )

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._led.values()))

    def strays(self, image: ClusterImage) -> list[TopicPartition]:
        """Logs of topics that the cluster does not have. They are left alone: the metadata may be
        what is missing."""
        return sorted(p for p in self._directory.partitions if p.topic not in image.topics)

    def on_image(self, image: ClusterImage) -> None:
        """Forget the partitions of topics that are gone since the last image, and take new
        configurations."""
        before, self._image = self._image, image
        defaults, self._defaults = self._defaults, self._config_of("")
        is_configured_anew = (
            image.configured is not before.configured or defaults is not self._defaults
        )
        for key, led in list(self._led.items()):
            name = led.partition.topic
            topic = image.topics.get(name)
            if topic is None or topic.topic_id != led.topic_id:
                del self._led[key]
                led.wake_all()
            elif is_configured_anew:
                led.configure(self._config_of(name))
        gone = before.topics.keys() - image.topics.keys()
        for partition in list(self._directory.partitions) if gone else ():
            if partition.topic in gone:
                self._directory.delete(partition)

    def _begin_to_lead(self, topic: Topic, partition: TopicPartition) -> Partition:
        log = self._log(topic, partition)
        state = topic.partitions[partition.partition]
        leader = Leader(
            node_id=self._node_id,
            leader_epoch=state.leader_epoch,
            high_watermark=log.high_watermark,
            log_end=log.end_offset,
            in_sync=frozenset(state.isr),
        )
        led = Partition(partition, topic.topic_id, log, leader, self._flusher)
        led.configure(self._config_of(partition.topic))
        return led

    def _log(self, topic: Topic, partition: TopicPartition) -> Log:
        directory = self._directory
        if directory.has(partition):
            log = directory.log(partition)
            if directory.topic_ids[partition] == topic.topic_id:
                return log
            directory.delete(partition)
        elif partition in directory.failed:
            return directory.log(partition)
        config = LogConfig.of(self._config_of(partition.topic))
        return directory.create(partition, topic.topic_id, config)
