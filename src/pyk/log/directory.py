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

After a clean shutdown logs may stay dormant until somebody asks for them, so that a start takes as
long with ten thousand as with ten.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Final, Self

from pyk.declared import NamedTuple
from pyk.disk import Disk, Lock
from pyk.errors import ErrorCode, KafkaError, storage_error
from pyk.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    DamagedCheckpoint,
    mark_clean_shutdown,
    read_offsets,
    read_topic_id,
    take_clean_shutdown,
    write_offsets,
    write_topic_id,
)
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.log.segments import CorruptLog
from pyk.types import ZERO_UUID, TopicPartition, Uuid

LOCK: Final = ".lock"
KAFKAS_METADATA: Final = "__cluster_metadata-0"
"""What Kafka's controllers keep beside the logs. It is not ours to touch."""
_DELETE: Final = "-delete"
_DRAFT: Final = ".draft"
_PARTITION: Final = r"([a-zA-Z0-9._-]{1,249})-(0|[1-9][0-9]{0,9})"
_NAME_MAX: Final = 255


class Checkpoint(NamedTuple):
    """What checkpoints would say of a moment. It can be written in any thread."""

    disk: Disk
    path: Path
    offsets: dict[str, dict[TopicPartition, int]]
    """By the names of those that would change."""
    changes: int

    def run(self) -> None:
        """Write drafts beside the files. Raise OSError."""
        for name, offsets in self.offsets.items():
            write_offsets(self.disk, self.path / (name + _DRAFT), offsets)


