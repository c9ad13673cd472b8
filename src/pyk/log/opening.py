"""What it takes to open or to make one log, apart from everything else: for a thread to run, while
others go on. What comes of it is a value, for the data directory to enter or to report.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from pyk.disk import Disk
from pyk.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    DamagedCheckpoint,
    read_topic_id,
    write_topic_id,
)
from pyk.log.config import LogConfig
from pyk.log.log import Log
from pyk.log.segments import CorruptLog
from pyk.types import ZERO_UUID, TopicPartition, Uuid
from pyk.wire.compression import CorruptBatch


class UnknownTopic(Exception):
    """The log is of a topic that nobody knows."""


def name_of(partition: TopicPartition) -> str:
    """Of its directory."""
    return f"{partition.topic}-{partition.partition}"


class LogOpening(Struct):
    disk: Disk
    data_directory: Path
    partition: TopicPartition
    config_of: Callable[[TopicPartition, Uuid], LogConfig | None]
    recovery_point: int | None
    """Where what is to be checked begins. None if the log was closed."""
    known: dict[str, int]
    """What checkpoints say of it."""
    topic_id: Uuid = ZERO_UUID
    """As it is found."""

    def attempt(
        self, checkpoint: Callable[[int], None] = lambda checked_bytes: None
    ) -> Log | Exception | None:
        """The log, or why there is none: CorruptLog, DamagedCheckpoint, UnknownTopic, OSError, or a
        bug. None if it was only being made when a crash came. `checkpoint` is told now and then of
        how many bytes more were recovered, and may raise to stop."""
        stopped = False

        def passing(checked_bytes: int) -> None:
            nonlocal stopped
            try:
                checkpoint(checked_bytes)
            except BaseException:
                stopped = True
                raise

        try:
            return self._open(passing)
        except (CorruptLog, DamagedCheckpoint, UnknownTopic, OSError) as failure:
            return failure
        except CorruptBatch as damage:
            # Met behind what opening looks at: where producers are replayed, say.
            return CorruptLog(f"{name_of(self.partition)}: {damage}")
        except Exception as bug:
            if stopped:
                raise
            # Whatever it is, it is this log's, and whoever waits for it must hear of it.
            return bug

    def _open(self, checkpoint: Callable[[int], None]) -> Log | None:
        path = self.data_directory / name_of(self.partition)
        topic_id = read_topic_id(self.disk, path)
        if topic_id is None:
            if self._is_unfinished(path):
                return None
            raise DamagedCheckpoint(f"{path.name} does not say which topic's it is")
        config = self.config_of(self.partition, topic_id)
        if config is None:
            raise UnknownTopic(path.name)
        log = Log.open(
            self.disk,
            path,
            config,
            recovery_point=self.recovery_point,
            start_offset=self.known.get(LOG_START_OFFSETS, 0),
            high_watermark=self.known.get(HIGH_WATERMARKS, 0),
            cleaned_until=self.known.get(CLEANER_OFFSETS, 0),
            closed_end=self.known.get(RECOVERY_POINTS),
            checkpoint=checkpoint,
        )
        log.release()
        self.topic_id = topic_id
        return log

    def _is_unfinished(self, path: Path) -> bool:
        """Whether it was only being made: the id of the topic is there before any segment."""
        return not any(name.endswith(".log") for name in self.disk.names(path))


class Creation(Struct, frozen=True):
    disk: Disk
    data_directory: Path
    partition: TopicPartition
    topic_id: Uuid
    config: LogConfig
    leader_epoch: int
    """Which the log begins with, if it is not negative."""

    def attempt(self) -> Log | OSError:
        """The log, or why there is none. All is durable but its name in the data directory."""
        path = self.data_directory / name_of(self.partition)
        try:
            self.disk.make_directory(path)
            write_topic_id(self.disk, path, self.topic_id)
            log = Log.open(self.disk, path, self.config)
            if self.leader_epoch >= 0:
                log.epochs.assign(self.leader_epoch, 0)
            log.flush()
            log.release()
        except OSError as failure:
            return failure
        return log
