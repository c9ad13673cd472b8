"""The disk of a test broker: real files that are never synced, and that can be full.

What outlives a killed process is in the page cache. To outlive a power loss is not worth what it
costs a test, which is most of the time that a broker needs to start.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from weakref import WeakSet

from pyk.disk import File, Lock, RealDisk, SyncFailed
from pyk.testing.fault import Fault, Provoked
from pyk.types import Buffer


class DiskIsFull(OSError, Provoked):
    """ENOSPC, because a test wanted it."""


class SyncWasFailed(SyncFailed, Provoked):
    """A sync failed, because a test wanted it."""


class DiskFault(Fault):
    """For all files, or those of one topic."""

    topic: str | None = None

    def covers(self, path: Path) -> bool:
        if self.topic is None:
            return True
        return any(part.rpartition("-")[0] == self.topic for part in path.parts[-2:])


class ScratchFile:
    __slots__ = ("__weakref__", "_disk", "_file", "_path")

    def __init__(self, disk: ScratchDisk, path: Path, file: File) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = file

    @property
    def _open(self) -> File:
        assert self._file is not None, f"{self._path} is closed"
        return self._file

    @property
    def size(self) -> int:
        return self._open.size

    def fileno(self) -> int:
        return self._open.fileno()

    def read(self, position: int, size: int) -> bytes:
        return self._open.read(position, size)

    def append(self, data: Buffer) -> None:
        self._disk.check_space(self._path)
        self._open.append(data)

    def truncate(self, size: int) -> None:
        self._open.truncate(size)

    def start_writeback(self, position: int, size: int) -> None:
        """Nothing is hurried to the disk."""

    def sync(self) -> None:
        self._disk.check_sync(self._path)

    def close(self) -> None:
        self._file = None


class ScratchLock:
    """Held until it is released: a broker that was killed may still be referred to."""

    def __init__(self, lock: Lock) -> None:
        self._lock: Lock | None = lock

    def release(self) -> None:
        self._lock = None


class ScratchDisk(RealDisk):
    def __init__(self) -> None:
        self.full: tuple[DiskFault, ...] = ()
        self.failing: tuple[DiskFault, ...] = ()
        self._opened: WeakSet[ScratchFile] = WeakSet()
        self._locks: WeakSet[ScratchLock] = WeakSet()

    def check_space(self, path: Path) -> None:
        for fault in self.full:
            if fault.covers(path):
                fault.hit()
                raise DiskIsFull(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def check_sync(self, path: Path) -> None:
        for fault in self.failing:
            if fault.covers(path):
                fault.hit()
                raise SyncWasFailed(f"{path} was not synced: {os.strerror(errno.EIO)}")

    def close_all(self) -> None:
        """The broker is gone, and with it what it had open, whoever still refers to that."""
        for file in list(self._opened):
            file.close()
        for lock in list(self._locks):
            lock.release()

    def open(self, path: Path, *, must_exist: bool = False) -> ScratchFile:  # type: ignore[override]
        if self.full and not must_exist and not self.exists(path):
            self.check_space(path)
        file = ScratchFile(self, path, super().open(path, must_exist=must_exist))
        self._opened.add(file)
        return file

    def replace(self, path: Path, data: bytes) -> None:
        self.check_space(path)
        self.check_sync(path)
        draft = path.with_name(path.name + ".tmp")
        draft.write_bytes(data)
        os.replace(draft, path)

    def make_directory(self, path: Path) -> None:
        if self.full and not self.exists(path):
            self.check_space(path)
        super().make_directory(path)

    def lock(self, path: Path) -> ScratchLock:
        lock = ScratchLock(super().lock(path))
        self._locks.add(lock)
        return lock

    def sync_directory(self, path: Path) -> None:
        self.check_sync(path)
