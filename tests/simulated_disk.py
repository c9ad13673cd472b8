"""A disk in memory that loses, on a crash, what a real one may lose.

    live --append, truncate, rename--> pending --sync, sync_directory--> durable

- What changes something is an operation and has a number, from 1. Reading has none.
- `crash_after=N` stops the machine in the N-th. From then on every call raises `Crashed`.
- `kill9`, `power`, `synced` and `replaced` give the disk that is found at the restart. They share
  the bytes with this one until either writes, and can be asked of a disk that still runs.
- A name is durable when the directory that holds it was synced, whatever else was.
- A file whose sync failed once never becomes durable again: the kernel has dropped its pages.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias

from pyk.disk import Lock, SyncFailed
from pyk.types import Buffer

if TYPE_CHECKING:
    from random import Random

ROOT = Path("/data")


class Crashed(BaseException):
    """The machine is off. Not an `Exception`, so that nothing under test goes on after it."""


class Write(NamedTuple):
    position: int
    data: bytes


class Truncate(NamedTuple):
    size: int


Change: TypeAlias = Write | Truncate


class Image:
    """The bytes of a file, shared between disks until one of them writes."""

    __slots__ = ("data", "shared")

    def __init__(self, data: bytearray, *, shared: bool) -> None:
        self.data = data
        self.shared = shared

    def fork(self) -> Image:
        self.shared = True
        return Image(self.data, shared=True)

    def apply(self, change: Change) -> None:
        if self.shared:
            self.data, self.shared = bytearray(self.data), False
        match change:
            case Write(position, data):
                if data:
                    self._reach(position)
                    self.data[position : position + len(data)] = data
            case Truncate(size):
                self._reach(size)
                del self.data[size:]

    def _reach(self, size: int) -> None:
        if size > len(self.data):
            self.data.extend(bytes(size - len(self.data)))


class Content:
    """A file, whatever its names are."""

    __slots__ = ("durable", "live", "pages_dropped", "pending")

    def __init__(self, live: Image, durable: Image) -> None:
        self.live = live
        self.durable = durable
        self.pending: list[Change] = []
        self.pages_dropped = False

    @classmethod
    def empty(cls) -> Content:
        return cls(Image(bytearray(), shared=False), Image(bytearray(), shared=False))

    def fork(self) -> Content:
        twin = Content(self.live.fork(), self.durable.fork())
        twin.pending = self.pending.copy()
        twin.pages_dropped = self.pages_dropped
        return twin

    def apply(self, change: Change) -> None:
        self.live.apply(change)
        self.pending.append(change)

    def start_writeback(self, position: int, size: int) -> None:
        """Nothing: any of what was not synced may survive a power loss anyway."""

    def sync(self) -> None:
        if not self.pages_dropped:
            for change in self.pending:
                self.durable.apply(change)
            self.pending = []

    def recovered(self, survivors: list[Change]) -> Content:
        """What a machine that starts again reads, all of it from the disk."""
        image = self.durable.fork()
        for change in survivors:
            image.apply(change)
        return Content(image.fork(), image)

    def damage(self, start: int, data: bytes) -> None:
        """Put `data` over whatever is there, in the cache and on the disk alike."""
        damage = Write(start, data)
        self.live.apply(damage)
        self.durable.apply(_within(damage, 0, len(self.durable.data)))
        self.pending = [_damaged(change, damage) for change in self.pending]


def _within(write: Write, start: int, end: int) -> Write:
    """The part of a write that falls between two positions, perhaps nothing."""
    first, last = max(write.position, start), min(write.position + len(write.data), end)
    return Write(first, write.data[first - write.position : max(first, last) - write.position])


def _damaged(change: Change, damage: Write) -> Change:
    if isinstance(change, Truncate):
        return change
    part = _within(damage, change.position, change.position + len(change.data))
    if not part.data:
        return change
    data = bytearray(change.data)
    at = part.position - change.position
    data[at : at + len(part.data)] = part.data
    return Write(change.position, bytes(data))


def _survivors(pending: list[Change], rng: Random) -> list[Change]:
    """None, a prefix or any of the changes, the last of them perhaps torn."""
    match rng.randrange(3) if pending else 0:
        case 0:
            return []
        case 1:
            kept = pending[: rng.randint(1, len(pending))]
        case _:
            kept = [left for change in pending if (left := _reordered(change, rng)) is not None]
    if kept and isinstance(last := kept[-1], Write) and rng.random() < 0.5:
        kept[-1] = _torn(last, rng)
    return kept


def _reordered(change: Change, rng: Random) -> Change | None:
    """The change, nothing of it, or for a write the new size of the file without its bytes."""
    match rng.randrange(3):
        case 0:
            return None
        case 1 if isinstance(change, Write):
            return Write(change.position, bytes(len(change.data)))
        case _:
            return change


def _torn(write: Write, rng: Random) -> Write:
    """A write that ends early, or has its size but zeros at its end or in its sectors or pages."""
    position, data = write
    unit = rng.choice((1, 512, 4096))
    if unit > 1 and rng.random() < 0.5:
        return Write(position, b"".join(_with_holes(write, unit, rng)))
    end = rng.randint(position, position + len(data))
    kept = data[: max(0, end - end % unit - position)]
    return Write(position, kept + bytes(len(data) - len(kept)) if rng.random() < 0.5 else kept)


def _with_holes(write: Write, unit: int, rng: Random) -> Iterator[bytes]:
    start, end = write.position, write.position + len(write.data)
    for block in range(start - start % unit, end, unit):
        data = _within(write, block, block + unit).data
        yield data if rng.random() < 0.5 else bytes(len(data))


class Directory:
    __slots__ = ("durable", "live")

    def __init__(self) -> None:
        self.live: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node: TypeAlias = Content | Directory


class Entry(NamedTuple):
    """What a name in a directory becomes: a file, a directory, or nothing."""

    directory: Directory
    name: str
    node: Node | None


NameChange: TypeAlias = tuple[Entry, ...]
"""One operation on names: the two entries of a rename survive together or not at all."""


def _put(names: dict[str, Node], entry: Entry) -> None:
    if entry.node is None:
        names.pop(entry.name, None)
    else:
        names[entry.name] = entry.node


def _surviving_names(pending: list[NameChange], rng: Random) -> list[NameChange]:
    """Each directory loses a suffix of its changes; one of two directories is lost with either."""
    counts: dict[Directory, int] = {}
    for change in pending:
        for directory in {entry.directory: None for entry in change}:
            counts[directory] = counts.get(directory, 0) + 1
    left = {directory: rng.randint(0, count) for directory, count in counts.items()}
    kept = []
    for change in pending:
        touched = {entry.directory for entry in change}
        if all(left[directory] > 0 for directory in touched):
            kept.append(change)
            for directory in touched:
                left[directory] -= 1
        else:
            left.update(dict.fromkeys(touched, 0))
    return kept


class SimulatedFile:
    """Like `RealFile` it remembers its size: what another one of the same file appends is read,
    but not counted."""

    __slots__ = ("_content", "_disk", "_size")

    def __init__(self, disk: SimulatedDisk, content: Content) -> None:
        self._disk = disk
        self._content = content
        self._size = len(content.live.data)

    @property
    def size(self) -> int:
        return self._size

    def fileno(self) -> int:
        raise io.UnsupportedOperation("a simulated file has no descriptor")

    def read(self, position: int, size: int) -> bytes:
        self._disk._check()
        return bytes(memoryview(self._content.live.data)[position : position + size])

    def append(self, data: Buffer) -> None:
        try:
            self._disk._write(self._content, self._size, bytes(data))
        except OSError:
            self._disk._truncate(self._content, self._size)
            raise
        self._size += len(data)

    def truncate(self, size: int) -> None:
        self._disk._truncate(self._content, size)
        self._size = size

    def start_writeback(self, position: int, size: int) -> None:
        """Nothing: any of what was not synced may survive a power loss anyway."""

    def sync(self) -> None:
        self._disk._sync(self._content)


class Held(NamedTuple):
    """A directory, by a name that it keeps."""

    path: Path


class SimulatedDisk:
    """A `Disk` that holds what is in the directory `root`, which is there from the beginning.

    The attributes are the faults, and may be set at any time.
    """

    capacity: int | None
    """Bytes that the files may have together, by their sizes. A removed file counts no more."""

    fail_syncs: bool
    """Syncs of files and directories raise SyncFailed."""

    crash_after: int | None
    """The number of the operation that is not completed."""

    crash_progress: float
    """If that one appends, the share of its bytes that it still writes."""

    watch: Callable[[], None] | None
    """Called before each operation: every crash point of a workload in one run of it."""

    def __init__(
        self,
        root: Path = ROOT,
        *,
        capacity: int | None = None,
        crash_after: int | None = None,
        crash_progress: float = 0.0,
    ) -> None:
        self.root = root
        self.capacity = capacity
        self.fail_syncs = False
        self.crash_after = crash_after
        self.crash_progress = crash_progress
        self.watch = None
        self.operations = 0
        self.crashed = False
        self._prefix = f"{root}/"
        self._tree = Directory()
        self._pending: list[NameChange] = []
        self._held: dict[Path, Directory] = {}

    def open(self, path: Path, *, must_exist: bool = False) -> SimulatedFile:
        directory, name = self._place(path)
        node = directory.live.get(name)
        if node is None:
            if must_exist:
                raise _error(errno.ENOENT, path)
            node = self._create(directory, name)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        return SimulatedFile(self, node)

    def read(self, path: Path) -> bytes:
        return bytes(self._file(path).live.data)

    def replace(self, path: Path, data: bytes) -> None:
        draft = path.with_name(path.name + ".tmp")
        try:
            content = self.open(draft)._content
            if content.live.data:
                self._truncate(content, 0)
            self._write(content, 0, data)
            self._sync(content)
            self.rename(draft, path)
        except OSError:
            if self.exists(draft):
                self.remove(draft)
            raise
        self.sync_directory(path.parent)

    def size(self, path: Path) -> int:
        return len(self._file(path).live.data)

    def modified_ms(self, path: Path) -> int:
        """The beginning of time: this disk has no clock."""
        self._file(path)
        return 0

    def exists(self, path: Path) -> bool:
        try:
            self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def rename(self, path: Path, to: Path) -> None:
        node = self._node(path)
        source, name = self._place(path)
        target, new_name = self._place(to)
        there = target.live.get(new_name)
        if there is node:
            return
        if there is not None:
            _check_may_take_the_place(node, there, to)
        self._count()
        self._change_names(Entry(source, name, None), Entry(target, new_name, node))

    def remove(self, path: Path) -> None:
        self._file(path)
        self._count()
        self._change_names(Entry(*self._place(path), None))

    def make_directory(self, path: Path) -> None:
        self._check()
        if path == self.root:
            return
        if not self.exists(path.parent):
            self.make_directory(path.parent)
        directory, name = self._place(path)
        node = directory.live.get(name)
        if isinstance(node, Content):
            raise _error(errno.EEXIST, path)
        if node is None:
            self._count()
            self._change_names(Entry(directory, name, Directory()))

    def remove_directory(self, path: Path) -> None:
        if self._directory(path).live:
            raise _error(errno.ENOTEMPTY, path)
        self._count()
        self._change_names(Entry(*self._place(path), None))

    def names(self, path: Path) -> list[str]:
        return sorted(self._directory(path).live)

    def is_directory(self, path: Path) -> bool:
        return self.exists(path) and isinstance(self._node(path), Directory)

    def is_link(self, path: Path) -> bool:
        """There are none."""
        return False

    def hold(self, path: Path) -> Held:
        held = Held(Path(f"/held/{len(self._held)}"))
        self._held[held.path] = self._directory(path)
        return held

    def lock(self, path: Path) -> Lock:
        """Anybody's: there is one process on this machine."""
        return self.open(path)

    def sync_directory(self, path: Path) -> None:
        directory = self._directory(path)
        self._count()
        if self.fail_syncs:
            raise SyncFailed(f"{path.name} was not synced")
        # A rename binds two directories: what the other had pending before it becomes durable too.
        synced, due, pending = {directory}, [], []
        for change in reversed(self._pending):
            touched = {entry.directory for entry in change}
            if touched & synced:
                synced |= touched
                due.append(change)
            else:
                pending.append(change)
        for change in reversed(due):
            for entry in change:
                _put(entry.directory.durable, entry)
        self._pending = pending[::-1]

    def kill9(self) -> SimulatedDisk:
        """The process died and the machine did not: all is there, and what was not synced still
        is not."""
        twins: dict[Node, Node] = {}

        def directory_twin(directory: Directory) -> Directory:
            found = twins.get(directory)
            if isinstance(found, Directory):
                return found
            made = twins[directory] = Directory()
            made.live = {name: twin(node) for name, node in directory.live.items()}
            made.durable = {name: twin(node) for name, node in directory.durable.items()}
            return made

        def twin(node: Node) -> Node:
            if isinstance(node, Directory):
                return directory_twin(node)
            if node not in twins:
                twins[node] = node.fork()
            return twins[node]

        disk = self.replaced()
        disk._tree = directory_twin(self._tree)
        disk._pending = [
            tuple(
                Entry(directory_twin(place), name, None if node is None else twin(node))
                for place, name, node in change
            )
            for change in self._pending
        ]
        return disk

    def power(self, rng: Random) -> SimulatedDisk:
        """The power was cut. Of what was not synced, each file keeps none, a prefix or any of its
        changes, perhaps torn or as zeros, and each directory a prefix of its names' changes."""
        names = _surviving_names(self._pending, rng)
        return self._recovered(names, lambda file: file.recovered(_survivors(file.pending, rng)))

    def synced(self) -> SimulatedDisk:
        """The power was cut, and nothing that was not synced is there."""
        return self._recovered([], lambda file: file.recovered([]))

    def replaced(self) -> SimulatedDisk:
        """A new disk of the same size in the place of this one."""
        return SimulatedDisk(self.root, capacity=self.capacity)

    def contents(self) -> dict[Path, bytes]:
        """Every file and what it holds, even if the machine is off."""
        return {path: bytes(file.live.data) for path, file in _files(self.root, self._tree)}

    def directories(self) -> list[Path]:
        """Every directory below the root, sorted, even if the machine is off."""
        return sorted(_directories(self.root, self._tree))

    @property
    def used(self) -> int:
        return sum(len(file.live.data) for _, file in _files(self.root, self._tree))

    def flip_bit(self, path: Path, position: int, bit: int) -> None:
        """Rot: one bit, 0 being the lowest, of one byte, wherever that byte is kept."""
        file = self._file(path)
        file.damage(position, bytes([file.live.data[position] ^ 1 << bit]))

    def zero(self, path: Path, start: int, end: int) -> None:
        """Zeros from `start` to `end`, or to the end of the file if that comes first."""
        file = self._file(path)
        file.damage(start, bytes(max(0, min(end, len(file.live.data)) - start)))

    def _check(self) -> None:
        if self.crashed:
            raise Crashed

    def _stop(self) -> NoReturn:
        self.crashed = True
        raise Crashed

    def _crash_is_due(self) -> bool:
        """Give the operation that begins its number."""
        self._check()
        if self.watch is not None:
            self.watch()
        self.operations += 1
        return self.operations == self.crash_after

    def _count(self) -> None:
        if self._crash_is_due():
            self._stop()

    def _write(self, content: Content, position: int, data: bytes) -> None:
        if self._crash_is_due():
            content.apply(Write(position, data[: int(len(data) * self.crash_progress)]))
            self._stop()
        room = len(data)
        if self.capacity is not None:
            overwritten = len(content.live.data) - position
            room = max(0, overwritten + self.capacity - self.used)
        content.apply(Write(position, data[:room]))
        if room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _truncate(self, content: Content, size: int) -> None:
        self._count()
        content.apply(Truncate(size))

    def _sync(self, content: Content) -> None:
        self._count()
        if self.fail_syncs:
            content.pages_dropped = True
            raise SyncFailed("a file was not synced")
        content.sync()

    def _create(self, directory: Directory, name: str) -> Content:
        self._count()
        content = Content.empty()
        self._change_names(Entry(directory, name, content))
        return content

    def _change_names(self, *change: Entry) -> None:
        for entry in change:
            _put(entry.directory.live, entry)
        self._pending.append(change)

    def _names_to(self, path: Path) -> list[str]:
        text = str(path)
        if text.startswith(self._prefix):
            return text[len(self._prefix) :].split("/")
        if path == self.root:
            return []
        raise _error(errno.ENOENT, path)

    def _node(self, path: Path) -> Node:
        self._check()
        node: Node | None = self._tree
        if path in self._held:
            return self._held[path]
        if path.parent in self._held:
            node, names = self._held[path.parent], [path.name]
        else:
            names = self._names_to(path)
        for name in names:
            if isinstance(node, Content):
                raise _error(errno.ENOTDIR, path)
            node = None if node is None else node.live.get(name)
        if node is None:
            raise _error(errno.ENOENT, path)
        return node

    def _file(self, path: Path) -> Content:
        node = self._node(path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        return node

    def _directory(self, path: Path) -> Directory:
        node = self._node(path)
        if isinstance(node, Content):
            raise _error(errno.ENOTDIR, path)
        return node

    def _place(self, path: Path) -> tuple[Directory, str]:
        return self._directory(path.parent), path.name

    def _recovered(
        self, names: list[NameChange], recover: Callable[[Content], Content]
    ) -> SimulatedDisk:
        found: dict[Directory, dict[str, Node]] = {}
        for change in names:
            for entry in change:
                place = entry.directory
                _put(found.setdefault(place, place.durable.copy()), entry)

        def recovered(node: Node) -> Node:
            return recover(node) if isinstance(node, Content) else recovered_directory(node)

        def recovered_directory(directory: Directory) -> Directory:
            made = Directory()
            entries = found.get(directory, directory.durable)
            made.durable = {name: recovered(node) for name, node in entries.items()}
            made.live = made.durable.copy()
            return made

        disk = self.replaced()
        disk._tree = recovered_directory(self._tree)
        return disk


def _files(path: Path, directory: Directory) -> Iterator[tuple[Path, Content]]:
    for name, node in directory.live.items():
        if isinstance(node, Directory):
            yield from _files(path / name, node)
        else:
            yield path / name, node


def _directories(path: Path, directory: Directory) -> Iterator[Path]:
    for name, node in directory.live.items():
        if isinstance(node, Directory):
            yield path / name
            yield from _directories(path / name, node)


def _check_may_take_the_place(node: Node, there: Node, to: Path) -> None:
    if isinstance(there, Directory):
        if isinstance(node, Content):
            raise _error(errno.EISDIR, to)
        if there.live:
            raise _error(errno.ENOTEMPTY, to)
    elif isinstance(node, Directory):
        raise _error(errno.ENOTDIR, to)


def _error(number: int, path: Path) -> OSError:
    """OSError makes itself a FileNotFoundError and so on by the number."""
    return OSError(number, os.strerror(number), str(path))
