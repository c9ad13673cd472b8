"""The offsets that groups have committed, in one shard.

    group -> topic -> partition -> what was committed last

A record of the log is the state itself. What is committed in a transaction is pending until that
ends. Then the later of two commits counts, by their places in the log and not by when their
transactions ended.

What was committed for a topic that is gone is abandoned: nobody is told of it any more, and it is
deleted from the log bit by bit, however long that takes. A topic that is made anew under the same
name has another id, and begins with nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from pyk.coordinator.machine import Record
from pyk.metadata.image import ClusterImage
from pyk.types import ZERO_UUID, TopicPartition, Uuid
from pyk.wire.payloads.offset_records import OffsetCommitKey, OffsetCommitValue


class _Pending(NamedTuple):
    order: int
    """Its place among all commits."""
    value: OffsetCommitValue | None
    """None if there was a later commit: it will not count."""


class Offsets:
    def __init__(self) -> None:
        self._groups: dict[str, dict[str, dict[int, OffsetCommitValue]]] = {}
        self._pending: dict[str, dict[TopicPartition, dict[int, _Pending]]] = {}
        """By group, by partition, and by producer."""
        self._written: dict[int, set[tuple[str, TopicPartition]]] = {}
        """What is pending, by producer."""
        self._abandoned: dict[str, dict[str, dict[int, None]]] = {}
        """By group and topic: the partitions of which the log is still to be told."""
        self._last_order = 0

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def of(self, group_id: str) -> Mapping[str, Mapping[int, OffsetCommitValue]]:
        return self._groups.get(group_id, {})

    def pending(self, group_id: str) -> Collection[TopicPartition]:
        """What of the group waits for the end of a transaction."""
        return self._pending.get(group_id, {}).keys()

    # Topics that are gone

    @property
    def has_abandoned(self) -> bool:
        return bool(self._abandoned)

    def abandoned(self, group_id: str) -> Iterator[TopicPartition]:
        for topic, numbers in self._abandoned.get(group_id, {}).items():
            for number in numbers:
                yield TopicPartition(topic, number)

    def deletions(self, count: int) -> list[Record]:
        """What deletes some of what is abandoned. A tombstone also deletes what is pending, so it
        waits while that is of a topic that there is."""
        every = (
            tombstone(group_id, *partition)
            for group_id in self._abandoned
            for partition in self.abandoned(group_id)
            if not self._may_count(group_id, partition)
        )
        return list(islice(every, count))

    def _may_count(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether something is pending of which the transaction may be committed."""
        pending = self._pending.get(group_id, {}).get(partition, {})
        return any(each.value is not None for each in pending.values())

    def check_topics(self, image: ClusterImage) -> Iterator[None]:
        """Abandon all that is not of a topic in the image, in steps."""
        for group_id in [*self._groups.keys() | self._pending.keys()]:
            for name in self._topics_of(group_id):
                self._abandon(group_id, name, image)
                yield

    def abandon(self, names: Collection[str], image: ClusterImage) -> None:
        """Topics of these names are gone. There may be new ones."""
        names = frozenset(names)
        reading = [g for g, topics in self._groups.items() if not names.isdisjoint(topics)]
        for group_id in {*reading, *self._pending}:
            for name in self._topics_of(group_id).intersection(names):
                self._abandon(group_id, name, image, were_deleted=True)

    def _topics_of(self, group_id: str) -> set[str]:
        pending = {partition.topic for partition in self._pending.get(group_id, ())}
        return pending.union(self._groups.get(group_id, ()))

    def _abandon(
        self, group_id: str, name: str, image: ClusterImage, *, were_deleted: bool = False
    ) -> None:
        """What does not say of which topic it is, as it came from an old client or broker, is of
        the one that there is, unless that has just taken the place of another."""
        topic = image.topics.get(name)
        fits = set[Uuid]()
        if topic is not None:
            fits = {topic.topic_id} if were_deleted else {topic.topic_id, ZERO_UUID}
        topics = self._groups.get(group_id, {})
        partitions = topics.get(name, {})
        stale = [n for n, value in partitions.items() if value.topic_id not in fits]
        if len(stale) == len(partitions):
            topics.pop(name, None)
            if not topics:
                self._groups.pop(group_id, None)
        else:
            for number in stale:
                del partitions[number]
        stale += self._abandon_pending(group_id, name, fits)
        if stale:
            of_group = self._abandoned.setdefault(group_id, {})
            of_group.setdefault(name, {}).update(dict.fromkeys(stale))

    def _abandon_pending(self, group_id: str, name: str, fits: Collection[Uuid]) -> list[int]:
        """The partitions of which something was pending that does not fit. What others have
        committed of the same partitions stays."""
        stale = []
        for partition, pending in list(self._pending.get(group_id, {}).items()):
            producers = [
                producer_id
                for producer_id, (_, value) in pending.items()
                if partition.topic == name and value is not None and value.topic_id not in fits
            ]
            if producers:
                self._forget_pending(group_id, partition, producers)
                stale.append(partition.partition)
        return stale

    def _note_written(self, group_id: str, partition: TopicPartition) -> None:
        """The log has something newer of the partition, or knows that there is nothing."""
        topic, number = partition
        of_group = self._abandoned.get(group_id)
        if of_group is None or topic not in of_group:
            return
        of_group[topic].pop(number, None)
        if not of_group[topic]:
            del of_group[topic]
            if not of_group:
                del self._abandoned[group_id]

    # Records

    def apply_pending(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int
    ) -> None:
        """It counts once the producer's transaction is committed."""
        self._last_order += 1
        partition = TopicPartition(key.topic, key.partition)
        of_group = self._pending.setdefault(key.group, {})
        pending = _Pending(self._last_order, value)
        of_group.setdefault(partition, {})[producer_id] = pending
        self._written.setdefault(producer_id, set()).add((key.group, partition))

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        for group_id, partition in self._written.pop(producer_id, ()):
            of_group = self._pending[group_id]
            pending = of_group[partition].pop(producer_id)
            if is_commit and pending.value is not None:
                self._supersede(group_id, partition, pending.order)
                self._note_written(group_id, partition)
                self._put(group_id, partition, pending.value)
            if not of_group[partition]:
                del of_group[partition]
            if not of_group:
                del self._pending[group_id]

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        partition = TopicPartition(key.topic, key.partition)
        if self._abandoned:
            self._note_written(key.group, partition)
        self._last_order += 1
        if key.group in self._pending:
            if value is None:
                producers = list(self._pending[key.group].get(partition, ()))
                self._forget_pending(key.group, partition, producers)
            else:
                self._supersede(key.group, partition, self._last_order)
        self._put(key.group, partition, value)

    def _supersede(self, group_id: str, partition: TopicPartition, order: int) -> None:
        pending = self._pending[group_id].get(partition, {})
        for producer_id, each in pending.items():
            if each.order < order:
                pending[producer_id] = each._replace(value=None)

    def _forget_pending(
        self, group_id: str, partition: TopicPartition, producers: Iterable[int]
    ) -> None:
        of_group = self._pending[group_id]
        for producer_id in producers:
            del of_group[partition][producer_id]
            self._written[producer_id].discard((group_id, partition))
        if not of_group.get(partition):
            of_group.pop(partition, None)
            if not of_group:
                del self._pending[group_id]

    def _put(
        self, group_id: str, partition: TopicPartition, value: OffsetCommitValue | None
    ) -> None:
        topic, number = partition
        if value is not None:
            topics = self._groups.setdefault(group_id, {})
            topics.setdefault(topic, {})[number] = value
            return
        topics = self._groups.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(number, None)
        if not partitions:
            topics.pop(topic, None)
            if not topics:
                self._groups.pop(group_id, None)


def tombstone(group_id: str, topic: str, partition: int) -> Record:
    return Record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
