"""The directory of a log, which may be renamed while somebody works in it.

A partition that is deleted has its directory renamed, and its name may be used again at once. What
still works for the old log (a compaction, a flush, an index to be written) must go on in the old
directory, and can never reach the new one.
"""

from __future__ import annotations

from pathlib import Path

from pyk.disk import Disk, File, HeldDirectory, Lock


class MovableDirectory:
    """A disk for the files of one directory, by the paths that they had when it was made. For the
    thread that renames the directory, and tells by `moved_to`; others take `for_threads`."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._known_as = self._path = path
        self._held: HeldDirectory | None = None

    def moved_to(self, path: Path) -> None:
        self._path = path

    def for_threads(self) -> MovableDirectory:
        """The same, by a descriptor: the directory may be renamed between any two steps."""
        made = MovableDirectory(self._disk, self._known_as)
        made._held = self._disk.hold(self._path)
        made._path = made._held.path
        return made

    def open(self, path: Path, *, must_exist: bool = False) -> File:
        return self._disk.open(self._at(path), must_exist=must_exist)

    def read(self, path: Path) -> bytes:
        return self._disk.read(self._at(path))

    def replace(self, path: Path, data: bytes) -> None:
        self._disk.replace(self._at(path), data)

    def size(self, path: Path) -> int:
        return self._disk.size(self._at(path))

    def modified_ms(self, path: Path) -> int:
        return self._disk.modified_ms(self._at(path))

    def exists(self, path: Path) -> bool:
        return self._disk.exists(self._at(path))

    def rename(self, path: Path, to: Path) -> None:
        self._disk.rename(self._at(path), self._at(to))

    def remove(self, path: Path) -> None:
        self._disk.remove(self._at(path))

    def make_directory(self, path: Path) -> None:
        self._disk.make_directory(self._at(path))

    def remove_directory(self, path: Path) -> None:
        self._disk.remove_directory(self._at(path))

    def is_directory(self, path: Path) -> bool:
        return self._disk.is_directory(self._at(path))

    def is_link(self, path: Path) -> bool:
        return self._disk.is_link(self._at(path))

    def names(self, path: Path) -> list[str]:
        return self._disk.names(self._at(path))

    def hold(self, path: Path) -> HeldDirectory:
        return self._disk.hold(self._at(path))

    def lock(self, path: Path) -> Lock:
        return self._disk.lock(self._at(path))

    def sync_directory(self, path: Path) -> None:
        self._disk.sync_directory(self._at(path))

    def _at(self, path: Path) -> Path:
        if self._path is self._known_as:
            return path
        if path == self._known_as:
            return self._path
        return self._path / path.name if path.parent == self._known_as else path
