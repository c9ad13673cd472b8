"""The four offset checkpoints of a data directory: what they say, and how they are written.

A checkpoint may say less than is so, never more. What is to be written is taken of one log after
the other, may be written to drafts in a thread, and takes effect only if nothing has happened since
that was begun after which it would say too much.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pyk.disk import Disk
from pyk.log.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    DamagedCheckpoint,
    read_offsets,
    write_offsets,
)
from pyk.types import TopicPartition

NAMES: Final = (RECOVERY_POINTS, HIGH_WATERMARKS, CLEANER_OFFSETS, LOG_START_OFFSETS)
"""In the order in which they are written: no log starts beyond what is known to be committed."""
_DRAFT: Final = ".draft"

Offsets: TypeAlias = Mapping[TopicPartition, int]


class Checkpoint(NamedTuple):
    """What checkpoints would say. It can be written in any thread."""

    disk: Disk
    path: Path
    offsets: dict[str, Offsets]
    """By the names of those that would change."""
    changes: int

    def run(self) -> None:
        """Write drafts beside the files. Raise OSError."""
        for name, offsets in self.offsets.items():
            write_offsets(self.disk, self.path / (name + _DRAFT), offsets)


class OffsetCheckpoints:
    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._written: dict[str, Offsets] = {}
        """What they say now: an idle broker does not write it again and again."""
        self._changes = 0
        """How often something has happened after which an older checkpoint must not be taken."""

    def read(self) -> tuple[dict[str, Offsets], list[DamagedCheckpoint]]:
        """What they say. One that is damaged says nothing, as in Kafka: logs are then recovered
        from their start, begin where their files do, and are committed as far as replicas say."""
        found: dict[str, Offsets] = {}
        damaged = []
        for name in NAMES:
            try:
                found[name] = read_offsets(self._disk, self._path / name)
            except DamagedCheckpoint as damage:
                found[name] = {}
                damaged.append(damage)
        return found, damaged

    def outdate(self) -> None:
        """What was taken before this moment must not be written any more."""
        self._changes += 1

    @property
    def changes(self) -> int:
        """How often it was outdated so far. What is taken now is good for as long as that is so."""
        return self._changes

    def begin(self, offsets: Mapping[str, Offsets], changes: int) -> Checkpoint | None:
        """What is not written of these, which are no older than the number of `changes` was. Then
        `end` is told."""
        changed = {
            name: offsets[name] for name in NAMES if self._written.get(name) != offsets[name]
        }
        return Checkpoint(self._disk, self._path, changed, changes) if changed else None

    def end(self, checkpoint: Checkpoint) -> bool:
        """Put what was written in its place, unless it may say too much by now. Should that be lost
        to a crash, what was there before is good as well. Raise OSError."""
        if self.is_outdated(checkpoint):
            return False
        for name, offsets in checkpoint.offsets.items():
            self._written.pop(name, None)
            self._disk.rename(self._path / (name + _DRAFT), self._path / name)
            self._written[name] = offsets
        return True

    def is_outdated(self, checkpoint: Checkpoint) -> bool:
        return checkpoint.changes != self._changes

    def write(self, name: str, offsets: Offsets) -> None:
        """At once and durably, if it is not what is written. Raise OSError."""
        if self._written.get(name) != offsets:
            self._written.pop(name, None)
            write_offsets(self._disk, self._path / name, offsets)
            self._written[name] = offsets
