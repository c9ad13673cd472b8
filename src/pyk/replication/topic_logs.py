"""The logs of the topics that the cluster has: made, opened, configured and deleted with them.

- A log is deleted when its topic was known and is not any more. One of a topic that nobody knows,
  or that has another id than the topic, is moved aside and kept: the metadata may be what is wrong.
- The configuration is always the topic's: a log without one is not opened, and nothing done to it.
- What waits for the disk is done in threads for those who ask before they need it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import trio

from pyk.config.topic import TopicConfig
from pyk.errors import ErrorCode, KafkaError, storage_error
from pyk.log.checkpoints import DamagedCheckpoint
from pyk.log.config import LogConfig
from pyk.log.directory import DataDirectory
from pyk.log.dormant import DormantLog
from pyk.log.log import Log
from pyk.log.opening import Creation, LogOpening, UnknownTopic, name_of
from pyk.log.segments import CorruptLog
from pyk.metadata.image import ClusterImage, Topic
from pyk.offload import Elsewhere, in_thread
from pyk.replication.checkpoints import Checkpoints
from pyk.turns import Work, in_turns
from pyk.types import TopicPartition, Uuid

T = TypeVar("T")

logger = logging.getLogger(__name__)

_PORTION = 16
"""Logs that are made, opened or deleted before others get their turn."""
_ENSURED_AT_ONCE = 500
"""So many are begun with in one step of the loop, and have one sync of their names."""
_RETRY_SECONDS = 5.0
_PORTIONS_AT_ONCE = 4
"""Each is in a thread, and all threads want the interpreter that the loop wants, too."""


class _NotDone(OSError):
    """Whoever wanted it was cancelled. Nobody needs to be told."""


class TopicLogs:
    def __init__(
        self,
        directory: DataDirectory,
        config_of: Callable[[str], TopicConfig],
        image: ClusterImage | None = None,
        offload: Elsewhere = in_thread,
        newest: Callable[[], ClusterImage] | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """`image` is what is known of topics already. `newest` may be ahead of what was followed:
        who has waited with a topic that it does not have any more is sent away."""
        self.directory = directory
        self.checkpoints = checkpoints or Checkpoints(directory, offload)
        """All that write them share this one: two at a time would take each other's drafts."""
        self._config_of = config_of
        self._offload = offload
        self._image = image or ClusterImage()
        """The last one that was followed."""
        self._newest = newest
        self._deleted: dict[Uuid, Topic] = {}
        """Topics that are gone, and of which there may still be logs."""
        self._ahead: dict[Uuid, Topic] = {}
        """Topics of which logs were made before an image was followed that has them."""
        self._has_deleted = trio.Event()
        self._opened = trio.Event()
        """Set, and made anew, when a thread is done with logs."""
        self._told: dict[TopicPartition, str] = {}
        """Why logs could not be opened, as it was told last."""
        self._threads = trio.Semaphore(_PORTIONS_AT_ONCE)
        self._defaults: TopicConfig | None = None
        """What topics have that nobody has configured."""
        self._configured: set[str] = set()
        """Topics with a new configuration that their logs do not have yet."""
        self._has_new_defaults = False
        """Whether that is so of all of them."""
        directory.config_of = self.config_of_log

    def config_of_log(self, partition: TopicPartition, topic_id: Uuid) -> LogConfig | None:
        """What the log's topic asks for. None if there is none of that id, or it has no such
        partition."""
        if not self._is_wanted(partition, topic_id):
            return None
        return LogConfig.of(self._config_of(partition.topic))

    def _is_wanted(self, partition: TopicPartition, topic_id: Uuid) -> bool:
        """Whether a topic of that id has such a partition, or had it a moment ago."""
        topic = self._image.topics.get(partition.topic)
        if topic is None or topic.topic_id != topic_id:
            topic = self._deleted.get(topic_id)
        return _has(topic, partition)

    def get_or_create(self, topic: Topic, partition: TopicPartition) -> Log:
        """The log of a topic's partition. Raise KafkaError."""
        directory = self.directory
        if self._is_there(topic, partition):
            if directory.is_dormant_and_closed(partition):
                opening = directory.begin_opening(partition)
                self.end_opening(opening, opening.attempt())
            return directory.log(partition)
        creation = self._begin_creation(topic, partition)
        try:
            outcome = creation.attempt()
            directory.sync_names()
        except OSError as error:
            outcome = error
        except Exception:
            with suppress(KafkaError):
                directory.end_creation(creation, OSError("it was not made"))
            raise
        return self._end_creation(creation, outcome)

    async def ensure(self, wanted: Iterable[tuple[Topic, TopicPartition]]) -> None:
        """See that there are these logs, and that they are open, before somebody needs them and
        cannot wait. What is wrong with one `get_or_create` says."""
        ids = self.directory.topic_ids
        missing = [(topic, p) for topic, p in wanted if ids.get(p) != topic.topic_id]
        for start in range(0, len(missing), _ENSURED_AT_ONCE):
            await self._ensure(missing[start : start + _ENSURED_AT_ONCE])

    async def _ensure(self, missing: Sequence[tuple[Topic, TopicPartition]]) -> None:
        directory = self.directory
        while any(directory.is_being_opened(partition) for _, partition in missing):
            await self._opened.wait()
        await self._checkpoint_before(partition for _, partition in missing)
        openings: list[LogOpening] = []
        creations: list[Creation] = []
        elsewhere: list[TopicPartition] = []
        try:
            await in_turns(self._begin(missing, openings, creations, elsewhere))
        finally:
            # Also if this was cancelled in between: then they are ended without having been tried.
            try:
                async with trio.open_nursery() as nursery:
                    for portion in _portions(openings):
                        nursery.start_soon(self._open, portion)
                    nursery.start_soon(self._create, creations)
            finally:
                self._tell_opened()
        while any(directory.is_being_opened(partition) for partition in elsewhere):
            await self._opened.wait()

    def _begin(
        self,
        missing: Sequence[tuple[Topic, TopicPartition]],
        openings: list[LogOpening],
        creations: list[Creation],
        elsewhere: list[TopicPartition],
    ) -> Work[None]:
        """What it takes to open or make them. Others may have begun with some meanwhile."""
        directory = self.directory
        for topic, partition in missing:
            if directory.is_being_opened(partition):
                elsewhere.append(partition)
                continue
            with suppress(KafkaError, OSError):
                if not self._is_there(topic, partition):
                    creations.append(self._begin_creation(topic, partition))
                elif directory.may_open(partition):
                    openings.append(directory.begin_opening(partition))
            yield

    async def _checkpoint_before(self, partitions: Iterable[TopicPartition]) -> None:
        """What checkpoints say of logs that are gone would be taken for new ones'. Making a log
        would write them on the loop."""
        if any(map(self.directory.was_forgotten, partitions)):
            with suppress(KafkaError):  # Then it is tried again, and told.
                await self.checkpoints.write()

    async def open_dormant(self, partition: TopicPartition) -> None:
        """Open a log in a thread, and recover it if it was not closed. If it cannot be opened, a
        line tells why."""
        if self.directory.may_open(partition):
            try:
                await self._open([self.directory.begin_opening(partition)])
            finally:
                self._tell_opened()

    async def open_unrecovered(self) -> None:
        """What the disk has kept from being recovered at the start is tried again."""
        for partition in self.directory.to_recover:
            await self.open_dormant(partition)

    def peek(self, partitions: Iterable[TopicPartition]) -> list[DormantLog]:
        """What it takes to see whether dormant logs need something."""
        found = []
        for partition in partitions:
            topic = self._image.topics.get(partition.topic)
            if topic is not None and self.directory.may_open(partition):
                config = LogConfig.of(self._config_of(partition.topic))
                found.append(self.directory.peek(partition, config))
        return found

    def on_image(self, image: ClusterImage) -> None:
        """Have the logs of topics that are gone since the last image deleted."""
        before, self._image = self._image, image
        if image.topics is not before.topics:
            changed = image.topics_changed_since(before)
            for name in before.topics if changed is None else changed:
                topic, now = before.topics.get(name), image.topics.get(name)
                if topic is not None and (now is None or now.topic_id != topic.topic_id):
                    self._deleted[topic.topic_id] = topic
                    self._has_deleted.set()
        self._note_deleted_unseen(image)
        self._configured |= image.topics_configured_since(before)
        defaults, self._defaults = self._defaults, self._config_of("")
        self._has_new_defaults |= defaults != self._defaults

    def _note_deleted_unseen(self, image: ClusterImage) -> None:
        """Of what came and went between two images, only the logs that were made tell."""
        for topic_id, topic in list(self._ahead.items()):
            if image.revision >= topic.revision:
                del self._ahead[topic_id]
                now = image.topics.get(topic.name)
                if now is None or now.topic_id != topic_id:
                    self._deleted[topic_id] = topic
                    self._has_deleted.set()

    def take_outdated(self) -> Callable[[str], bool] | None:
        """Tells of topics that may have another configuration since this was called last. None if
        there are none."""
        configured, self._configured = self._configured, set()
        has_new_defaults, self._has_new_defaults = self._has_new_defaults, False
        if has_new_defaults:
            return lambda topic: True
        return configured.__contains__ if configured else None

    def configure(self, partition: TopicPartition, log: Log, config: TopicConfig) -> None:
        """Give it what its topic asks for, if that is its topic."""
        if self._is_wanted(partition, self.directory.topic_ids[partition]):
            log.config = LogConfig.of(config)

    @property
    def image(self) -> ClusterImage:
        return self._image

    async def delete_logs(self) -> None:
        """Delete the logs of topics that are gone, as topics go, until cancelled. What the disk
        refuses is tried again."""
        while True:
            await self._has_deleted.wait()
            self._has_deleted = trio.Event()
            try:
                await self.delete_those_due()
            except OSError as failed:
                logger.warning("the logs of deleted topics cannot be deleted for now: %s", failed)
                await trio.sleep(_RETRY_SECONDS)
                self._has_deleted.set()

    async def delete_those_due(self) -> None:
        """Delete the logs of all topics that are gone. Raise OSError: some may still be there."""
        failure: OSError | None = None
        for topic_id, topic in list(self._deleted.items()):
            try:
                await self._delete(topic)
            except OSError as failed:
                failure = failed
            else:
                # A stop deletes what is left, which may have been begun before.
                self._deleted.pop(topic_id, None)
        self._report_strays()
        if failure is not None:
            raise failure

    async def _delete(self, topic: Topic) -> None:
        directory, numbers = self.directory, range(len(topic.partitions))
        for portion in _portions([TopicPartition(topic.name, number) for number in numbers]):
            # Also one that a thread has not begun with yet.
            while any(directory.is_being_opened(partition) for partition in portion):
                await self._opened.wait()
            directory.delete_all(p for p in portion if directory.topic_id_of(p) == topic.topic_id)
            # It may be another's. If it stayed, the next topic of that name could not be used.
            directory.reject_all([p for p in portion if directory.has_damaged_id(p)])
            await self._offload(directory.retry_sync)

    async def move_strays_aside(self) -> None:
        """Move aside the logs of topics of which not even the name is known. Those of another id
        show when they are opened."""
        directory, topics = self.directory, self._image.topics
        if self._image.unreadable:
            logger.error("logs of unknown topics are left alone: not all metadata can be read")
            directory.keeps_strays = True
        strays = [p for p in sorted(directory.partitions) if not _has(topics.get(p.topic), p)]
        for portion in _portions(strays):
            directory.reject_all(portion)
            await trio.lowlevel.checkpoint()
        await self._offload(directory.retry_sync)
        self._report_strays()

    def _report_strays(self) -> None:
        paths, self.directory.moved_aside = self.directory.moved_aside, []
        if paths:
            names = ", ".join(path.name for path in paths[:10])
            logger.warning("%s logs belong to no topic and are kept as %s", len(paths), names)

    def _is_there(self, topic: Topic, partition: TopicPartition) -> bool:
        """Whether there is a log of just this topic, which may be damaged. What is there of another
        one goes, or is moved aside. Raise KafkaError."""
        directory = self.directory
        self.newest_of(topic)
        if not (directory.has(partition) or partition in directory.failed):
            return False
        topic_id = directory.topic_id_of(partition)
        if topic_id == topic.topic_id or topic_id is None:
            return True
        known = self._image.topics.get(partition.topic)
        was_known = topic_id in self._deleted or (known and known.topic_id == topic_id)
        try:
            if was_known:
                directory.delete(partition)
            else:
                directory.reject_all([partition])
                directory.retry_sync()
                self._report_strays()
        except OSError as error:
            raise storage_error(name_of(partition), error) from error
        return partition in directory.failed

    def newest_of(self, topic: Topic) -> Topic:
        """The topic as it is by now. Raise KafkaError if it is one of the past: the log of that
        name is another's."""
        now = topic if self._newest is None else self._newest().topics.get(topic.name)
        if now is None or now.topic_id != topic.topic_id:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name} was deleted meanwhile"
            )
        return now

    def _begin_creation(self, topic: Topic, partition: TopicPartition) -> Creation:
        if self.directory.is_being_opened(partition):
            # Soon: clients ask again for who leads it, and then here.
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name_of(partition)} is being made"
            )
        if self._image.topics.get(topic.name) is not topic:
            self._ahead[topic.topic_id] = topic
        config = LogConfig.of(self._config_of(topic.name))
        # It is led here, and so its epoch has begun, as in Kafka before anything is appended.
        leader_epoch = topic.partitions[partition.partition].leader_epoch
        try:
            return self.directory.begin_creation(partition, topic.topic_id, config, leader_epoch)
        except KafkaError as refusal:
            if refusal.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._tell(partition, refusal, "made")
            raise

    def _end_creation(self, creation: Creation, outcome: Log | OSError) -> Log:
        if isinstance(outcome, OSError):
            if not isinstance(outcome, _NotDone):
                self._tell(creation.partition, outcome, "made")
        else:
            config = self.config_of_log(creation.partition, creation.topic_id)
            outcome.config = config or outcome.config
        return self.directory.end_creation(creation, outcome)

    def _tell(self, partition: TopicPartition, failure: Exception, what: str) -> None:
        """Log what is wrong: once, until it is another thing."""
        if self._told.get(partition) != str(failure):
            self._told[partition] = str(failure)
            is_foreseen = isinstance(failure, OSError | CorruptLog | DamagedCheckpoint)
            logger.error(
                "the log of %s cannot be %s: %s",
                name_of(partition),
                what,
                failure,
                exc_info=None if is_foreseen else failure,
            )

    async def _open(self, openings: Sequence[LogOpening]) -> None:
        outcomes: Sequence[Log | Exception | None] = [_NotDone()] * len(openings)
        try:
            async with self._threads:
                outcomes = await self._offload(lambda: [each.attempt() for each in openings])
        finally:
            for opening, outcome in zip(openings, outcomes, strict=True):
                self.end_opening(opening, outcome)
        self._report_strays()

    def end_opening(self, opening: LogOpening, outcome: Log | Exception | None) -> None:
        """Enter what came of it, and tell of what is wrong."""
        self.directory.end_opening(opening, outcome)
        if isinstance(outcome, Log):
            # It may have changed while a thread was at work.
            config = self.config_of_log(opening.partition, opening.topic_id)
            outcome.config = config or outcome.config
        if isinstance(outcome, Exception) and not isinstance(outcome, UnknownTopic | _NotDone):
            self._tell(opening.partition, outcome, "opened")
            return
        self._told.pop(opening.partition, None)
        if isinstance(outcome, Log) and outcome.dropped_bytes:
            name, dropped = name_of(opening.partition), outcome.dropped_bytes
            logger.warning("%s bytes were cut off the end of %s: they are damaged", dropped, name)

    async def _create(self, creations: Sequence[Creation]) -> None:
        """All of them, and then one sync of their names."""
        outcomes: dict[TopicPartition, Log | OSError] = {}

        async def attempt(portion: Sequence[Creation]) -> None:
            async with self._threads:
                made = await self._offload(lambda: [each.attempt() for each in portion])
            outcomes.update(zip((each.partition for each in portion), made, strict=True))

        failure: OSError | None = _NotDone()
        try:
            async with trio.open_nursery() as nursery:
                for portion in _portions(creations):
                    nursery.start_soon(attempt, portion)
            if creations:
                await self._offload(self.directory.sync_names)
            failure = None
        except OSError as error:
            failure = error
        finally:
            with trio.CancelScope(shield=True):
                await in_turns(self._end_creations(creations, failure, outcomes))

    def _end_creations(
        self,
        creations: Sequence[Creation],
        failure: OSError | None,
        outcomes: Mapping[TopicPartition, Log | OSError],
    ) -> Work[None]:
        for creation in creations:
            with suppress(KafkaError):
                self._end_creation(creation, failure or outcomes[creation.partition])
            yield

    def _tell_opened(self) -> None:
        self._opened.set()
        self._opened = trio.Event()


def _has(topic: Topic | None, partition: TopicPartition) -> bool:
    return topic is not None and partition.partition < len(topic.partitions)


def _portions(of: Sequence[T]) -> Iterator[Sequence[T]]:
    return (of[start : start + _PORTION] for start in range(0, len(of), _PORTION))