class DataDirectory:
    """Made by `open`."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        """Those that are not dormant."""
        self.topic_ids: dict[TopicPartition, Uuid] = {}
        self.failed: dict[TopicPartition, Exception] = {}
        """What could not be opened, and why. It is left as it is."""
        self.was_clean = False
        self._disk = disk
        self._config_of: Callable[[str], LogConfig] = lambda _: LogConfig()
        self._dormant: set[TopicPartition] = set()
        self._lock: Lock | None = None
        self._doomed: dict[Path, int] = {}
        """Directories of deleted partitions, and how long to wait before they are removed."""
        self._due: dict[Path, int] = {}
        self._offsets: dict[TopicPartition, dict[str, int]] = {}
        """What checkpoints said of dormant logs, and of those that failed."""
        self._written: dict[str, dict[TopicPartition, int]] = {}
        """What they say now: an idle broker does not write it again and again."""
        self._forgotten: set[TopicPartition] = set()
        """Partitions that are gone, and of which checkpoints may still speak."""
        self._changes = 0
        """How often something has happened after which an older checkpoint must not be taken."""

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

        Raise DirectoryInUse if another broker has it, DamagedCheckpoint if it does not say where
        its logs start or what of them is committed. Logs that are damaged are in `failed`.
        """
        directory = cls(disk, path)
        directory._config_of = config_of
        if not disk.exists(path):
            disk.make_directory(path)
        directory._lock = disk.lock(path / LOCK)
        directory.was_clean = directory._take_mark()
        if not directory.was_clean:
            # What is found is acted upon, and must not go back any more: what checkpoints say of
            # logs, and that partitions are deleted whose files are removed now.
            disk.sync_directory(path)
        directory._find_logs()
        if not (directory.was_clean and may_be_dormant):
            for partition in list(directory._dormant):
                directory._wake(partition)
        if not directory.was_clean:
            # What was cut off is not committed any more, and what is left needs no second recovery.
            directory.checkpoint()
        return directory

    @property
    def partitions(self) -> set[TopicPartition]:
        """All that are there and not known to be damaged."""
        return self._dormant | self.logs.keys()

    def has(self, partition: TopicPartition) -> bool:
        """Whether it is one of those, without a set of all of them."""
        return partition in self.logs or partition in self._dormant

    def dormant_end(self, partition: TopicPartition) -> int | None:
        """The high watermark of a log that is dormant, as checkpoints have it."""
        if partition not in self._dormant:
            return None
        return self._offsets[partition].get(HIGH_WATERMARKS)

    def log(self, partition: TopicPartition) -> Log:
        """Raise KafkaError if it is not there, or damaged."""
        found = self.logs.get(partition)
        if found is None and partition in self._dormant:
            self._wake(partition)
            found = self.logs.get(partition)
        if found is not None:
            return found
        if partition in self.failed:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"{_name(partition)}: {self.failed[partition]}"
            )
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{_name(partition)} is not in {self.path.name}"
        )

    def size(self, partition: TopicPartition) -> int:
        """The bytes of its batches. A log that is dormant or damaged is not opened for that."""
        log = self.logs.get(partition)
        if log is not None:
            return log.size
        path = self.path / _name(partition)
        try:
            names = self._disk.names(path)
        except (FileNotFoundError, NotADirectoryError):
            return 0
        return sum(self._disk.size(path / name) for name in names if name.endswith(".log"))

    def create(self, partition: TopicPartition, topic_id: Uuid, config: LogConfig) -> Log:
        """A new log, durably there. Raise KafkaError."""
        self._changes += 1
        if self.has(partition) or partition in self.failed:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"{_name(partition)} is there already")
        path = self.path / _name(partition)
        try:
            if partition in self._forgotten:
                # What is said of the one that is gone would be taken for this one's.
                self.checkpoint()
            self._disk.make_directory(path)
            self._disk.sync_directory(self.path)
            write_topic_id(self._disk, path, topic_id)
            log = Log.open(self._disk, path, config)
            log.flush()
        except OSError as error:
            raise storage_error(_name(partition), error) from error
        self.logs[partition] = log
        self.topic_ids[partition] = topic_id
        return log

    def delete(self, partition: TopicPartition) -> None:
        """Forget a partition, durably. `sweep` removes its files."""
        self._changes += 1
        away = self._path_of_deleted(partition)
        self._disk.rename(self.path / _name(partition), away)
        self._disk.sync_directory(self.path)
        log = self.logs.pop(partition, None)
        config = log.config if log is not None else self._config_of(partition.topic)
        self._doomed[away] = config.file_delete_delay_ms
        self._dormant.discard(partition)
        self.topic_ids.pop(partition, None)
        self.failed.pop(partition, None)
        self._offsets.pop(partition, None)
        self._forgotten.add(partition)

    def truncate(self, partition: TopicPartition, offset: int) -> None:
        """Forget every batch of a log that reaches `offset` or beyond, durably."""
        self._changes += 1
        log = self.log(partition)
        if offset < log.start_offset:
            self.clear(partition, offset)
            return
        if offset < log.flushed_end:
            # A batch that reaches over the offset goes as a whole, and before it may be a gap.
            self._write_recovery_points({partition: log.segment_offset(offset)})
        start_offset, high_watermark = log.start_offset, log.high_watermark
        log.truncate(offset)
        # What comes in the place of what is gone is not committed, nor to be hidden.
        if log.high_watermark < high_watermark:
            self._write_high_watermarks()
        if log.start_offset < start_offset:
            self._write_start_offsets({})

    def clear(self, partition: TopicPartition, offset: int) -> None:
        """Forget everything of a log and begin again at `offset`, durably."""
        self._changes += 1
        log = self.log(partition)
        self._write_recovery_points({partition: 0})
        # For a moment there is no segment to say where the log starts.
        self._write_start_offsets({partition: max(offset, log.start_offset)})
        log.clear(offset)
        self._write_high_watermarks()
        self._write_start_offsets({})

    def delete_records(self, partition: TopicPartition, offset: int) -> None:
        """Let a log start at `offset`, durably. Raise KafkaError."""
        self._changes += 1
        self.log(partition).advance_start(offset)
        try:
            # Also if it starts there already: who asked for that may have been told of an error.
            self._write_start_offsets({})
        except OSError as error:
            raise storage_error(_name(partition), error) from error

    def checkpoint(self) -> None:
        """Write what is so now."""
        self._changes += 1
        for name, offsets in self._all_offsets().items():
            self._write(name, offsets)
        self._forgotten.clear()

    def begin_checkpoint(self) -> Checkpoint | None:
        """What is so now, if it is not what is written: to be run in any thread. Then
        `end_checkpoint` is told."""
        changed = {
            name: offsets
            for name, offsets in self._all_offsets().items()
            if self._written.get(name) != offsets
        }
        return Checkpoint(self._disk, self.path, changed, self._changes) if changed else None

    def end_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Put what was written in its place, unless it may say too much by now. Should that be lost
        to a crash, what was there before is good as well. Raise OSError."""
        if checkpoint.changes != self._changes:
            return
        for name, offsets in checkpoint.offsets.items():
            self._written.pop(name, None)
            self._disk.rename(self.path / (name + _DRAFT), self.path / name)
            self._written[name] = offsets

    def sweep(self, now_ms: int) -> None:
        """Remove the files of partitions that were deleted, once their time has come."""
        for path, delay_ms in list(self._doomed.items()):
            if now_ms >= self._due.setdefault(path, now_ms + delay_ms):
                self._remove(path)
                del self._doomed[path], self._due[path]

    def close(self, broker_epoch: int = -1) -> None:
        """Make everything durable, and say so. Raise OSError if it cannot be: then nothing is
        said, and the next start recovers."""
        for log in self.logs.values():
            log.close()
        self.checkpoint()
        if not self.failed:
            mark_clean_shutdown(self._disk, self.path, broker_epoch)
        self._lock = None

    def _take_mark(self) -> bool:
        try:
            return take_clean_shutdown(self._disk, self.path) is not None
        except DamagedCheckpoint:
            return False

    def _find_logs(self) -> None:
        offsets = {
            RECOVERY_POINTS: self._read_or_none(RECOVERY_POINTS),
            CLEANER_OFFSETS: self._read_or_none(CLEANER_OFFSETS),
            HIGH_WATERMARKS: read_offsets(self._disk, self.path / HIGH_WATERMARKS),
            LOG_START_OFFSETS: read_offsets(self._disk, self.path / LOG_START_OFFSETS),
        }
        for name in self._disk.names(self.path):
            # Not asked of every name: in a new directory the pattern need not be compiled.
            may_be_partition = "-" in name and name != KAFKAS_METADATA
            found = re.fullmatch(_PARTITION, name) if may_be_partition else None
            if name.endswith(_DELETE):
                self._remove(self.path / name)
            elif found is not None:
                partition = TopicPartition(found[1], int(found[2]))
                self._dormant.add(partition)
                self._offsets[partition] = {
                    of: known[partition] for of, known in offsets.items() if partition in known
                }

    def _wake(self, partition: TopicPartition) -> None:
        """It is in `logs` or in `failed` then, or it is no log at all."""
        self._dormant.discard(partition)
        try:
            self._open_log(partition, self._offsets[partition])
        except (CorruptLog, DamagedCheckpoint, OSError) as damage:
            self.failed[partition] = damage
        else:
            del self._offsets[partition]

    def _is_unfinished(self, path: Path) -> bool:
        """Whether it was only being made: the topic's id is the first thing to be there."""
        return all(name.endswith(".tmp") for name in self._disk.names(path))

    def _open_log(self, partition: TopicPartition, known: dict[str, int]) -> None:
        path = self.path / _name(partition)
        try:
            topic_id = read_topic_id(self._disk, path)
        except NotADirectoryError:
            return
        if topic_id is None:
            if self._is_unfinished(path):
                return
            raise DamagedCheckpoint(f"{path.name} does not say which topic's it is")
        log = Log.open(
            self._disk,
            path,
            self._config_of(partition.topic),
            recovery_point=None if self.was_clean else known.get(RECOVERY_POINTS, 0),
            start_offset=known.get(LOG_START_OFFSETS, 0),
            high_watermark=known.get(HIGH_WATERMARKS, 0),
            cleaned_until=known.get(CLEANER_OFFSETS, 0),
        )
        log.release()
        self.logs[partition] = log
        self.topic_ids[partition] = topic_id

    def _read_or_none(self, name: str) -> dict[TopicPartition, int]:
        """What may be read as nothing at the price of work."""
        try:
            return read_offsets(self._disk, self.path / name)
        except DamagedCheckpoint:
            return {}

    def _write(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        if self._written.get(name) != offsets:
            self._written.pop(name, None)
            write_offsets(self._disk, self.path / name, offsets)
            self._written[name] = offsets

    def _write_recovery_points(self, lowered: dict[TopicPartition, int]) -> None:
        self._write(RECOVERY_POINTS, {**self._recovery_points(), **lowered})

    def _write_high_watermarks(self) -> None:
        self._write(HIGH_WATERMARKS, self._high_watermarks())

    def _write_start_offsets(self, also: dict[TopicPartition, int]) -> None:
        self._write(LOG_START_OFFSETS, {**self._start_offsets(), **also})

    def _all_offsets(self) -> dict[str, dict[TopicPartition, int]]:
        """In the order in which they are written."""
        return {
            RECOVERY_POINTS: self._recovery_points(),
            HIGH_WATERMARKS: self._high_watermarks(),
            CLEANER_OFFSETS: self._cleaner_offsets(),
            LOG_START_OFFSETS: self._start_offsets(),
        }

    def _recovery_points(self) -> dict[TopicPartition, int]:
        found = {partition: log.flushed_end for partition, log in self.logs.items()}
        return {**self._said_of_others(RECOVERY_POINTS), **found}

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        found = {partition: log.high_watermark for partition, log in self.logs.items()}
        return {**self._said_of_others(HIGH_WATERMARKS), **found}

    def _cleaner_offsets(self) -> dict[TopicPartition, int]:
        found = {p: log.cleaned_until for p, log in self.logs.items() if log.config.is_compacted}
        return {**self._said_of_others(CLEANER_OFFSETS), **found}

    def _start_offsets(self) -> dict[TopicPartition, int]:
        found = {p: log.start_offset for p, log in self.logs.items() if log.starts_inside_a_segment}
        return {**self._said_of_others(LOG_START_OFFSETS), **found}

    def _said_of_others(self, name: str) -> dict[TopicPartition, int]:
        """Of logs that are dormant, or failed."""
        return {p: known[name] for p, known in self._offsets.items() if name in known}

    def _path_of_deleted(self, partition: TopicPartition) -> Path:
        """In Kafka's form, and not taken: a partition may come back and go again within the time
        that its files wait to be removed."""
        unique = (self.topic_ids.get(partition) or self._read_topic_id(partition)).hex()
        ends = (f"-{partition.partition}.{unique}{n or ''}{_DELETE}" for n in count())
        paths = (self.path / (partition.topic[: _NAME_MAX - len(end)] + end) for end in ends)
        return next(path for path in paths if not self._disk.exists(path))

    def _read_topic_id(self, partition: TopicPartition) -> Uuid:
        try:
            return read_topic_id(self._disk, self.path / _name(partition)) or ZERO_UUID
        except DamagedCheckpoint:
            return ZERO_UUID

    def _remove(self, path: Path) -> None:
        for name in self._disk.names(path):
            self._disk.remove(path / name)
        self._disk.remove_directory(path)


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"
