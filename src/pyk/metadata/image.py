"""The whole cluster as one immutable value: what handlers read, and what is decided from.

    the store's entries --load--> ClusterImage --apply(changes)--> ClusterImage

- An image shows one revision of the store. What a change does not touch is shared with the next.
- `apply` copies a table of what it changes, once, and touches no other entry of it.
- Of the last changes an image knows which topics and partitions they were: who follows it looks at
  those only. A leader, an ISR or an epoch is no part of a topic's shape.
- A value that cannot be read is named in `unreadable`, and what its key said before stays: one bad
  key stops no broker. No transaction can be decided about it, since no compare will be true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Final, Generic, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from pyk.metadata.records import (
    BROKER_CONFIGS,
    BROKER_DEFAULTS,
    BROKERS,
    CLIENT_METRICS_CONFIGS,
    CLUSTER,
    FEATURES,
    GROUP_CONFIGS,
    PARTITIONS,
    PRODUCER_IDS,
    TOPIC_CONFIGS,
    TOPICS,
    Listener,
    PartitionState,
    TopicRecord,
    broker_config_key,
    client_metrics_config_key,
    group_config_key,
    parsed,
    read_broker,
    read_cluster,
    read_configuration,
    read_features,
    read_partition,
    read_producer_ids,
    read_topic,
    topic_config_key,
)
from pyk.metadata.store import Change, Changes, Entry, Removed, Snapshot
from pyk.types import Uuid

K = TypeVar("K")
V = TypeVar("V")

CONFIGURATIONS = (TOPIC_CONFIGS, BROKER_CONFIGS, GROUP_CONFIGS, CLIENT_METRICS_CONFIGS)

HISTORY_MAX: Final = 128
"""Changes that an image remembers. Who is further behind compares everything."""

NEVER = 0
"""The revision of what was never written."""


class Broker(Struct, frozen=True):
    broker_id: int
    epoch: int
    listeners: tuple[Listener, ...]
    rack: str | None
    fenced: bool


class Topic(Struct, frozen=True):
    name: str
    topic_id: Uuid
    partitions: tuple[PartitionState, ...]
    revision: int
    """Of its key, which the changes of its partitions do not touch."""

    def has_shape_of(self, before: Topic, numbers: Iterable[int] | None = None) -> bool:
        """Whether it has the id, the partitions and the replicas of an earlier one. If `numbers`
        are given, no other partitions have changed."""
        if before is self:
            return True
        now, then = self.partitions, before.partitions
        if (self.topic_id, self.revision, len(now)) != (
            before.topic_id,
            before.revision,
            len(then),
        ):
            return False
        return all(
            now[number].replicas == then[number].replicas
            for number in (range(len(now)) if numbers is None else numbers)
        )


class PartitionChange(Struct, frozen=True):
    """A partition that is not any more as it was created."""

    state: PartitionState
    revision: int


class Configured(Struct, frozen=True):
    values: Mapping[str, str] = field(default_factory=dict)
    revision: int = NEVER


class Features(Struct, frozen=True):
    """The finalized levels. The epoch grows when one changes."""

    levels: Mapping[str, int] = field(default_factory=dict)
    epoch: int = NEVER


class ProducerIds(Struct, frozen=True):
    next_producer_id: int = 0
    revision: int = NEVER


NOT_CONFIGURED = Configured()


ChangedTopics: TypeAlias = Mapping[str, Set[int] | None]
"""The names of topics that changed, with the numbers of their partitions that have another state.
None of one that was created or deleted, or has more partitions."""


class History:
    """The last changes of a table of topics. It is no part of what an image says: images with other
    histories are equal."""

    __slots__ = ("_begin", "_changes", "_topics")

    def __init__(
        self,
        begin: int,
        topics: Mapping[str, Topic],
        changes: tuple[tuple[int, ChangedTopics], ...] = (),
    ) -> None:
        self._begin = begin
        """The revision since which there were no others."""
        self._topics = topics
        """What they led to."""
        self._changes = changes
        """With their revisions."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History)

    __hash__ = None  # type: ignore[assignment]

    def is_of(self, topics: Mapping[str, Topic]) -> bool:
        return self._topics is topics

    def plus(self, revision: int, changed: ChangedTopics, topics: Mapping[str, Topic]) -> History:
        """The history of `topics`, which is what this change makes of the table."""
        changes, begin = self._changes, self._begin
        if len(changes) == HISTORY_MAX:
            begin, changes = changes[0][0], changes[1:]
        return History(begin, topics, (*changes, (revision, changed)))

    def since(self, revision: int) -> ChangedTopics | None:
        """None if that is not known any more."""
        if revision < self._begin:
            return None
        found: dict[str, Set[int] | None] = {}
        for at, changed in reversed(self._changes):
            if at <= revision:
                break
            for name, numbers in changed.items():
                known = found.get(name, frozenset())
                found[name] = None if numbers is None or known is None else known | numbers
        return found


