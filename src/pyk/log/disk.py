"""The file operations that logs are made of, and nothing else of the operating system's.

Everything on disk goes through a `Disk`, so that a simulated one can lose what was not synced and
tear what was. The rules that users of it keep:

- What must survive power loss is synced: a file's bytes by `File.sync`, its name, or that of a
  directory, by `sync_directory` of where it is, after it was created, renamed or removed.
- Between a truncation and the next append there is a sync. Otherwise old bytes may come back
  behind the new ones, and they would be whole batches.
- A failed sync is never tried again: the kernel may have dropped the pages that it reported.
- A file that is appended to is opened once.
- A small file that is replaced as a whole goes through `replace`, which leaves the old or the new.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from pyk.types import Buffer


class File(Protocol):
    """An open file. It closes itself when nobody refers to it any more, so that whoever still
    sends a slice of it is not disturbed when its segment is deleted."""

    @property
    def size(self) -> int: ...
    def fileno(self) -> int: ...
    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end of the file."""

    def append(self, data: Buffer) -> None:
        """All of `data` at the end. If that fails the file ends where it did before, or the
        error says that it could not be put back."""

    def truncate(self, size: int) -> None:
        """End the file there. Beyond its end it is filled with zeros."""

    def sync(self) -> None: ...


class Disk(Protocol):
    def open(self, path: Path) -> File:
        """The file for reading and appending, created if it is not there."""

    def read(self, path: Path) -> bytes:
        """All of a file. FileNotFoundError if there is none."""

    def replace(self, path: Path, data: bytes) -> None:
        """Make `data` the content of the file, at once and durably."""

    def size(self, path: Path) -> int: ...
    def exists(self, path: Path) -> bool: ...
    def rename(self, path: Path, to: Path) -> None: ...
    def remove(self, path: Path) -> None: ...
    def make_directory(self, path: Path) -> None:
        """Make it, and those it is in, if they are not there."""

    def remove_directory(self, path: Path) -> None: ...
    def names(self, path: Path) -> list[str]:
        """What is in a directory, sorted."""

    def sync_directory(self, path: Path) -> None: ...


class RealFile:
    __slots__ = ("_descriptor", "_size")

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)

    @property
    def size(self) -> int:
        return self._size

    def fileno(self) -> int:
        return self._descriptor

    def read(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        # A read may stop short of the end: of a large file, or interrupted by a signal.
        pieces = [data]
        while data and (left := size - sum(map(len, pieces))):
            data = os.pread(self._descriptor, left, position + size - left)
            pieces.append(data)
        return b"".join(pieces)

    def append(self, data: Buffer) -> None:
        written = 0
        try:
            written = os.pwrite(self._descriptor, data, self._size)
            while written < len(data):
                rest = memoryview(data)[written:]
                written += os.pwrite(self._descriptor, rest, self._size + written)
        except OSError:
            # Nothing half-written stays behind: the next append goes where this one should have.
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._size = size

    def sync(self) -> None:
        os.fdatasync(self._descriptor)


class RealDisk:
    def open(self, path: Path) -> RealFile:
        return RealFile(path)

    def read(self, path: Path) -> bytes:
        return path.read_bytes()

    def replace(self, path: Path, data: bytes) -> None:
        draft = path.with_name(path.name + ".tmp")
        try:
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        self.sync_directory(path.parent)

    def size(self, path: Path) -> int:
        return os.stat(path).st_size

    def exists(self, path: Path) -> bool:
        return os.path.exists(path)

    def rename(self, path: Path, to: Path) -> None:
        os.replace(path, to)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def remove_directory(self, path: Path) -> None:
        os.rmdir(path)

    def names(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
