"""A data directory: the logs of many partitions, and the checkpoints that speak for all of them.

    data/
      .lock                              one broker at a time
      .kafka_cleanshutdown               nothing needs to be recovered
      recovery-point-offset-checkpoint   before these offsets everything is durable
      replication-offset-checkpoint      high watermarks
      log-start-offset-checkpoint        where logs start, if that is not where their files do
      cleaner-offset-checkpoint          how far logs are compacted
      orders-0/  orders-1/ ...

A checkpoint may say less than is so, never more: what it promises is lowered before a log is
truncated, and raised after it was flushed.

After a clean shutdown logs stay dormant until somebody asks for them, so that a start takes as long
with ten thousand as with ten. After another one each is recovered before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from pyk.disk import Disk, Lock
from pyk.errors import ErrorCode, KafkaError, forget_locals, storage_error
from pyk.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CleanShutdown,
    DamagedCheckpoint,
    mark_clean_shutdown,
    read_clean_shutdown,
    read_topic_id,
    remove_clean_shutdown,
)
from pyk.log.config import LogConfig
from pyk.log.deleted_directories import (
    DELETE,
    STRAY,
    DeletedDirectories,
    Removal,
    free_path,
    is_deleted,
)
from pyk.log.dormant import DormantLog
from pyk.log.log import Log
from pyk.log.offset_checkpoints import NAMES, Checkpoint, OffsetCheckpoints, Offsets
from pyk.log.opening import Creation, LogOpening, UnknownTopic, name_of
from pyk.log.segments import CorruptLog
from pyk.types import ZERO_UUID, TopicPartition, Uuid
from pyk.wire.compression import CorruptBatch

if TYPE_CHECKING:
    from pyk.turns import Work

LOCK: Final = ".lock"
KAFKAS_METADATA: Final = "__cluster_metadata-0"
"""What Kafka's controllers keep beside the logs. It is not ours to touch."""
_OFFSET_OF: Final[Mapping[str, Callable[[Log], int | None]]] = {
    RECOVERY_POINTS: lambda log: log.flushed_end,
    HIGH_WATERMARKS: lambda log: log.high_watermark,
    CLEANER_OFFSETS: lambda log: log.cleaned_until if log.config.is_compacted else None,
    LOG_START_OFFSETS: lambda log: log.start_offset if log.starts_inside_a_segment else None,
}
"""What each checkpoint says of a log, if anything."""
_PARTITION: Final = r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})"