NO_HISTORY: Final = History(0, {})
"""Of an image that does not come from a store."""


class ClusterImage(Struct, frozen=True, kw_only=True):
    revision: int = 0
    cluster_id: str | None = None
    """None before the cluster is initialised."""
    features: Features = Features()
    producer_ids: ProducerIds = ProducerIds()
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    names: Mapping[Uuid, str] = field(default_factory=dict)
    """Of the topics, by their ids."""
    changed: Mapping[Uuid, Mapping[int, PartitionChange]] = field(default_factory=dict)
    configured: Mapping[str, Configured] = field(default_factory=dict)
    """Configurations by their keys in the store."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Keys whose values are not what they should be, and why."""
    history: History = NO_HISTORY

    @classmethod
    def load(cls, snapshot: Snapshot) -> ClusterImage:
        image = cls().apply(Changes(snapshot.revision, tuple(snapshot.entries)))
        return replace(image, history=History(snapshot.revision, image.topics))

    def apply(self, changes: Changes) -> ClusterImage:
        """The image after these, which are later than it."""
        draft = _Draft(self)
        for change in changes.changes:
            draft.take(change)
        return draft.finished(changes.revision)

    def topic_by_id(self, topic_id: Uuid) -> Topic | None:
        name = self.names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition_revision(self, topic_id: Uuid, partition: int) -> int:
        """Of its key; NEVER if it is as it was created, and has none."""
        change = self.changed.get(topic_id, {}).get(partition)
        return NEVER if change is None else change.revision

    def has_same(self, names: Iterable[str], before: ClusterImage) -> bool:
        """Whether these topics have the same shape as in an older image, or are missing in both."""
        then, now = before.topics, self.topics
        return now is then or all(_is_same(now.get(name), then.get(name)) for name in names)

    def topics_changed_since(self, before: ClusterImage) -> ChangedTopics | None:
        """Those in which anything may be another than in an older image of the same store. None if
        that is not known."""
        if not (self.history.is_of(self.topics) and before.history.is_of(before.topics)):
            return None
        if before.revision > self.revision:
            return None
        return self.history.since(before.revision)

    def topic_config(self, name: str) -> Configured:
        return self.configured.get(topic_config_key(name), NOT_CONFIGURED)

    def topics_configured_since(self, before: ClusterImage) -> set[str]:
        """The topics whose configuration is another than in an older image."""
        if self.configured is before.configured:
            return set()
        keys = self.configured.keys() | before.configured.keys()
        return {
            key.removeprefix(TOPIC_CONFIGS)
            for key in keys
            if key.startswith(TOPIC_CONFIGS)
            and self.configured.get(key) is not before.configured.get(key)
        }

    def broker_config(self, broker_id: int) -> Configured:
        return self.configured.get(broker_config_key(broker_id), NOT_CONFIGURED)

    @property
    def broker_defaults(self) -> Configured:
        return self.configured.get(BROKER_DEFAULTS, NOT_CONFIGURED)

    def group_config(self, name: str) -> Configured:
        return self.configured.get(group_config_key(name), NOT_CONFIGURED)

    def client_metrics_config(self, name: str) -> Configured:
        return self.configured.get(client_metrics_config_key(name), NOT_CONFIGURED)

    @property
    def configured_groups(self) -> list[str]:
        """Their names. The groups themselves need not exist."""
        return self._configured_under(GROUP_CONFIGS)

    @property
    def client_metrics(self) -> list[str]:
        """The names of the subscriptions to clients' metrics."""
        return self._configured_under(CLIENT_METRICS_CONFIGS)

    def _configured_under(self, prefix: str) -> list[str]:
        return [key.removeprefix(prefix) for key in self.configured if key.startswith(prefix)]


