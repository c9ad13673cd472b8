"""The files of a partition's directory, read as they are: nothing is opened for writing, locked or
repaired, so that a broker may go on with them meanwhile.

What is wrong with a file is a `Damage` among what is found in it, with its position.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from pyk.log.producers import DamagedSnapshot, Producers
from pyk.log.transactions import AbortedTransaction
from pyk.wire.batch import HEADER_BYTES, BatchHeader, check_crc, peek_header
from pyk.wire.compression import CorruptBatch

SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_OFFSET_ENTRY: Final = struct.Struct(">II")
_TIME_ENTRY: Final = struct.Struct(">qI")
_TRANSACTION_ENTRY: Final = struct.Struct(">hqqqq")


class Damage(NamedTuple):
    position: int
    reason: str


class Batch(NamedTuple):
    position: int
    header: BatchHeader
    data: bytes
    is_whole: bool
    """Whether its CRC is right, so that its records are what was sent."""


def read_batches(path: Path) -> Iterator[Batch | Damage]:
    """The batches of a `.log` file, up to the first of which the size cannot be right."""
    with path.open("rb") as file:
        end = file.seek(0, 2)
        position = file.seek(0)
        while position < end:
            head = file.read(HEADER_BYTES)
            if not any(head) and _is_zero(file):
                # Kafka may allocate a segment before it writes to it.
                yield Damage(position, f"nothing but zeros in the last {end - position} bytes")
                return
            try:
                header = peek_header(head)
            except CorruptBatch as wrong:
                yield Damage(position, str(wrong))
                return
            data = head + file.read(header.size - HEADER_BYTES)
            if len(data) < header.size:
                reason = f"a batch of {header.size} bytes, of which {len(data)} are there"
                yield Damage(position, reason)
                return
            try:
                check_crc(data, 0, header)
                yield Batch(position, header, data, True)
            except CorruptBatch as wrong:
                yield Batch(position, header, data, False)
                yield Damage(position, str(wrong))
            position += header.size


def _is_zero(file: BinaryIO) -> bool:
    while data := file.read(64 * 1024):
        if any(data):
            return False
    return True


def read_offset_index(path: Path) -> Iterator[tuple[int, int] | Damage]:
    """Offsets and positions in the log. Each is looked up there, if the log is beside it."""
    base = base_offset(path)
    log = path.with_suffix(".log")
    previous = (-1, -1)
    entries, rest = _entries(path, _OFFSET_ENTRY)
    for at, (relative, position) in entries:
        yield base + relative, position
        if relative <= previous[0] or position <= previous[1]:
            yield Damage(at, "it is not after the entry before it")
        elif log.exists() and (reason := _misses(log, position, base + relative)):
            yield Damage(at, reason)
        previous = relative, position
    yield from rest


def _misses(log: Path, position: int, offset: int) -> str | None:
    """Why the batch for an entry is not where it says."""
    with log.open("rb") as file:
        file.seek(position)
        try:
            header = peek_header(file.read(HEADER_BYTES))
        except CorruptBatch as wrong:
            return f"there is no batch at {position} of the log: {wrong}"
    if header.base_offset > offset:
        return f"the batch at {position} of the log begins with {header.base_offset}"
    return None


def read_time_index(path: Path) -> Iterator[tuple[int, int] | Damage]:
    """Timestamps and offsets."""
    base = base_offset(path)
    previous: tuple[int, int] | None = None
    entries, rest = _entries(path, _TIME_ENTRY)
    for at, (timestamp, relative) in entries:
        yield timestamp, base + relative
        if previous and (timestamp <= previous[0] or relative < previous[1]):
            yield Damage(at, "it is not after the entry before it")
        previous = timestamp, relative
    yield from rest


def read_transaction_index(path: Path) -> Iterator[AbortedTransaction | Damage]:
    entries, rest = _entries(path, _TRANSACTION_ENTRY)
    for at, (version, *fields) in entries:
        if version != 0:
            yield Damage(at, f"an entry of version {version}")
            return
        yield AbortedTransaction(*fields)
    yield from rest


def read_snapshot(path: Path) -> Producers | Damage:
    producers = Producers()
    try:
        producers.load(path.read_bytes())
    except DamagedSnapshot as wrong:
        return Damage(0, str(wrong))
    return producers


def _entries(
    path: Path, shape: struct.Struct
) -> tuple[list[tuple[int, tuple[int, ...]]], list[Damage]]:
    """Positions and entries, up to the zeros with which Kafka fills an index in use; and what is
    wrong with the end of the file."""
    data = path.read_bytes()
    whole = len(data) - len(data) % shape.size
    used = whole
    while used and not any(data[used - shape.size : used]):
        used -= shape.size
    entries = [(at, shape.unpack_from(data, at)) for at in range(0, used, shape.size)]
    if whole == len(data):
        return entries, []
    return entries, [Damage(whole, f"{len(data) - whole} bytes that are no whole entry")]


def base_offset(path: Path) -> int:
    """The offset that a file's name says."""
    return int(path.name.split(".")[0])


def is_log_file(path: Path) -> bool:
    return path.suffix in SUFFIXES and path.name.split(".")[0].isdecimal()
