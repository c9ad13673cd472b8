"""The directories of partitions that are gone from a data directory, by their names.

    orders-0  ->  orders-0.<topic id>-delete   until nobody reads it any more, then it is removed
    orders-0  ->  orders-0.<topic id>-stray    kept: nobody knows the topic, and its records may be
                                               all that is left of it

Only names of exactly this form are a broker's own, and only directories: a symbolic link may lead
to what others keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from pyk.disk import Disk
from pyk.types import TopicPartition, Uuid

DELETE: Final = "-delete"
STRAY: Final = "-stray"
_DELETED: Final = r".+\.[0-9a-f]{32,}-delete"
_NAME_MAX: Final = 255


def is_deleted(disk: Disk, path: Path) -> bool:
    """Whether it is a partition's directory that is to be removed."""
    name = path.name
    return (
        name.endswith(DELETE)
        and re.fullmatch(_DELETED, name) is not None
        and disk.is_directory(path)
    )


def free_path(disk: Disk, path: Path, partition: TopicPartition, topic_id: Uuid, end: str) -> Path:
    """In Kafka's form, and not taken: a partition may come back and go again within the time that
    its files wait to be removed."""
    ends = (f"-{partition.partition}.{topic_id.hex()}{n or ''}{end}" for n in count())
    paths = (path / (partition.topic[: _NAME_MAX - len(each)] + each) for each in ends)
    return next(each for each in paths if not disk.exists(each))


class Removal(NamedTuple):
    """Directories to be removed with their files, in any thread: that takes long where they are
    large."""

    disk: Disk
    paths: list[Path]

    def run(self) -> dict[Path, OSError | None]:
        """What came of each."""
        return {path: self._remove(path) for path in self.paths}

    def _remove(self, path: Path) -> OSError | None:
        try:
            if self.disk.is_link(path):
                self.disk.remove(path)
                return None
            for name in self.disk.names(path):
                self.disk.remove(path / name)
            self.disk.remove_directory(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            return error
        return None


class DeletedDirectories:
    """Those that wait to be removed."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._delays: dict[Path, int] = {}
        """In milliseconds, from when they are first asked for."""
        self._due: dict[Path, int] = {}

    def add(self, path: Path, delay_ms: int) -> None:
        self._delays[path] = delay_ms

    def begin_removal(self, now_ms: int) -> Removal | None:
        """Those whose time has come. Then `end_removal` is told."""
        due = [
            path
            for path, delay_ms in self._delays.items()
            if now_ms >= self._due.setdefault(path, now_ms + delay_ms)
        ]
        return Removal(self._disk, due) if due else None

    def end_removal(self, outcomes: dict[Path, OSError | None]) -> Iterable[OSError]:
        """What failed is tried again the next time."""
        for path, failure in outcomes.items():
            if failure is not None:
                yield failure
            else:
                self._delays.pop(path, None)
                self._due.pop(path, None)