def _is_same(topic: Topic | None, before: Topic | None) -> bool:
    if topic is None or before is None:
        return topic is before
    return topic.has_shape_of(before)


class _Table(Generic[K, V]):
    """A mapping that is copied when it is first written to."""

    __slots__ = ("_copy", "_found")

    def __init__(self, found: Mapping[K, V]) -> None:
        self._found = found
        self._copy: dict[K, V] | None = None

    def get(self, key: K) -> V | None:
        return self._found.get(key)

    def put(self, key: K, value: V) -> None:
        self._written()[key] = value

    def drop(self, key: K) -> None:
        if key in self._found:
            del self._written()[key]

    def finished(self) -> Mapping[K, V]:
        return self._found

    def _written(self) -> dict[K, V]:
        if self._copy is None:
            self._found = self._copy = dict(self._found)
        return self._copy


class _Draft:
    """An image that is being changed."""

    def __init__(self, image: ClusterImage) -> None:
        self._image = image
        self._cluster_id = image.cluster_id
        self._features = image.features
        self._producer_ids = image.producer_ids
        self._brokers = _Table(image.brokers)
        self._topics = _Table(image.topics)
        self._names = _Table(image.names)
        self._changed = _Table(image.changed)
        self._configured = _Table(image.configured)
        self._unreadable = _Table(image.unreadable)
        self._changing: dict[Uuid, dict[int, PartitionChange]] = {}
        """Entries of `changed` that are this draft's own."""
        self._changed_topics: dict[str, set[int] | None] = {}

    def take(self, change: Change) -> None:
        self._unreadable.drop(change.key)
        entry = None if isinstance(change, Removed) else change
        try:
            self._dispatch(change.key, entry)
        except ValueError as error:
            if entry is not None:
                self._unreadable.put(change.key, str(error))

    def finished(self, revision: int) -> ClusterImage:
        self._show_partitions()
        history, topics = self._image.history, self._topics.finished()
        if not history.is_of(self._image.topics):
            history = History(self._image.revision, self._image.topics)
        if self._changed_topics:
            history = history.plus(revision, self._changed_topics, topics)
        return replace(
            self._image,
            revision=revision,
            cluster_id=self._cluster_id,
            features=self._features,
            producer_ids=self._producer_ids,
            brokers=self._brokers.finished(),
            topics=topics,
            names=self._names.finished(),
            changed=self._changed.finished(),
            configured=self._configured.finished(),
            unreadable=self._unreadable.finished(),
            history=history,
        )

    def _show_partitions(self) -> None:
        """Each topic once, however many of its partitions have changed."""
        for name, numbers in self._changed_topics.items():
            topic = self._topics.get(name)
            if topic is not None and numbers:
                partitions = list(topic.partitions)
                changed = self._changing.get(topic.topic_id, {})
                for number in numbers & changed.keys():
                    partitions[number] = changed[number].state
                self._topics.put(name, replace(topic, partitions=tuple(partitions)))

    def _dispatch(self, key: str, entry: Entry | None) -> None:
        if key.startswith(TOPICS):
            self._take_topic(key.removeprefix(TOPICS), entry)
        elif key.startswith(PARTITIONS):
            self._take_partition(key.removeprefix(PARTITIONS), entry)
        elif key.startswith(CONFIGURATIONS) or key == BROKER_DEFAULTS:
            self._take_configuration(key, entry)
        elif key.startswith(BROKERS):
            self._take_broker(key.removeprefix(BROKERS), entry)
        else:
            self._take_single(key, entry)

    def _take_topic(self, name: str, entry: Entry | None) -> None:
        record = None if entry is None else read_topic(entry.value)
        topic_id = None if record is None else parsed(record.topic_id)
        self._changed_topics[name] = None
        before = self._topics.get(name)
        if before is not None and before.topic_id != topic_id:
            self._topics.drop(name)
            self._names.drop(before.topic_id)
            self._drop_partitions(before.topic_id)
        if entry is None or record is None or topic_id is None:
            return
        partitions = self._current(topic_id, record)
        self._topics.put(name, Topic(name, topic_id, partitions, entry.mod_revision))
        if before is None or before.topic_id != topic_id:
            self._names.put(topic_id, name)

    def _current(self, topic_id: Uuid, record: TopicRecord) -> tuple[PartitionState, ...]:
        changed = self._changed.get(topic_id)
        if changed is None:
            return record.partitions
        created = enumerate(record.partitions)
        return tuple(changed[n].state if n in changed else state for n, state in created)

    def _take_partition(self, rest: str, entry: Entry | None) -> None:
        text, _, digits = rest.partition("/")
        topic_id, number = parsed(text), int(digits)
        if entry is None:
            # They go with their topic only, which is gone by now or goes in the same revision.
            self._drop_partitions(topic_id)
            return
        state = read_partition(entry.value)
        changing = self._changing.get(topic_id)
        if changing is None:
            changing = self._changing[topic_id] = dict(self._changed.get(topic_id) or {})
            self._changed.put(topic_id, changing)
        changing[number] = PartitionChange(state, entry.mod_revision)
        name = self._names.get(topic_id)
        topic = None if name is None else self._topics.get(name)
        if topic is not None and number < len(topic.partitions):
            self._note_partition(topic, number, state)

    def _note_partition(self, topic: Topic, number: int, state: PartitionState) -> None:
        numbers = self._changed_topics.setdefault(topic.name, set())
        if numbers is not None:
            numbers.add(number)
            return
        # The topic's own key is in the same revision.
        found = topic.partitions
        partitions = (*found[:number], state, *found[number + 1 :])
        self._topics.put(topic.name, replace(topic, partitions=partitions))

    def _drop_partitions(self, topic_id: Uuid) -> None:
        self._changed.drop(topic_id)
        self._changing.pop(topic_id, None)

    def _take_configuration(self, key: str, entry: Entry | None) -> None:
        if entry is None:
            self._configured.drop(key)
        else:
            values = read_configuration(entry.value)
            self._configured.put(key, Configured(values, entry.mod_revision))

    def _take_broker(self, text: str, entry: Entry | None) -> None:
        broker_id = int(text)
        if entry is None:
            self._brokers.drop(broker_id)
            return
        record = read_broker(entry.value)
        epoch = entry.create_revision
        broker = Broker(broker_id, epoch, record.listeners, record.rack, record.fenced)
        self._brokers.put(broker_id, broker)

    def _take_single(self, key: str, entry: Entry | None) -> None:
        if key == CLUSTER:
            found = None if entry is None else read_cluster(entry.value)
            self._cluster_id = None if found is None else found.cluster_id
        elif key == FEATURES:
            levels = {} if entry is None else read_features(entry.value).levels
            self._features = Features(levels, NEVER if entry is None else entry.mod_revision)
        elif key == PRODUCER_IDS:
            first = 0 if entry is None else read_producer_ids(entry.value).next_producer_id
            self._producer_ids = ProducerIds(first, NEVER if entry is None else entry.mod_revision)
