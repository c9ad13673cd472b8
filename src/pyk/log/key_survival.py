"""Which records of a log are the latest of their keys, found in one pass and bounded memory.

    add -> a dict of keys, while it is small -> runs of sorted digests in a file -> settle

- Records have numbers, in the order in which they are added.
- Keys that fit into memory are compared themselves. Otherwise digests of 128 bits stand for them:
  they must not collide, since of two keys with the same one, one would be lost.
- A run is sorted by digest. So a range of digests is read from all of the runs, in their order,
  into one dict, where the latest record stays. As many ranges are made as memory asks for.
- In the end there is one bit for each record.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, pairwise
from pathlib import Path
from typing import Final, NamedTuple

from pyk.disk import Disk, File
from pyk.log.segments import KEYS

_ENTRY = struct.Struct(">16sq")
_DIGEST_BYTES: Final = 16
_ENTRY_MEMORY_BYTES: Final = 256
"""What an entry takes in a dict and while it is sorted, its key apart."""

_SORTED_PARTS: Final = 256
"""By the first byte. Sorting all at once would hold the interpreter for some 70 ms, and so would
making a dict in one call: this runs in a thread beside the event loop."""

_SLOT_BITS: Final = 10
_SLOTS: Final = 2**_SLOT_BITS
_SLOT_STARTS = [struct.pack(">H", slot << 16 - _SLOT_BITS) for slot in range(_SLOTS)]
"""The least digest of each slot: the finest ranges that can be read."""


class Bits:
    """A set of numbers from 0 on, at one bit for each."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def reserve(self, count: int) -> None:
        """Room for the numbers before `count`."""
        self._bytes.extend(bytes(max(0, (count + 7) // 8 - len(self._bytes))))

    def update(self, numbers: Iterable[int]) -> None:
        """Add numbers, for which there is room."""
        found = self._bytes
        for number in numbers:
            found[number >> 3] |= 1 << (number & 7)

    def add(self, number: int) -> None:
        self.reserve(number + 1)
        self._bytes[number >> 3] |= 1 << (number & 7)

    def __contains__(self, number: int) -> bool:
        at = number >> 3
        return at < len(self._bytes) and self._bytes[at] >> (number & 7) & 1 == 1

    def window(self, first: int, count: int) -> int:
        """Those from `first` on, each as a bit, the lowest for `first`."""
        found = self._bytes[first >> 3 : (first + count + 7) >> 3]
        return int.from_bytes(found, "little") >> (first & 7) & (1 << count) - 1


class _Run(NamedTuple):
    position: int
    starts: array[int]
    """Which of its entries is the first of each slot, and how many there are."""


class KeySurvival:
    def __init__(self, disk: Disk, directory: Path, memory_bytes: int) -> None:
        self._disk = disk
        self._path = directory / KEYS
        self._memory_bytes = memory_bytes
        self._count = 0
        self._latest: dict[bytes | None, int] = {}
        self._key_bytes = 0
        """Of the keys in the dict, or more."""
        self._file: File | None = None
        self._runs: list[_Run] = []
        self._latest_numbers = Bits()

    def add(self, keys: Sequence[bytes | None]) -> None:
        """The next records have these keys. One without a key does not survive."""
        end = self._count + len(keys)
        self._latest.update(zip(keys, range(self._count, end), strict=True))
        self._count = end
        self._key_bytes += sum(map(len, filter(None, keys)))
        if self._needed_bytes > self._memory_bytes:
            self._key_bytes = sum(map(len, filter(None, self._latest)))
            # If keys have repeated there is room, and it is not counted again too soon.
            if 2 * self._needed_bytes > self._memory_bytes:
                self._spill()

    def skip(self, count: int) -> None:
        """The next records do not survive, whatever their keys."""
        self._count += count

    def settle(self, checkpoint: Callable[[], None]) -> None:
        """No more records: find the survivors."""
        self._latest_numbers.reserve(self._count)
        if self._runs:
            self._spill()
            for start, end in self._ranges():
                checkpoint()
                latest = {digest: number for digest, number in self._read(start, end)}  # noqa: C416
                self._latest_numbers.update(latest.values())
        else:
            self._latest.pop(None, None)
            self._latest_numbers.update(self._latest.values())
            self._latest = {}
        self.close()

    def survivors(self, first: int, count: int) -> int:
        """Which of the records survive, the lowest bit being that of the first."""
        return self._latest_numbers.window(first, count)

    def close(self) -> None:
        """Leave nothing behind on the disk."""
        self._file = None
        if self._disk.exists(self._path):
            self._disk.remove(self._path)

    @property
    def _needed_bytes(self) -> int:
        return self._key_bytes + len(self._latest) * _ENTRY_MEMORY_BYTES

    def _spill(self) -> None:
        self._latest.pop(None, None)
        pack = _ENTRY.pack
        parts: list[list[bytes]] = [[] for _ in range(_SORTED_PARTS)]
        for key, number in self._latest.items():
            if key is not None:
                entry = pack(blake2b(key, digest_size=_DIGEST_BYTES).digest(), number)
                parts[entry[0]].append(entry)
        for part in parts:
            part.sort()
        entries = list(chain.from_iterable(parts))
        self._latest, self._key_bytes = {}, 0
        if self._file is None:
            self.close()
            self._file = self._disk.open(self._path)
        starts = array("I", [bisect_left(entries, start) for start in _SLOT_STARTS])
        starts.append(len(entries))
        self._runs.append(_Run(self._file.size, starts))
        self._file.append(b"".join(entries))

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Consecutive slots, as many at once as fit into memory."""
        limit = self._memory_bytes // _ENTRY_MEMORY_BYTES
        edges, held = [0], 0
        for slot in range(_SLOTS):
            size = sum(run.starts[slot + 1] - run.starts[slot] for run in self._runs)
            if held and held + size > limit:
                edges.append(slot)
                held = 0
            held += size
        return pairwise([*edges, _SLOTS])

    def _read(self, start: int, end: int) -> Iterator[tuple[bytes, int]]:
        """What all of the runs say of some slots, the latest run last."""
        return chain.from_iterable(self._read_run(run, start, end) for run in self._runs)

    def _read_run(self, run: _Run, start: int, end: int) -> Iterator[tuple[bytes, int]]:
        assert self._file is not None
        first, count = run.starts[start], run.starts[end] - run.starts[start]
        position = run.position + first * _ENTRY.size
        return _ENTRY.iter_unpack(self._file.read(position, count * _ENTRY.size))
