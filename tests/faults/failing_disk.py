"""A simulated disk that fails on demand: `plan` hears of each operation before it is done.

Other than of those that change something, which `SimulatedDisk` counts, it hears of reading too.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pyk.disk import SyncFailed
from pyk.types import Buffer
from tests.simulated_disk import ROOT, Held, SimulatedDisk, SimulatedFile


class Fault(Enum):
    EIO = errno.EIO
    ENOSPC = errno.ENOSPC
    EMFILE = errno.EMFILE
    ENOENT = errno.ENOENT
    SHORT = 0
    """Half of what is appended is written, and cannot be taken back."""
    SYNC = -1
    """For syncs alone."""

    def error(self, path: Path) -> OSError:
        number = self.value if self.value > 0 else errno.EIO
        return OSError(number, os.strerror(number), str(path))


class Operation(NamedTuple):
    kind: str
    path: Path


Plan: TypeAlias = Callable[[Operation], Fault | None]

SYNCS: Final = frozenset({"sync", "sync_directory"})
_OF_NEW_NAMES: Final = (Fault.ENOSPC, Fault.EMFILE, Fault.EIO)
POSSIBLE: Final[dict[str, tuple[Fault, ...]]] = {
    "open": (Fault.EMFILE, Fault.EIO, Fault.ENOSPC, Fault.ENOENT),
    "read": (Fault.EIO,),
    "read_file": (Fault.EIO, Fault.EMFILE),
    "append": (Fault.ENOSPC, Fault.EIO, Fault.SHORT),
    "truncate": (Fault.EIO,),
    "start_writeback": (Fault.EIO,),
    "sync": (Fault.SYNC,),
    "size": (Fault.EIO, Fault.ENOENT),
    "modified_ms": (Fault.EIO, Fault.ENOENT),
    "rename": (Fault.EIO, Fault.ENOSPC, Fault.ENOENT),
    "remove": (Fault.EIO, Fault.ENOENT),
    "make_directory": _OF_NEW_NAMES,
    "remove_directory": (Fault.EIO,),
    "hold": (Fault.EMFILE, Fault.EIO),
    "names": (Fault.EMFILE, Fault.EIO),
    "sync_directory": (Fault.SYNC, Fault.EMFILE),
}
"""What a system may say of each kind of operation."""


class FailingFile:
    __slots__ = ("_disk", "_file", "_path")

    def __init__(self, disk: FailingDisk, path: Path, file: SimulatedFile) -> None:
        self._disk = disk
        self._path = path
        self._file = file

    @property
    def size(self) -> int:
        return self._file.size

    def fileno(self) -> int:
        return self._file.fileno()

    def read(self, position: int, size: int) -> bytes:
        self._disk.reach("read", self._path)
        return self._file.read(position, size)

    def append(self, data: Buffer) -> None:
        if self._disk.reach("append", self._path) is Fault.SHORT:
            size = self._file.size
            self._file.append(bytes(data)[: len(data) // 2])
            self._file._size = size
            raise Fault.EIO.error(self._path)
        self._file.append(data)

    def truncate(self, size: int) -> None:
        self._disk.reach("truncate", self._path)
        self._file.truncate(size)

    def start_writeback(self, position: int, size: int) -> None:
        self._disk.reach("start_writeback", self._path)
        self._file.start_writeback(position, size)

    def sync(self) -> None:
        self._disk.reach("sync", self._path)
        self._file.sync()


class FailingDisk(SimulatedDisk):
    plan: Plan | None

    def __init__(self, root: Path = ROOT, *, capacity: int | None = None) -> None:
        super().__init__(root, capacity=capacity)
        self.plan = None
        self._names_of_held: dict[Path, Path] = {}

    def reach(self, kind: str, path: Path) -> Fault | None:
        """Raise what the plan wants, unless it is a short write. The plan hears names, the error
        has the path that was used."""
        named = self._names_of_held.get(path)
        if named is None and path.parent in self._names_of_held:
            named = self._names_of_held[path.parent] / path.name
        fault = None if self.plan is None else self.plan(Operation(kind, named or path))
        if fault is None or fault is Fault.SHORT:
            return fault
        if fault is Fault.SYNC:
            raise SyncFailed(f"{path} was not synced")
        raise fault.error(path)

    def replaced(self) -> FailingDisk:
        return FailingDisk(self.root, capacity=self.capacity)

    def open(self, path: Path, *, must_exist: bool = False) -> FailingFile:  # type: ignore[override]
        self.reach("open", path)
        return FailingFile(self, path, super().open(path, must_exist=must_exist))

    def read(self, path: Path) -> bytes:
        self.reach("read_file", path)
        return super().read(path)

    def replace(self, path: Path, data: bytes) -> None:
        """As `RealDisk` does it, each step of which may fail."""
        draft = path.with_name(path.name + ".tmp")
        try:
            if self.exists(draft):
                self.remove(draft)
            file = self.open(draft)
            file.append(data)
            file.sync()
            self.rename(draft, path)
        except OSError:
            if self.exists(draft):
                super().remove(draft)
            raise
        self.sync_directory(path.parent)

    def size(self, path: Path) -> int:
        self.reach("size", path)
        return super().size(path)

    def modified_ms(self, path: Path) -> int:
        self.reach("modified_ms", path)
        return super().modified_ms(path)

    def rename(self, path: Path, to: Path) -> None:
        self.reach("rename", path)
        super().rename(path, to)

    def remove(self, path: Path) -> None:
        self.reach("remove", path)
        super().remove(path)

    def make_directory(self, path: Path) -> None:
        self.reach("make_directory", path)
        super().make_directory(path)

    def remove_directory(self, path: Path) -> None:
        self.reach("remove_directory", path)
        super().remove_directory(path)

    def names(self, path: Path) -> list[str]:
        self.reach("names", path)
        return super().names(path)

    def hold(self, path: Path) -> Held:
        self.reach("hold", path)
        held = super().hold(path)
        self._names_of_held[held.path] = path
        return held

    def sync_directory(self, path: Path) -> None:
        self.reach("sync_directory", path)
        super().sync_directory(path)
