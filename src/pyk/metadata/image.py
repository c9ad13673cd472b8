"""The whole cluster as one immutable value: what handlers read, and what is decided from.

    the store's entries --load--> ClusterImage --apply(changes)--> ClusterImage

- An image shows one revision of the store. What a change does not touch is shared with the next.
- `apply` copies a table of what it changes, once, and touches no other entry of it.
- A value that cannot be read is named in `unreadable`, and what its key said before stays: one bad
  key stops no broker. No transaction can be decided about it, since no compare will be true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

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

    @classmethod
    def load(cls, snapshot: Snapshot) -> ClusterImage:
        return cls().apply(Changes(snapshot.revision, tuple(snapshot.entries)))

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
        """Whether nothing has happened to these topics since an older image."""
        then, now = before.topics, self.topics
        return now is then or all(now.get(name) is then.get(name) for name in names)

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

    def take(self, change: Change) -> None:
        self._unreadable.drop(change.key)
        entry = None if isinstance(change, Removed) else change
        try:
            self._dispatch(change.key, entry)
        except ValueError as error:
            if entry is not None:
                self._unreadable.put(change.key, str(error))

    def finished(self, revision: int) -> ClusterImage:
        return replace(
            self._image,
            revision=revision,
            cluster_id=self._cluster_id,
            features=self._features,
            producer_ids=self._producer_ids,
            brokers=self._brokers.finished(),
            topics=self._topics.finished(),
            names=self._names.finished(),
            changed=self._changed.finished(),
            configured=self._configured.finished(),
            unreadable=self._unreadable.finished(),
        )

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
        before = self._topics.get(name)
        if before is not None and before.topic_id != topic_id:
            self._topics.drop(name)
            self._names.drop(before.topic_id)
            self._changed.drop(before.topic_id)
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
            self._changed.drop(topic_id)
            return
        state = read_partition(entry.value)
        change = PartitionChange(state, entry.mod_revision)
        self._changed.put(topic_id, {**(self._changed.get(topic_id) or {}), number: change})
        name = self._names.get(topic_id)
        topic = None if name is None else self._topics.get(name)
        if topic is not None and number < len(topic.partitions):
            found = topic.partitions
            partitions = (*found[:number], state, *found[number + 1 :])
            self._topics.put(topic.name, replace(topic, partitions=partitions))

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