class DataDirectory:
    """Made by `open`, or by `hold` and `begin`."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        """Those that are not dormant."""
        self.topic_ids: dict[TopicPartition, Uuid] = {}
        self.failed: dict[TopicPartition, Exception] = {}
        """What could not be opened, and why. It is left as it is."""
        self.unopened: dict[TopicPartition, OSError] = {}
        """Those that are dormant because the disk has kept them from being opened, and why."""
        self.was_clean = False
        self.config_of: Callable[[TopicPartition, Uuid], LogConfig | None] = lambda *_: LogConfig()
        """What the configuration of a partition's topic asks for. None if nobody knows the topic,
        or not under this id: then the log is moved aside."""
        self.not_closed: dict[TopicPartition, Exception] = {}
        """What `close` could not make durable, and why."""
        self.moved_aside: list[Path] = []
        """Where logs of topics that nobody knows were moved to, until somebody reports it."""
        self.keeps_strays = False
        """Whether those stay where they are, unopened."""
        self.damaged_checkpoints: list[DamagedCheckpoint] = []
        """What was found when the directory was opened."""
        self._disk = disk
        self._dormant: set[TopicPartition] = set()
        self._to_recover: set[TopicPartition] = set()
        """Of those that are dormant: they were not closed."""
        self._opening: set[TopicPartition] = set()
        """They are being made or opened in a thread."""
        self._lock: Lock | None = None
        self._deleted = DeletedDirectories(disk)
        self._known: dict[TopicPartition, dict[str, int]] = {}
        """What checkpoints said of dormant logs, and of those that failed."""
        self._checkpoints = OffsetCheckpoints(disk, path)
        self._forgotten: set[TopicPartition] = set()
        """Partitions that are gone, and of which checkpoints may still speak."""
        self._renames = self._durable_renames = 0
        """How many logs were deleted or moved aside, and how many of them are so durably."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: Path,
        config_of: Callable[[str], LogConfig],
        *,
        may_be_dormant: bool = False,
    ) -> Self:
        """All logs in a directory, which is made if it is not there. `config_of` gives a topic's.

        Raise DirectoryInUse if another broker has it. Logs that are damaged are in `failed`.
        """
        directory = cls.hold(disk, path)
        directory.config_of = lambda partition, _: config_of(partition.topic)
        directory.begin()
        for partition in directory.to_recover if may_be_dormant else sorted(directory._dormant):
            opening = directory.begin_opening(partition)
            directory.end_opening(opening, opening.attempt())
        directory.end_recovery()
        return directory

    @classmethod
    def hold(cls, disk: Disk, path: Path) -> Self:
        """The directory, made if it is not there, and which logs are in it. Nothing is changed yet,
        and no log opened. Raise DirectoryInUse."""
        directory = cls(disk, path)
        if not disk.exists(path):
            disk.make_directory(path)
            disk.sync_directory(path.parent)
        directory._lock = disk.lock(path / LOCK)
        directory._find_logs()
        return directory

    def begin(self) -> None:
        """From now on logs may change: the last clean shutdown does not vouch for them any more."""
        mark = self._read_mark()
        self.was_clean = mark is not None
        if mark is not None:
            remove_clean_shutdown(self._disk, self.path)
            self._to_recover = {p for p in self._dormant if name_of(p) in mark.to_recover}
        else:
            self._to_recover = set(self._dormant)
            # What is found is acted upon, and must not go back any more: what checkpoints say of
            # logs, and that partitions are deleted whose files are removed now.
            self._disk.sync_directory(self.path)

    @property
    def to_recover(self) -> list[TopicPartition]:
        return sorted(self._to_recover)

    def end_recovery(self) -> None:
        """What was cut off is not committed any more, and what is left needs no second recovery.
        Raise OSError."""
        if not self.was_clean:
            self.checkpoint()

    @property
    def partitions(self) -> set[TopicPartition]:
        """All that are there and not known to be damaged."""
        return self._dormant | self.logs.keys()

    @property
    def dormant(self) -> list[TopicPartition]:
        return sorted(self._dormant - self._to_recover - self._opening)

    def has(self, partition: TopicPartition) -> bool:
        """Whether it is one of those, without a set of all of them."""
        return partition in self.logs or partition in self._dormant

    def is_dormant(self, partition: TopicPartition) -> bool:
        """Whether it has to be opened, which a thread may be about to do."""
        return partition in self._dormant

    def dormant_end(self, partition: TopicPartition) -> int | None:
        """The high watermark of a log that is dormant, as checkpoints have it."""
        if partition not in self._dormant:
            return None
        return self._known[partition].get(HIGH_WATERMARKS)

    def log(self, partition: TopicPartition) -> Log:
        """Raise KafkaError if it is not there, or damaged."""
        found = self.logs.get(partition)
        if found is None and partition in self._dormant:
            found = self._wake(partition)
        if found is not None:
            return found
        if partition in self.failed:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{name_of(partition)}: {self.failed[partition]}"
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{name_of(partition)} is not in {self.path.name}",
        )

    def topic_id_of(self, partition: TopicPartition) -> Uuid | None:
        """As its directory says it, if that can be read."""
        known = self.topic_ids.get(partition)
        if known is not None:
            return known
        try:
            return read_topic_id(self._disk, self.path / name_of(partition))
        except (DamagedCheckpoint, OSError):
            return None

    def has_damaged_id(self, partition: TopicPartition) -> bool:
        """Whether there is a log, and nobody can say which topic's it is."""
        is_there = self.has(partition) or partition in self.failed
        if partition in self.topic_ids or not is_there:
            return False
        try:
            return read_topic_id(self._disk, self.path / name_of(partition)) is None
        except DamagedCheckpoint:
            return True
        except OSError:
            return False

    def peek(self, partition: TopicPartition, config: LogConfig) -> DormantLog:
        """What it takes to see whether a dormant log needs something."""
        known = self._known[partition]
        return DormantLog(
            self._disk,
            self.path / name_of(partition),
            partition,
            config,
            known.get(LOG_START_OFFSETS, 0),
            known.get(CLEANER_OFFSETS, 0),
        )

    def size(self, partition: TopicPartition) -> int:
        """The bytes of its batches. A log that is dormant or damaged is not opened for that."""
        log = self.logs.get(partition)
        if log is not None:
            return log.size
        path = self.path / name_of(partition)
        try:
            names = self._disk.names(path)
        except (FileNotFoundError, NotADirectoryError):
            return 0
        return sum(self._disk.size(path / name) for name in names if name.endswith(".log"))

    def may_open(self, partition: TopicPartition) -> bool:
        """Whether it is dormant, and nobody is opening it."""
        return partition in self._dormant and partition not in self._opening

    def begin_opening(self, partition: TopicPartition) -> LogOpening:
        """What it takes to open a dormant log, in any thread. Then `end_opening` is told."""
        assert partition in self._dormant
        assert partition not in self._opening
        self._opening.add(partition)
        known = self._known[partition]
        recovery_point = known.get(RECOVERY_POINTS, 0) if partition in self._to_recover else None
        return LogOpening(self._disk, self.path, partition, self.config_of, recovery_point, known)

    def end_opening(self, opening: LogOpening, outcome: Log | Exception | None) -> None:
        """It is in `logs` or in `failed` then, or it is no log at all. If the disk has failed it is
        as it was, and may be tried again."""
        partition = opening.partition
        self._opening.discard(partition)
        self.unopened.pop(partition, None)
        if isinstance(outcome, Exception):
            forget_locals(outcome)
        if partition not in self._dormant:
            return
        if isinstance(outcome, OSError):
            self.unopened[partition] = outcome
            return
        if isinstance(outcome, UnknownTopic):
            with suppress(OSError):  # Then it stays dormant.
                self.reject_all([partition])
            return
        self._dormant.discard(partition)
        if isinstance(outcome, Log):
            self.logs[partition] = outcome
            self.topic_ids[partition] = opening.topic_id
            self._to_recover.discard(partition)
            del self._known[partition]
        elif outcome is not None:
            self.failed[partition] = outcome
        else:
            self._to_recover.discard(partition)

    def begin_creation(
        self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, leader_epoch: int = -1
    ) -> Creation:
        """What it takes to make a log, in any thread. Then `end_creation` is told. Raise KafkaError
        if it is there already."""
        if self.has(partition) or partition in self.failed or partition in self._opening:
            raise KafkaError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"{name_of(partition)} is there already"
            )
        try:
            if partition in self._forgotten:
                # What is said of the one that is gone would be taken for this one's.
                self.checkpoint()
        except OSError as error:
            raise storage_error(name_of(partition), error) from error
        self._opening.add(partition)
        self._checkpoints.outdate()
        return Creation(self._disk, self.path, partition, topic_id, config, leader_epoch)

    def end_creation(self, creation: Creation, outcome: Log | OSError) -> Log:
        """The log, if it was made, and its name in the directory is durable. Raise KafkaError."""
        partition = creation.partition
        self._opening.discard(partition)
        self._checkpoints.outdate()
        if isinstance(outcome, OSError):
            raise storage_error(name_of(partition), outcome) from outcome
        self.logs[partition] = outcome
        self.topic_ids[partition] = creation.topic_id
        return outcome

    def create(self, partition: TopicPartition, topic_id: Uuid, config: LogConfig) -> Log:
        """A new log, durably there. Raise KafkaError."""
        creation = self.begin_creation(partition, topic_id, config)
        outcome = creation.attempt()
        if isinstance(outcome, Log):
            try:
                self.sync_names()
            except OSError as error:
                outcome = error
        return self.end_creation(creation, outcome)

    def is_being_opened(self, partition: TopicPartition) -> bool:
        """Whether a thread is making or opening it."""
        return partition in self._opening

    def delete(self, partition: TopicPartition) -> None:
        """Forget a partition, durably. `begin_removal` is about its files. Raise OSError."""
        self.delete_all([partition])
        self.retry_sync()

    def delete_all(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions: durably with `retry_sync`. Raise OSError: those that are still there
        can be deleted again."""
        for partition in partitions:
            log = self.logs.get(partition)
            config = log.config if log is not None else self._config(partition)
            away = self._rename(partition, DELETE)
            self._deleted.add(away, config.file_delete_delay_ms)
            self._renames += 1

    def reject_all(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget logs whose topics nobody knows, and keep their files: durably with `retry_sync`.
        Raise OSError."""
        for partition in partitions:
            if self.keeps_strays:
                self._dormant.discard(partition)
                self._to_recover.discard(partition)
                self.logs.pop(partition, None)
                self.failed[partition] = UnknownTopic("its topic is not known")
            else:
                self.moved_aside.append(self._rename(partition, STRAY))
                self._renames += 1

    def sync_names(self) -> None:
        """Make durable what was made or renamed, in any thread. Raise OSError."""
        self._disk.sync_directory(self.path)

    def retry_sync(self) -> None:
        """See that what was deleted or moved aside is so durably, in any thread. Raise OSError: it
        can be done again."""
        # More may be renamed while this waits for the disk.
        renames = self._renames
        if self._durable_renames < renames:
            self.sync_names()
            self._durable_renames = renames

    def truncate(self, partition: TopicPartition, offset: int) -> None:
        """Forget every batch of a log that reaches `offset` or beyond, durably."""
        self._checkpoints.outdate()
        log = self.log(partition)
        if offset < log.start_offset:
            self.clear(partition, offset)
            return
        if offset < log.flushed_end:
            # A batch that reaches over the offset goes as a whole, and before it may be a gap.
            self._write_recovery_points({partition: log.segment_offset(offset)})
        start_offset, high_watermark = log.start_offset, log.high_watermark
        log.truncate(offset)
        # What comes in the place of what is gone is not to be hidden, nor committed. In this order:
        # no log starts beyond what is committed, unless a checkpoint is damaged.
        if log.start_offset < start_offset:
            self._write_start_offsets({})
        if log.high_watermark < high_watermark:
            self._write_high_watermarks()

    def clear(self, partition: TopicPartition, offset: int) -> None:
        """Forget everything of a log and begin again at `offset`, durably."""
        self._checkpoints.outdate()
        log = self.log(partition)
        self._write_recovery_points({partition: 0})
        # For a moment there is no segment to say where the log starts.
        self._write_start_offsets({partition: max(offset, log.start_offset)})
        log.clear(offset)
        self._write_high_watermarks()
        self._write_start_offsets({})

    def delete_records(self, partition: TopicPartition, offset: int) -> None:
        """Let a log start at `offset`, durably. Raise KafkaError."""
        self.log(partition).advance_start(offset)
        try:
            # Also if it starts there already: who asked for that may have been told of an error.
            self.checkpoint()
        except OSError as error:
            raise storage_error(name_of(partition), error) from error

    def checkpoint(self) -> None:
        """Write what is so now. Raise OSError."""
        self._checkpoints.outdate()
        for name in NAMES:
            self._checkpoints.write(name, self._offsets(name))
        self._forgotten.clear()

    def begin_checkpoint(self) -> Work[Checkpoint | None]:
        """What is so now, if it is not what is written: to be run in any thread. Then
        `end_checkpoint` is told. What happens while logs are asked one after the other either
        raises what they would say, or outdates the checkpoint."""
        changes = self._checkpoints.changes
        known, logs = list(self._known.items()), list(self.logs.items())
        offsets: dict[str, dict[TopicPartition, int]] = {name: {} for name in NAMES}
        for partition, said in known:
            for name, offset in said.items():
                offsets[name][partition] = offset
            yield
        for partition, log in logs:
            for name, of in _OFFSET_OF.items():
                found = of(log)
                if found is not None:
                    offsets[name][partition] = found
            yield
        return self._checkpoints.begin(offsets, changes)

    def end_checkpoint(self, checkpoint: Checkpoint) -> bool:
        """Whether it took effect: not if it may say too much by now. It does so durably with
        `sync_names`; if it is lost before, what was there is good as well. Raise OSError."""
        return self._checkpoints.end(checkpoint)

    def note_durable(self, checkpoint: Checkpoint) -> None:
        """A checkpoint that took effect is durable: it speaks of no partition that is gone, unless
        one went after it was begun."""
        if not self._checkpoints.is_outdated(checkpoint):
            self._forgotten.clear()

    def was_forgotten(self, partition: TopicPartition) -> bool:
        """Whether checkpoints may still speak of one of that name that is gone."""
        return partition in self._forgotten

    def begin_removal(self, now_ms: int) -> Removal | None:
        """The files of partitions that were deleted, once their time has come, and none of them can
        come back under its name. Then `end_removal` is told."""
        if self._durable_renames < self._renames:
            return None
        return self._deleted.begin_removal(now_ms)

    def end_removal(self, outcomes: dict[Path, OSError | None]) -> Sequence[OSError]:
        """What could not be removed: that is tried again."""
        return list(self._deleted.end_removal(outcomes))

    def sweep(self, now_ms: int) -> None:
        """Both, here and now."""
        removal = self.begin_removal(now_ms)
        if removal is not None:
            self.end_removal(removal.run())

    def close(self, broker_epoch: int = -1) -> None:
        """Make everything durable, and say so: but for logs that cannot be, which the next start
        recovers. Raise OSError if nothing can be said."""
        to_recover = self.failed.keys() | self._to_recover
        for partition, log in self.logs.items():
            try:
                log.close()
            except (OSError, KafkaError, CorruptBatch) as failure:
                self.not_closed[partition] = failure
                to_recover.add(partition)
        self.checkpoint()
        self.retry_sync()
        mark_clean_shutdown(self._disk, self.path, broker_epoch, sorted(map(name_of, to_recover)))
        self.let_go()

    def let_go(self) -> None:
        """Another one may have the directory. Nothing is written, nor said to be durable."""
        self._lock = None

    def _read_mark(self) -> CleanShutdown | None:
        try:
            return read_clean_shutdown(self._disk, self.path)
        except DamagedCheckpoint:
            return None

    def _find_logs(self) -> None:
        offsets, self.damaged_checkpoints = self._checkpoints.read()
        for name in self._disk.names(self.path):
            path = self.path / name
            # Not asked of every name: in a new directory the pattern need not be compiled.
            may_be_partition = "-" in name and name != KAFKAS_METADATA
            found = re.fullmatch(_PARTITION, name) if may_be_partition else None
            if found is not None:
                self._find_log(path, TopicPartition(found[1], int(found[2])), offsets)
            elif is_deleted(self._disk, path):
                self._deleted.add(path, 0)

    def _find_log(self, path: Path, partition: TopicPartition, offsets: dict[str, Offsets]) -> None:
        if self._disk.is_directory(path):
            self._dormant.add(partition)
            self._known[partition] = {
                of: known[partition] for of, known in offsets.items() if partition in known
            }
        elif self._disk.is_link(path):
            self.failed[partition] = CorruptLog(f"{path.name} is a symbolic link")

    def is_dormant_and_closed(self, partition: TopicPartition) -> bool:
        """Whether it can be opened at once: it was closed, and nobody else is opening it."""
        return self.may_open(partition) and partition not in self._to_recover

    def _wake(self, partition: TopicPartition) -> Log | None:
        """Open a log that was closed. Raise KafkaError if a thread has it, or the disk fails."""
        if partition in self._opening:
            # Soon: clients ask again for who leads it, and then here.
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{name_of(partition)} is being opened"
            )
        if partition in self._to_recover:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name_of(partition)} is not open yet")
        opening = self.begin_opening(partition)
        outcome: Log | Exception | None = OSError("it was not opened")
        try:
            outcome = opening.attempt()
        finally:
            self.end_opening(opening, outcome)
        if isinstance(outcome, OSError):
            raise storage_error(name_of(partition), outcome) from outcome
        return self.logs.get(partition)

    def _config(self, partition: TopicPartition) -> LogConfig:
        topic_id = self.topic_id_of(partition)
        config = self.config_of(partition, topic_id) if topic_id is not None else None
        return config or LogConfig()

    def _rename(self, partition: TopicPartition, end: str) -> Path:
        """Take a partition's directory away from its name, and forget it. Raise OSError."""
        topic_id = self.topic_id_of(partition) or ZERO_UUID
        away = free_path(self._disk, self.path, partition, topic_id, end)
        self._checkpoints.outdate()
        self._disk.rename(self.path / name_of(partition), away)
        log = self.logs.pop(partition, None)
        if log is not None:
            log.drop(away)
        self._dormant.discard(partition)
        self.unopened.pop(partition, None)
        self._to_recover.discard(partition)
        self.topic_ids.pop(partition, None)
        self.failed.pop(partition, None)
        self._known.pop(partition, None)
        self._forgotten.add(partition)
        return away

    def _write_recovery_points(self, lowered: dict[TopicPartition, int]) -> None:
        self._checkpoints.write(RECOVERY_POINTS, {**self._offsets(RECOVERY_POINTS), **lowered})

    def _write_high_watermarks(self) -> None:
        self._checkpoints.write(HIGH_WATERMARKS, self._offsets(HIGH_WATERMARKS))

    def _write_start_offsets(self, also: dict[TopicPartition, int]) -> None:
        self._checkpoints.write(LOG_START_OFFSETS, {**self._offsets(LOG_START_OFFSETS), **also})

    def _offsets(self, name: str) -> Offsets:
        """What a checkpoint would say now."""
        of = _OFFSET_OF[name]
        found = {p: offset for p, log in self.logs.items() if (offset := of(log)) is not None}
        return {**self._said_of_others(name), **found}

    def _said_of_others(self, name: str) -> dict[TopicPartition, int]:
        """Of logs that are dormant, or failed."""
        return {p: known[name] for p, known in self._known.items() if name in known}
