"""The `.snapshot` files of a log: what was known of its producers at an offset, which is the name.

They are derived from the log and checked when they are read, so a damaged one is as good as none,
and one of many producers is written with the next flush, in its thread. One is kept for each
segment, from where replaying it begins, and one for the end of a log that was closed. Before
segments are removed, those behind them are durable.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyk.disk import Disk, File
from pyk.log.producers import DamagedSnapshot, Producer, Producers
from pyk.log.segment import file_name

SUFFIX = ".snapshot"

QUICK_PRODUCERS: Final = 1000
"""How many are written at once, in a few milliseconds. More wait for a thread."""


class Snapshot:
    """A file that is there, and what is to be written to it."""

    def __init__(self, file: File, known: list[Producer]) -> None:
        self.known: list[Producer] | None = known
        """None once it is written."""
        self.is_durable = False
        self._unused = [file]
        """Whoever takes it out writes or syncs it. It does not come back once it is durable."""

    @property
    def is_quick(self) -> bool:
        """Whether writing it holds up nobody."""
        return self.known is None or len(self.known) <= QUICK_PRODUCERS

    def write(self) -> None:
        """Without room on the disk it stays damaged: replaying begins earlier then, and that is
        all."""
        self._write(and_sync=False)

    def sync(self) -> None:
        """Write it and make it durable, in any thread. If another one is about to, it is left to
        that. Raise SyncFailed."""
        self._write(and_sync=True)

    def _write(self, *, and_sync: bool) -> None:
        from pyk.log.snapshot_content import encode_snapshot

        try:
            file = self._unused.pop()
        except IndexError:
            return
        try:
            if self.known is not None:
                with suppress(OSError):
                    file.append(encode_snapshot(self.known))
                    self.known = None
            if and_sync:
                file.sync()
                self.is_durable = True
        finally:
            if not self.is_durable:
                self._unused.append(file)


class Snapshots:
    def __init__(self, disk: Disk, directory: Path, names: Iterable[str]) -> None:
        """Those among the names in a directory."""
        self._disk = disk
        self._directory = directory
        stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
        self._offsets = sorted(int(stem) for stem in stems if stem.isdigit())
        self._pending: dict[int, Snapshot] = {}

    @property
    def offsets(self) -> list[int]:
        return list(self._offsets)

    @property
    def pending(self) -> list[Snapshot]:
        """Those that are not durable yet."""
        self._pending = {o: s for o, s in self._pending.items() if not s.is_durable}
        return list(self._pending.values())

    def take(self, offset: int, producers: Producers) -> Snapshot:
        """What is known at this offset. The file is to be synced, and its name. Raise OSError."""
        self._remove(offset)
        file = self._disk.open(self._path(offset))
        insort(self._offsets, offset)
        snapshot = self._pending[offset] = Snapshot(file, list(producers))
        if snapshot.is_quick:
            snapshot.write()
        return snapshot

    def load(self, producers: Producers, offset_max: int, start_offset: int) -> int:
        """Make `producers` know what the last snapshot says that is not after `offset_max`. Where
        to go on from: its offset, or with none that is any good, the start of the log."""
        for offset in reversed(self._offsets[: bisect_right(self._offsets, offset_max)]):
            if offset < start_offset:
                break
            try:
                self._load(producers, offset)
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

    def _load(self, producers: Producers, offset: int) -> None:
        pending = self._pending.get(offset)
        known = pending.known if pending is not None else None
        if known is not None:
            producers.restore(known)
        else:
            producers.load(self._disk.read(self._path(offset)))

    def _remove(self, offset: int) -> None:
        self._pending.pop(offset, None)
        if offset in self._offsets:
            self._disk.remove(self._path(offset))
            self._offsets.remove(offset)

    def _path(self, offset: int) -> Path:
        return self._directory / file_name(offset, SUFFIX)
