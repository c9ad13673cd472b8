"""The partitions that this broker leads, made from the cluster's image when they are first asked
for.

    image -> state of a partition -> lead in a new epoch | another ISR | resign

A handler may know an image before `on_image` does: whoever is first makes the transition. Of an
older state than the last one nothing follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pyk.config.topic import TopicConfig
from pyk.errors import ErrorCode, KafkaError
from pyk.log.log import Log
from pyk.metadata.image import ClusterImage, Topic
from pyk.metadata.records import PartitionState
from pyk.replication.flushing import Flusher
from pyk.replication.leader import Leader
from pyk.replication.partition import Partition
from pyk.replication.topic_logs import TopicLogs
from pyk.replication.unused import Unused
from pyk.turns import Work
from pyk.types import TopicPartition


class Replicas:
    def __init__(
        self,
        node_id: int,
        logs: TopicLogs,
        flusher: Flusher,
        config_of: Callable[[str], TopicConfig],
    ) -> None:
        self.logs = logs
        self._node_id = node_id
        self._directory = logs.directory
        self._flusher = flusher
        self._config_of = config_of
        self._begun: dict[tuple[str, int], Partition] = {}
        """Those that this broker has led since it started, by topic and number."""
        self._unused: dict[tuple[str, int], Unused] = {}
        """Those without a log that somebody has read."""
        self._numbers: dict[str, set[int]] = {}
        """Of all of these, by topic."""

    def leader_of(self, topic: Topic, number: int) -> Partition:
        """The partition, which this broker leads. Raise KafkaError if it does not, or if there is
        none of that number, or if its log is damaged."""
        led = self.begun(topic, number)
        if led is None:
            partition = TopicPartition(topic.name, number)
            led = self._begin_to_lead(topic, partition)
            before = self._begun.get(partition)
            if before is not None:
                before.resign(_gone(before))
            self._begun[partition] = led
            self._numbers.setdefault(topic.name, set()).add(number)
        return led

    def begun(self, topic: Topic, number: int) -> Partition | None:
        """The same, or None if a log has to be made or opened for that."""
        self._check_leads(topic, number)
        led = self._begun.get((topic.name, number))
        if led is None or led.topic_id != topic.topic_id:
            return None
        state = topic.partitions[number]
        if led.state is not state:
            self._follow(led, state)
            if not led.is_led:
                # The topic is one of an older image.
                raise _not_led(led)
        return led

    def leader_of_used(
        self, topic: Topic, number: int, closed: list[tuple[Topic, int]]
    ) -> Partition | None:
        """The same, or None if it was never used: a log is not made for those who only look. Nor is
        a log opened: if it is not open it is among those that are `closed`, for `ensure_logs`, and
        refused."""
        partition = TopicPartition(topic.name, number)
        directory = self._directory
        if directory.is_dormant(partition):
            self._check_leads(topic, number)
            closed.append((topic, number))
            if partition in directory.unopened:
                why = f"{topic.name}-{number}: {directory.unopened[partition]}"
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{topic.name}-{number} is not open yet"
            )
        if partition in self._begun or directory.has(partition) or partition in directory.failed:
            return self.leader_of(topic, number)
        self._check_leads(topic, number)
        return None

    async def ensure_logs(self, partitions: Iterable[tuple[Topic, int]]) -> None:
        """See that they have logs that are open, so that `leader_of` need not wait for the disk.
        What cannot be made or opened it tells of as before."""
        led = [(t, n) for t, n in partitions if 0 <= n < len(t.partitions) and self._leads(t, n)]
        await self.logs.ensure((topic, TopicPartition(topic.name, n)) for topic, n in led)

    def _leads(self, topic: Topic, number: int) -> bool:
        return topic.partitions[number].leader == self._node_id

    def readable(
        self, topic: Topic, number: int, closed: list[tuple[Topic, int]]
    ) -> Partition | Unused:
        """The partition for who only reads it: for one that was never used no log is made. Raise
        KafkaError as `leader_of` does. For `closed` see `leader_of_used`."""
        led = self.begun(topic, number)
        if led is None:
            led = self.leader_of_used(topic, number, closed)
        if led is not None:
            return led
        key = (topic.name, number)
        known, leader_epoch = self._unused.get(key), topic.partitions[number].leader_epoch
        if known is None or (known.topic_id, known.leader_epoch) != (topic.topic_id, leader_epoch):
            partition = TopicPartition(topic.name, number)
            known = self._unused[key] = Unused(partition, topic.topic_id, leader_epoch)
            self._numbers.setdefault(topic.name, set()).add(number)
        return known

    def _check_leads(self, topic: Topic, number: int) -> None:
        if not 0 <= number < len(topic.partitions):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"{topic.name} has {len(topic.partitions)} partitions, and none of number {number}",
            )
        if not self._leads(topic, number):
            leader = topic.partitions[number].leader
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{topic.name}-{number} is led by {leader}, and not here",
            )

    def __iter__(self) -> Iterator[Partition]:
        return iter([each for each in self._begun.values() if each.is_led])

    def on_image(self, image: ClusterImage) -> None:
        """Forget the partitions of topics that are gone since the last image, and have their logs
        deleted: waits for their commits end. Lead, or stop leading, the others as it says. What
        they have of new configurations is for `configure`."""
        changed = image.topics_changed_since(self.logs.image)
        for name in list(self._numbers) if changed is None else changed:
            known = self._numbers.get(name, set())
            numbers = None if changed is None else changed[name]
            for number in list(known if numbers is None else known & numbers):
                self._follow_image(image, name, number)
        self.logs.on_image(image)

    def _follow_image(self, image: ClusterImage, name: str, number: int) -> None:
        key, topic = (name, number), image.topics.get(name)
        partition, unused = self._begun.get(key), self._unused.get(key)
        if partition is not None:
            if topic is None or topic.topic_id != partition.topic_id:
                del self._begun[key]
                partition.resign(_gone(partition))
            else:
                self._follow(partition, topic.partitions[number])
        if unused is not None and (
            topic is None
            or topic.topic_id != unused.topic_id
            or topic.partitions[number].leader_epoch > unused.leader_epoch
        ):
            del self._unused[key]
            unused.wake_all()
        if key not in self._begun and key not in self._unused:
            self._numbers[name].discard(number)
            if not self._numbers[name]:
                del self._numbers[name]

    def configure(self) -> Work[None]:
        """Give all that is open of topics with a new configuration what it asks for when their turn
        comes: whatever changes meanwhile, the newest holds."""
        is_outdated = self.logs.take_outdated()
        if is_outdated is None:
            return
        logs, image = self._directory.logs, self.logs.image
        configs: dict[str, TopicConfig] = {}
        for partition, log in list(logs.items()):
            if is_outdated(partition.topic) and logs.get(partition) is log:
                if self.logs.image is not image:
                    image, configs = self.logs.image, {}
                if partition.topic not in configs:
                    configs[partition.topic] = self._config_of(partition.topic)
                config = configs[partition.topic]
                led = self._begun.get(partition)
                if led is not None and led.log is log:
                    led.configure(config)
                else:
                    self.logs.configure(partition, log, config)
            yield

    def _begin_to_lead(self, topic: Topic, partition: TopicPartition) -> Partition:
        topic = self.logs.newest_of(topic)
        self._check_leads(topic, partition.partition)
        log = self.logs.get_or_create(topic, partition)
        state = topic.partitions[partition.partition]
        leader = self._leader(log, state)
        led = Partition(partition, topic.topic_id, log, leader, self._flusher)
        led.state = state
        led.configure(self._config_of(partition.topic))
        unused = self._unused.pop(partition, None)
        if unused is not None:
            unused.become(led)
        return led

    def _follow(self, partition: Partition, state: PartitionState) -> None:
        """Have the role that the state gives this broker, unless a newer one is known."""
        known = partition.state
        if known is state or (known is not None and _version(state) < _version(known)):
            return
        partition.state = state
        if state.leader != self._node_id:
            if partition.is_led:
                partition.resign(_not_led(partition))
        elif not partition.is_led or partition.leader_epoch != state.leader_epoch:
            partition.lead(self._leader(partition.log, state))
        else:
            partition.change_in_sync(frozenset(state.isr))

    def _leader(self, log: Log, state: PartitionState) -> Leader:
        return Leader(
            node_id=self._node_id,
            leader_epoch=state.leader_epoch,
            log_end=log.end_offset,
            in_sync=frozenset(state.isr),
        )


def _version(state: PartitionState) -> tuple[int, int]:
    return state.leader_epoch, state.partition_epoch


def _not_led(partition: Partition) -> KafkaError:
    name, number = partition.partition
    leader = "nobody" if partition.state is None else partition.state.leader
    return KafkaError(
        ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name}-{number} is led by {leader}, and not here"
    )


def _gone(partition: Partition) -> KafkaError:
    name, number = partition.partition
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name}-{number} was deleted")
