"""The `.snapshot` files of a log: what was known of its producers at an offset, which is the name.

They are derived from the log and checked when they are read, so they are written without a sync of
their own, and a damaged one is as good as none. One is kept for each segment, from where replaying
it begins, and one for the end of a log that was closed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path

from pyk.disk import Disk, File
from pyk.log.producers import DamagedSnapshot, Producers
from pyk.log.segment import file_name

SUFFIX = ".snapshot"


class Snapshots:
    def __init__(self, disk: Disk, directory: Path, names: Iterable[str]) -> None:
        """Those among the names in a directory."""
        self._disk = disk
        self._directory = directory
        stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
        self._offsets = sorted(int(stem) for stem in stems if stem.isdigit())

    @property
    def offsets(self) -> list[int]:
        return list(self._offsets)

    def write(self, offset: int, producers: Producers) -> File:
        """What is known at this offset. The file is to be synced, and its name."""
        self._remove(offset)
        file = self._disk.open(self._path(offset))
        file.append(producers.snapshot())
        self._offsets = sorted([*self._offsets, offset])
        return file

    def load(self, producers: Producers, offset_max: int, start_offset: int) -> int:
        """Make `producers` know what the last snapshot says that is not after `offset_max`. Where
        to go on from: its offset, or with none that is any good, the start of the log."""
        for offset in reversed(self._offsets[: bisect_right(self._offsets, offset_max)]):
            if offset < start_offset:
                break
            try:
                producers.load(self._disk.read(self._path(offset)))
            except DamagedSnapshot:
                self._remove(offset)
            else:
                return offset
        producers.reset()
        return start_offset

    def remove_after(self, offset: int) -> bool:
        """The log ends there: what was known later is not true any more. Whether there was any."""
        late = self._offsets[bisect_right(self._offsets, offset) :]
        for after in late:
            self._remove(after)
        return bool(late)

    def keep(self, bases: Iterable[int]) -> None:
        """Remove all but the last one and those at these offsets."""
        kept = {*bases, *self._offsets[-1:]}
        for offset in self.offsets:
            if offset not in kept:
                self._remove(offset)

    def _remove(self, offset: int) -> None:
        if offset in self._offsets:
            self._disk.remove(self._path(offset))
            self._offsets.remove(offset)

    def _path(self, offset: int) -> Path:
        return self._directory / file_name(offset, SUFFIX)
