"""The file operations that logs are made of, and nothing else of the operating system's.

Everything on disk goes through a `Disk`, so that a simulated one can lose what was not synced and
tear what was. The rules that users of it keep:

- What must survive power loss is synced: a file's bytes by `File.sync`, its name, or that of a
  directory, by `sync_directory` of where it is, after it was created, renamed or removed.
- Between a truncation and the next append there is a sync. Otherwise old bytes may come back
  behind the new ones, and they would be whole batches.
- A failed sync is the end: the kernel may have dropped the pages that it reported, and a second
  one would succeed without them.
- A file that is appended to is opened once.
- A small file that is replaced as a whole goes through `replace`, which leaves the old or the new.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final, Protocol

from pyk.types import Buffer

_SYNC_FILE_RANGE_WRITE: Final = 2


class SyncFailed(BaseException):
    """What was promised to be durable may not be. Not an `Exception`, so that nothing that answers
    for errors goes on after it: only a new start, which reads what is on the disk, can help."""


class DirectoryInUse(Exception):
    """Another process works there."""


class Lock(Protocol):
    """Held until nobody refers to it any more."""


class HeldDirectory(Protocol):
    """Held until nobody refers to it any more."""

    @property
    def path(self) -> Path: ...


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

    def start_writeback(self, position: int, size: int) -> None:
        """Have the system begin to bring these bytes to the disk, which makes nothing durable. It
        may wait if the disk is busy."""

    def sync(self) -> None:
        """Make the bytes durable. Raise SyncFailed."""


class Disk(Protocol):
    def open(self, path: Path, *, must_exist: bool = False) -> File:
        """The file for reading and appending, created if it is not there. Or else, for those who
        only read what others may remove: FileNotFoundError."""

    def read(self, path: Path) -> bytes:
        """All of a file. FileNotFoundError if there is none."""

    def replace(self, path: Path, data: bytes) -> None:
        """Make `data` the content of the file, at once and durably."""

    def size(self, path: Path) -> int: ...
    def modified_ms(self, path: Path) -> int:
        """When its bytes last changed, in milliseconds since 1970."""

    def exists(self, path: Path) -> bool: ...
    def rename(self, path: Path, to: Path) -> None: ...
    def remove(self, path: Path) -> None: ...
    def make_directory(self, path: Path) -> None:
        """Make it, and those it is in, if they are not there."""

    def remove_directory(self, path: Path) -> None: ...
    def is_directory(self, path: Path) -> bool:
        """Whether it is a directory itself: a symbolic link to one is not."""

    def is_link(self, path: Path) -> bool:
        """Whether it is a symbolic link."""

    def names(self, path: Path) -> list[str]:
        """What is in a directory, sorted."""

    def hold(self, path: Path) -> HeldDirectory:
        """A path to the directory that goes on to lead there when it is renamed, and never to
        what is made under its name later."""

    def lock(self, path: Path) -> Lock:
        """Hold a file, made if need be, as the only one. Raise DirectoryInUse."""

    def sync_directory(self, path: Path) -> None:
        """Make the names in it durable. Raise SyncFailed."""


class ReadOnlyFile:
    """A file of somebody else, who may append to it, rename it or remove it meanwhile."""

    __slots__ = ("_descriptor", "_size")

    def __init__(self, path: Path, flags: int = os.O_RDONLY) -> None:
        self._descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)

    @property
    def size(self) -> int:
        """As it was when it was opened, and what was done here since."""
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


class RealFile(ReadOnlyFile):
    __slots__ = ()

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        super().__init__(path, os.O_RDWR | (0 if must_exist else os.O_CREAT))

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

    def start_writeback(self, position: int, size: int) -> None:
        sync_file_range = _load_sync_file_range()
        if sync_file_range is not None:
            sync_file_range(self._descriptor, position, size, _SYNC_FILE_RANGE_WRITE)

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise SyncFailed(f"{_name_of(self._descriptor)} was not synced: {error}") from error


@cache
def _load_sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """The system call, which Python does not have and not every system does."""
    import ctypes

    try:
        found = ctypes.CDLL(None).sync_file_range
    except AttributeError:
        return None
    found.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return found


class RealDisk:
    def open(self, path: Path, *, must_exist: bool = False) -> RealFile:
        return RealFile(path, must_exist=must_exist)

    def read(self, path: Path) -> bytes:
        # Half the time of Path.read_bytes, and a start reads tens of thousands of small files.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(descriptor).st_size
            data = os.read(descriptor, size)
            while len(data) < size and (more := os.read(descriptor, size - len(data))):
                data += more
            return data
        finally:
            os.close(descriptor)

    def replace(self, path: Path, data: bytes) -> None:
        draft = path.with_name(path.name + ".tmp")
        draft.unlink(missing_ok=True)
        try:
            file = self.open(draft)
            file.append(data)
            file.sync()
            os.replace(draft, path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        self.sync_directory(path.parent)

    def size(self, path: Path) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: Path) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

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

    def is_directory(self, path: Path) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(path).st_mode)
        except FileNotFoundError:
            return False

    def is_link(self, path: Path) -> bool:
        return os.path.islink(path)

    def names(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))

    def hold(self, path: Path) -> HeldDirectory:
        return _OpenDirectory(path)

    def lock(self, path: Path) -> Lock:
        file = RealFile(path)
        try:
            # The one keeps out another of us in this process, too, the other one Kafka.
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise DirectoryInUse(f"{path.parent} is in use by another broker") from None
        return file

    def sync_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise SyncFailed(f"{_name_of(descriptor)} was not synced: {error}") from error
        finally:
            os.close(descriptor)


def _name_of(descriptor: int) -> str:
    """What an open file is called now, for people."""
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return "a file"


class _OpenDirectory:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        by_descriptor = Path(f"/proc/self/fd/{self._descriptor}")
        # Linux has that, and is what brokers run on. Elsewhere the name has to do.
        self.path = by_descriptor if by_descriptor.exists() else path

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)
